"""The part of pytest-benchmark's fixture that the suites use, with the types that it lacks itself, and their clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Benchmark(Protocol):
    """The `benchmark` fixture: https://pytest-benchmark.readthedocs.io."""

    group: str | None
    extra_info: dict[str, Any]
    stats: Any
    """None when pytest runs with --benchmark-disable."""

    def pedantic(
        self, target: Callable[..., T], args: Sequence[object] = (), *, rounds: int = 1, warmup_rounds: int = 0
    ) -> T:
        """Call `target(*args)` for each round, timed; returns its last result."""
        ...


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for.

    All engines compute on one thread, so this is the wall time of an idle machine, and comparisons hold on a busy one.
    """
    children = getrusage(RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
