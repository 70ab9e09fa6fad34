"""Replaying a trace under many policies and capacities, miss-ratio curves, bounds, and what they say to do."""

from __future__ import annotations

from kvopt.simulator.lru_curve import LruCurve
from kvopt.simulator.miss_ratio import MissRatioCurve, MissRatioPoint, miss_ratio_curve
from kvopt.simulator.policy_source import PolicyLike
from kvopt.simulator.regime import Regime, RegimeReport, Standing, regime_report
from kvopt.simulator.replay import replay
from kvopt.simulator.result import ReplayResult, ReplayRow
from kvopt.simulator.upper_bound import UpperBoundRow, UpperBounds, upper_bound, upper_bound_at

__all__ = [
    "LruCurve",
    "MissRatioCurve",
    "MissRatioPoint",
    "PolicyLike",
    "Regime",
    "RegimeReport",
    "ReplayResult",
    "ReplayRow",
    "Standing",
    "UpperBoundRow",
    "UpperBounds",
    "miss_ratio_curve",
    "regime_report",
    "replay",
    "upper_bound",
    "upper_bound_at",
]
