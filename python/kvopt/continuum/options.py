"""The settings of a coordinator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kvopt.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ContinuumOptions:
    """Settings, all with defaults. Raises ConfigError, naming field, value and limit.

    Attributes:
        ttl: the rule for the TTL, such as "index", "paper" or "fixed:seconds=2"; see ``TTL_RULES``.
        leases: when blocks are leased, within the pool's lease budget: "scarce", while memory has a price; "always", as
            Continuum pins; "never".
        pace: tell sessions apart by how long they were usually away.
        block_tokens: tokens in a block.
        shrinkage, memory: of the histories, in gaps; see GapHistory.
        starvation_bound, ageing: of the order; see ProgramSelection.
        points: of priority a doubling of the value; see RetentionManager.
        longest_hold: seconds after which no lease holds on.
        time_constant: seconds over which the price of memory and the rate of releases are means.
        forget_after: seconds idle after which a session is forgotten.
        most_sessions: how many sessions are remembered at most.
    """

    ttl: str = "index"
    leases: Literal["never", "scarce", "always"] = "scarce"
    pace: bool = True
    block_tokens: int = 16
    shrinkage: float = 15.0
    memory: float = 2000.0
    starvation_bound: float = 30.0
    ageing: float = 0.0
    points: float = 8.0
    longest_hold: float = 600.0
    time_constant: float = 20.0
    forget_after: float = 3600.0
    most_sessions: int = 100_000

    def __post_init__(self) -> None:
        if self.leases not in {"never", "scarce", "always"}:
            raise ConfigError(f"leases: {self.leases!r}; it must be 'never', 'scarce' or 'always'")
        for name in ("longest_hold", "time_constant", "forget_after"):
            value = getattr(self, name)
            if not 0.0 < value < math.inf:
                raise ConfigError(f"{name}: {value!r}; it must be a number of seconds above 0")
        for name, least in (("block_tokens", 1), ("most_sessions", 1)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise ConfigError(f"{name}: {getattr(self, name)!r}; it must be a whole number from {least}")
