"""Replaying a trace under many policies and capacities, bounds and what they say to do, and timed simulation."""

from __future__ import annotations

from kvopt.simulator.clients import ClientOptions
from kvopt.simulator.explain import explain
from kvopt.simulator.limits import Limits
from kvopt.simulator.lru_curve import LruCurve
from kvopt.simulator.miss_ratio import MissRatioCurve, MissRatioPoint, miss_ratio_curve
from kvopt.simulator.policy_source import PolicyLike
from kvopt.simulator.regime import Regime, RegimeReport, Standing, regime_report
from kvopt.simulator.replay import learn, replay
from kvopt.simulator.result import ReplayResult, ReplayRow
from kvopt.simulator.retention import RetentionOptions
from kvopt.simulator.server import SimulationOptions
from kvopt.simulator.simulate import simulate
from kvopt.simulator.simulation_result import SimulationResult, SimulationRun, SimulationSummary
from kvopt.simulator.step_time import LinearStepTime, Profile, StepTime, load_profile
from kvopt.simulator.tier import TierOptions
from kvopt.simulator.upper_bound import UpperBoundRow, UpperBounds, upper_bound, upper_bound_at

__all__ = [
    "ClientOptions",
    "Limits",
    "LinearStepTime",
    "LruCurve",
    "MissRatioCurve",
    "MissRatioPoint",
    "PolicyLike",
    "Profile",
    "Regime",
    "RegimeReport",
    "ReplayResult",
    "ReplayRow",
    "RetentionOptions",
    "SimulationOptions",
    "SimulationResult",
    "SimulationRun",
    "SimulationSummary",
    "Standing",
    "StepTime",
    "TierOptions",
    "UpperBoundRow",
    "UpperBounds",
    "explain",
    "learn",
    "load_profile",
    "miss_ratio_curve",
    "regime_report",
    "replay",
    "simulate",
    "upper_bound",
    "upper_bound_at",
]
