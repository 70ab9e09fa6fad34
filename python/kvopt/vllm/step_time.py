"""How long a simulated engine step takes: T(q, s) summed over its requests, with the step's own cost paid once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvopt.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StepTime:
    """Milliseconds of a step, a new token, a cached one before it, a pair of both, and a decoding request."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0
    k3: float = 0.0
    decode: float = 0.0

    def step_ms(self, parts: Iterable[tuple[int, int]]) -> float:
        """Milliseconds of a step with these (new tokens, tokens before them), one pair a request."""
        total = self.k0
        for new, before in parts:
            total += self.k1 * new + self.k2 * before + self.k3 * new * before
            if new == 1 and before:
                total += self.decode
        return total

    def saved_ms(self, cached: int) -> float:
        """Milliseconds that a prefill of `cached` tokens from position 0 would add: k1·n + k3·n²/2."""
        return self.k1 * cached + self.k3 * cached * cached / 2.0


def step_time(prefill: str | Mapping[str, float] | None, decode_ms: float = 0.0) -> StepTime:
    """The model of time of a configuration's `prefill`; a step takes no time when that is None.

    Raises ConfigError for a name that kvopt.cost does not know.
    """
    if prefill is None:
        return StepTime(decode=decode_ms)
    if isinstance(prefill, Mapping):
        return StepTime(**prefill, decode=decode_ms)
    cost = _named_cost(prefill)
    return StepTime(cost.k0, cost.k1, cost.k2, cost.k3, decode_ms)


def _named_cost(name: str) -> Any:
    from kvopt import cost

    preset = getattr(cost, "prefill_preset", None)
    if preset is None:
        raise ConfigError(f"prefill: {name!r}: this release has no presets; give k0 to k3")
    return preset(name).cost
