"""Schedulers by name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvopt.errors import ConfigError, SchedulerError, UnknownSchedulerError
from kvopt.scheduler.base import Scheduler
from kvopt.scheduler.cache_aware import CacheAwareScheduler
from kvopt.scheduler.fifo import FifoScheduler
from kvopt.scheduler.priority import PriorityScheduler
from kvopt.scheduler.program import ProgramScheduler
from kvopt.scheduler.shortest_prefill import ShortestPrefillScheduler


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """A scheduler by its name; `parameters` maps names to defaults, all numbers from 0 up."""

    name: str
    summary: str
    make: Callable[..., Scheduler]
    parameters: Mapping[str, float] = field(default_factory=dict)


_SCHEDULERS: dict[str, SchedulerInfo] = {}


def register_scheduler(info: SchedulerInfo) -> None:
    """Make a scheduler known by name. Raises ConfigError when the name is taken or holds other than a-z, 0-9 and -."""
    if not info.name or not all(letter.isascii() and (letter.isalnum() or letter == "-") for letter in info.name):
        raise ConfigError(f"scheduler name {info.name!r}: use letters, digits and dashes")
    if info.name in _SCHEDULERS:
        raise ConfigError(f"there is a scheduler {info.name!r} already")
    _SCHEDULERS[info.name] = info


def schedulers() -> list[SchedulerInfo]:
    """All schedulers that are known by name."""
    return list(_SCHEDULERS.values())


def parse_scheduler(spec: str) -> tuple[SchedulerInfo, dict[str, float]]:
    """The scheduler and settings of a spec such as "cache-aware:bound=10".

    Raises UnknownSchedulerError, which names the nearest; ConfigError for a setting that is unknown, given twice, or
    no finite number from 0 up.
    """
    name, _, rest = spec.strip().partition(":")
    info = _SCHEDULERS.get(name)
    if info is None:
        near = difflib.get_close_matches(name, _SCHEDULERS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownSchedulerError(f"unknown scheduler {name!r}: {hint}known: {', '.join(_SCHEDULERS)}")
    settings: dict[str, float] = {}
    for piece in rest.split(",") if rest else ():
        key, _, text = (part.strip() for part in piece.partition("="))
        if key not in info.parameters:
            known = ", ".join(info.parameters) or "none"
            raise ConfigError(f"scheduler {spec!r}: no setting {key!r}; settings of {name}: {known}")
        if key in settings:
            raise ConfigError(f"scheduler {spec!r}: {key} is given twice")
        settings[key] = _number(spec, key, text)
    return info, settings


def make_scheduler(scheduler: str | type[Scheduler]) -> Scheduler:
    """A new scheduler from a spec, or from a class that is called without arguments.

    Raises what `parse_scheduler` does, ConfigError for anything else, SchedulerError when the class raises.
    """
    if isinstance(scheduler, str):
        info, settings = parse_scheduler(scheduler)
        return info.make(**settings)
    if not (isinstance(scheduler, type) and issubclass(scheduler, Scheduler)):
        raise ConfigError(f"scheduler: {scheduler!r} is neither a scheduler's name nor a kvopt.scheduler.Scheduler")
    missing = getattr(scheduler, "__abstractmethods__", None)
    if missing:
        raise ConfigError(f"scheduler: {scheduler.__name__} lacks the methods {', '.join(sorted(missing))}")
    try:
        return scheduler()
    except Exception as error:
        raise SchedulerError(f"{scheduler.__name__}() raised {type(error).__name__}: {error}") from error


def _number(spec: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"scheduler {spec!r}: {key} is {text!r}; it must be a finite number from 0 up")
    return value


for _info in (
    SchedulerInfo("fifo", "first come, first served: vLLM's default", FifoScheduler),
    SchedulerInfo("priority", "lowest priority value first, as vLLM's priority scheduling", PriorityScheduler),
    SchedulerInfo("shortest-prefill", "fewest tokens to prefill first", ShortestPrefillScheduler, {"aging": 0.0}),
    SchedulerInfo("program", "by the arrival of the session, then of the request", ProgramScheduler),
    SchedulerInfo(
        "cache-aware", "longest cached prefix first, within a bound on waiting", CacheAwareScheduler, {"bound": 30.0}
    ),
):
    register_scheduler(_info)
