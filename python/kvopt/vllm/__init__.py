"""KVopt inside a vLLM server: a plugin that is inert until asked, and executors and schedulers to name.

``--scheduler-cls kvopt.vllm.Scheduler`` and ``distributed_executor_backend="kvopt.vllm.SimulatedExecutor"`` resolve
here; vLLM itself is imported only then.
"""

from __future__ import annotations

from typing import Any

from kvopt.vllm.config import Config, parse_config, read_config

__all__ = ["Config", "Scheduler", "SimulatedExecutor", "parse_config", "read_config"]


def __getattr__(name: str) -> Any:
    if name == "Scheduler":
        from kvopt.vllm.scheduler import Scheduler

        return Scheduler
    if name == "SimulatedExecutor":
        from kvopt.vllm.executor import SimulatedExecutor

        return SimulatedExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
