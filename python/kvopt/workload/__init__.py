"""Workloads: what arrives, when, and which blocks it shares. Readers, generators, merging, and our own file format."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvopt.workload.base import Progress, StopReason, Trace, Workload
    from kvopt.workload.builtin import default_workload
    from kvopt.workload.generate_agents import CodingAgents
    from kvopt.workload.generate_chat import MultiTurnChat
    from kvopt.workload.generate_prompts import SharedPrompts
    from kvopt.workload.generate_scans import OneOffRequests
    from kvopt.workload.lengths_csv import LengthsOnly, read_lengths
    from kvopt.workload.merge import Mixture, merge_traces
    from kvopt.workload.open_trace import TraceFile, read_trace
    from kvopt.workload.parquet import read_parquet, write_parquet
    from kvopt.workload.sessions import take_sessions

__all__ = [
    "CodingAgents",
    "LengthsOnly",
    "Mixture",
    "MultiTurnChat",
    "OneOffRequests",
    "Progress",
    "SharedPrompts",
    "StopReason",
    "Trace",
    "TraceFile",
    "Workload",
    "default_workload",
    "merge_traces",
    "read_lengths",
    "read_parquet",
    "read_trace",
    "take_sessions",
    "write_parquet",
]

_HOME = {
    "CodingAgents": "generate_agents",
    "LengthsOnly": "lengths_csv",
    "Mixture": "merge",
    "MultiTurnChat": "generate_chat",
    "OneOffRequests": "generate_scans",
    "Progress": "base",
    "SharedPrompts": "generate_prompts",
    "StopReason": "base",
    "Trace": "base",
    "TraceFile": "open_trace",
    "Workload": "base",
    "default_workload": "builtin",
    "merge_traces": "merge",
    "read_lengths": "lengths_csv",
    "read_parquet": "parquet",
    "read_trace": "open_trace",
    "take_sessions": "sessions",
    "write_parquet": "parquet",
}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used; JSON and Parquet libraries load only with their readers."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
