"""What a server or a simulation measures: samples, series over time, events, and their summaries."""

from __future__ import annotations

from kvopt.metrics.collector import CAUSES, LATENCIES, Collector, PrefillLedger, Totals
from kvopt.metrics.events import EventKind, EventLog
from kvopt.metrics.sample import ExactSample, QuantileSketch, Sample
from kvopt.metrics.series import TimeSeries
from kvopt.metrics.summary import Confidence, Distribution, confidence

__all__ = [
    "CAUSES",
    "LATENCIES",
    "Collector",
    "Confidence",
    "Distribution",
    "EventKind",
    "EventLog",
    "ExactSample",
    "PrefillLedger",
    "QuantileSketch",
    "Sample",
    "TimeSeries",
    "Totals",
    "confidence",
]
