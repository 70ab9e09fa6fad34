"""Replaying a trace under many policies and capacities, miss-ratio curves, and bounds on what any policy reaches."""

from __future__ import annotations

from kvopt.simulator.miss_ratio import MissRatioCurve, MissRatioPoint, miss_ratio_curve
from kvopt.simulator.policy_source import PolicyLike
from kvopt.simulator.replay import replay
from kvopt.simulator.result import ReplayResult, ReplayRow
from kvopt.simulator.upper_bound import UpperBoundRow, UpperBounds, upper_bound, upper_bound_at

__all__ = [
    "MissRatioCurve",
    "MissRatioPoint",
    "PolicyLike",
    "ReplayResult",
    "ReplayRow",
    "UpperBoundRow",
    "UpperBounds",
    "miss_ratio_curve",
    "replay",
    "upper_bound",
    "upper_bound_at",
]
