"""Replaying a trace under many policies and capacities, and miss-ratio curves."""

from __future__ import annotations

from kvopt.simulator.miss_ratio import MissRatioCurve, MissRatioPoint, miss_ratio_curve
from kvopt.simulator.policy_source import PolicyLike
from kvopt.simulator.replay import replay
from kvopt.simulator.result import ReplayResult, ReplayRow

__all__ = ["MissRatioCurve", "MissRatioPoint", "PolicyLike", "ReplayResult", "ReplayRow", "miss_ratio_curve", "replay"]
