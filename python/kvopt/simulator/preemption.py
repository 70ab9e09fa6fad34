"""Who gives way when a running request needs a block and none can be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kvopt.errors import ConfigError
from kvopt.scheduler import Request

Victim: TypeAlias = Callable[[dict[int, Request], Callable[[Request], float]], Request]
"""Names one of the running requests (by id, in the order of admission), given the milliseconds that computing a
request's tokens again would take."""


def last(running: dict[int, Request], loss: Callable[[Request], float]) -> Request:
    """The request admitted last, as vLLM under first come, first served."""
    return running[next(reversed(running))]


def by_priority(running: dict[int, Request], loss: Callable[[Request], float]) -> Request:
    """The highest priority value, then the latest arrival, as vLLM under priority scheduling."""
    return max(running.values(), key=lambda request: (request.priority, request.arrival))


def by_cost(running: dict[int, Request], loss: Callable[[Request], float]) -> Request:
    """The request whose tokens take the least prefill to compute again, of equals the one admitted last."""
    return min(running.values(), key=lambda request: (loss(request), -request.order))


PREEMPTION: dict[str, Victim] = {"last": last, "priority": by_priority, "cost": by_cost}
"""The ways by name."""


def victim_chooser(name: str) -> Victim:
    """The way of this name; ConfigError names those that there are."""
    found = PREEMPTION.get(name)
    if found is None:
        raise ConfigError(f"preemption: {name!r} is none of {', '.join(PREEMPTION)}")
    return found
