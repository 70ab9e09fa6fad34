"""How long a simulated engine step takes: T(q, s) summed over its requests, with the step's own cost paid once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvopt.cost import PrefillCost


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


def step_time(prefill: PrefillCost | None, decode_ms: float = 0.0) -> StepTime:
    """The model of time of a configuration's `prefill`; a step takes no time when that is None."""
    if prefill is None:
        return StepTime(decode=decode_ms)
    return StepTime(prefill.k0, prefill.k1, prefill.k2, prefill.k3, decode_ms)
