"""A second tier for what the pool evicts: blocks in CPU memory, loaded back while others compute.

As vLLM's offloading connector: what a request has computed is copied to the tier when it lets go of its blocks (at no
cost in time: the copies run beside the steps), the tier keeps it in LRU order, and a waiting request that finds more
there than in the pool has it loaded into blocks that it holds from then on, before it runs. One load after another
crosses the link.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from kvopt.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TierOptions:
    """Size and speed of the tier. Raises ConfigError."""

    blocks: int
    """Capacity."""
    block_ms: float
    """Milliseconds to load a block: its bytes over the bandwidth."""
    latency_ms: float = 0.0
    """Milliseconds before each load."""

    def __post_init__(self) -> None:
        if isinstance(self.blocks, bool) or not isinstance(self.blocks, int) or not 1 <= self.blocks <= 2**31:
            raise ConfigError(f"tier: blocks is {self.blocks!r}; it must be a whole number from 1 to 2^31")
        for name in ("block_ms", "latency_ms"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise ConfigError(f"tier: {name} is {value!r}; it must be a finite number of ms from 0 up")

    @classmethod
    def parse(cls, spec: str) -> TierOptions:
        """The options of a spec such as "blocks=200000,block_ms=0.17,latency_ms=0.1". Raises ConfigError."""
        known = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        for piece in spec.split(","):
            key, _, text = (part.strip() for part in piece.partition("="))
            if key not in known or key in values:
                raise ConfigError(f"tier {spec!r}: {key!r} is unknown or given twice; give {', '.join(known)}")
            try:
                values[key] = int(text) if key == "blocks" else float(text)
            except ValueError:
                raise ConfigError(f"tier {spec!r}: {key} is {text!r}, not a number") from None
        missing = [name for name in ("blocks", "block_ms") if name not in values]
        if missing:
            raise ConfigError(f"tier {spec!r}: {missing[0]} is missing")
        return cls(int(values["blocks"]), values["block_ms"], values.get("latency_ms", 0.0))
