"""Retention and scheduling for sessions that come back."""

from __future__ import annotations

from kvopt.continuum.coordinator import Coordinator
from kvopt.continuum.curve import ReturnCurve
from kvopt.continuum.footprint import Footprint
from kvopt.continuum.history import GapHistory
from kvopt.continuum.loss import LossOfTokens
from kvopt.continuum.options import ContinuumOptions
from kvopt.continuum.pool import NativePool, ProtectedPool
from kvopt.continuum.record import ClientRecord, parse_record
from kvopt.continuum.retention import RetentionManager
from kvopt.continuum.selection import Candidate, ProgramSelection, Standing
from kvopt.continuum.ttl import Decision, Question, TtlRule
from kvopt.continuum.ttl_rules import TTL_RULES, make_ttl_rule

__all__ = [
    "TTL_RULES",
    "Candidate",
    "ClientRecord",
    "ContinuumOptions",
    "Coordinator",
    "Decision",
    "Footprint",
    "GapHistory",
    "LossOfTokens",
    "NativePool",
    "ProgramSelection",
    "ProtectedPool",
    "Question",
    "RetentionManager",
    "ReturnCurve",
    "Standing",
    "TtlRule",
    "make_ttl_rule",
    "parse_record",
]
