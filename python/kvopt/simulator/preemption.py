"""Who gives way when a running request needs a block and none can be had."""

from __future__ import annotations

from kvopt.errors import ConfigError

PREEMPTION = {
    "last": "the request admitted last, as vLLM under first come, first served",
    "priority": "the highest priority value, then the latest arrival, as vLLM under priority scheduling",
    "cost": "whose tokens take the least prefill to compute again, of equals the one admitted last",
}
"""The ways by name."""


def check_preemption(name: str) -> str:
    """The name of a way; ConfigError names those that there are."""
    if name not in PREEMPTION:
        raise ConfigError(f"preemption: {name!r} is none of {', '.join(PREEMPTION)}")
    return name
