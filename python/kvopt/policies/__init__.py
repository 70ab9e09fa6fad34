"""Eviction policies: the interface, the built-in ones, and those written elsewhere."""

from __future__ import annotations

from kvopt._core import PolicyInfo, PolicyParameter, RequestInfo, StopReason, parse_policy, policies
from kvopt.policies.base import Policy
from kvopt.policies.dummy import DummyPolicy
from kvopt.policies.library import load_library
from kvopt.policies.ranking import RankingPolicy
from kvopt.policies.retention import RetentionRange, retain_ranges

__all__ = [
    "DummyPolicy",
    "Policy",
    "PolicyInfo",
    "PolicyParameter",
    "RankingPolicy",
    "RequestInfo",
    "RetentionRange",
    "StopReason",
    "load_library",
    "parse_policy",
    "policies",
    "retain_ranges",
]
