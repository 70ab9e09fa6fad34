"""Getting a lost prefix back: compute it again, load it from a lower tier, or both at once.

Loading n tokens takes latency + bytes(n) ÷ bandwidth. The tail of a prefix is the dearest part to compute and as dear
as any to load; so the best of both computes the head while the tail is loaded, and ends when the slower of the two does
(Cake, ICML'25):  min over k of  max(prefill of the first k, reload of the rest).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from kvopt.cost.geometry import ModelGeometry
from kvopt.cost.prefill import DEFAULT_STEP_TOKENS, PrefillCost
from kvopt.errors import ConfigError

_RATES = {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate(("m", "g", "t"), start=2)
    for suffix, base in (("b/s", 1000), ("ib/s", 1024))
}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*(\D+)")


@dataclass(frozen=True, slots=True)
class Tier:
    """A place below the GPU's memory that keeps blocks.

    Attributes:
        name: what it is called, such as "cpu".
        bandwidth: bytes a second into each GPU.
        latency: seconds before the first byte.

    Raises ConfigError unless the bandwidth is a finite number above 0 and the latency a finite number of 0 or more.
    """

    name: str
    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.bandwidth < math.inf:
            raise ConfigError(f"tier {self.name}: bandwidth {self.bandwidth!r} B/s is not a finite number above 0")
        if not 0.0 <= self.latency < math.inf:
            raise ConfigError(f"tier {self.name}: latency {self.latency!r} s is not a finite number of 0 or more")

    def reload_ms(self, size: float) -> float:
        """Milliseconds to load `size` bytes; 0 for none. Raises ConfigError below 0."""
        if not 0.0 <= size < math.inf:
            raise ConfigError(f"tier {self.name}: {size!r} bytes is not a finite number of 0 or more")
        return 1000.0 * (self.latency + size / self.bandwidth) if size else 0.0


@dataclass(frozen=True, slots=True)
class Restore:
    """One way to get a prefix back.

    Attributes:
        way: "recompute" all, "reload" all, or "split".
        ms: milliseconds that it takes.
        recomputed: tokens at the head that are computed.
        reloaded: tokens behind them that are loaded.
    """

    way: Literal["recompute", "reload", "split"]
    ms: float
    recomputed: int
    reloaded: int


@dataclass(frozen=True, slots=True)
class LostPrefix:
    """Tokens whose KV is lost to the GPU, and what computing and loading them takes.

    Attributes:
        cost: the prefill cost.
        model: the geometry, for the bytes.
        tokens: how many are lost.
        cached: tokens in front of them that are still there.
        block_tokens: a split is at a multiple of these.
        tensor_parallel: GPUs, each of which loads its own share over its own link.
        step_tokens: tokens of a prefill step.

    Raises ConfigError for counts below their least.
    """

    cost: PrefillCost
    model: ModelGeometry
    tokens: int
    cached: int = 0
    block_tokens: int = 16
    tensor_parallel: int = 1
    step_tokens: int = DEFAULT_STEP_TOKENS

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("cached", 0), ("block_tokens", 1), ("step_tokens", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ConfigError(f"{name}: {value!r} is not a whole number of {least} or more")
        self.model.check_tensor_parallel(self.tensor_parallel)

    def recompute_ms(self, head: int | None = None) -> float:
        """Milliseconds to compute the first `head` lost tokens, by default all."""
        return self.cost.prefill_ms(self.tokens if head is None else head, self.cached, step_tokens=self.step_tokens)

    def kv_bytes(self, head: int = 0) -> int:
        """Bytes on each GPU of what lies behind the first `head` lost tokens."""
        return self.model.kv_bytes(
            self.cached + self.tokens, cached=self.cached + head, tensor_parallel=self.tensor_parallel
        )

    def recompute(self) -> Restore:
        """Compute all of it."""
        return Restore("recompute", self.recompute_ms(), self.tokens, 0)

    def reload(self, tier: Tier) -> Restore:
        """Load all of it."""
        return Restore("reload", tier.reload_ms(self.kv_bytes()), 0, self.tokens)

    def split(self, tier: Tier) -> Restore:
        """Compute the head while the tail is loaded, cut at the best block. O(log tokens).

        Where a prefix has one block there is nothing to split: the better of the two others.
        """
        low, high = 0, -(-self.tokens // self.block_tokens)  # blocks; the last may be shorter
        while high - low > 1:  # computing grows with the cut, loading falls
            middle = (low + high) // 2
            head = middle * self.block_tokens
            if self.recompute_ms(head) <= tier.reload_ms(self.kv_bytes(head)):
                low = middle
            else:
                high = middle
        ways = [self._cut_at(min(blocks * self.block_tokens, self.tokens), tier) for blocks in (low, high)]
        return min(ways, key=lambda way: way.ms)

    def best(self, tier: Tier | None) -> Restore:
        """The quickest of recompute, reload and split: B, what losing the tokens costs. Without a tier, recompute."""
        if tier is None:
            return self.recompute()
        return min(self.reload(tier), self.recompute(), self.split(tier), key=lambda way: way.ms)

    def break_even_bandwidth(self, latency: float = 0.0) -> float:
        """Bytes a second from which on loading all beats computing all; infinite when the latency alone is longer."""
        seconds = self.recompute_ms() / 1000.0 - latency
        return self.kv_bytes() / seconds if seconds > 0.0 else math.inf

    def _cut_at(self, head: int, tier: Tier) -> Restore:
        if head == 0:
            return self.reload(tier)
        if head == self.tokens:
            return self.recompute()
        ms = max(self.recompute_ms(head), tier.reload_ms(self.kv_bytes(head)))
        return Restore("split", ms, head, self.tokens - head)


def parse_tier(text: str) -> Tier:
    """A tier written NAME:BANDWIDTH or NAME:BANDWIDTH:LATENCY, such as "cpu:50GB/s:10us". Raises ConfigError."""
    name, *rest = (part.strip() for part in text.split(":"))
    if not name or not 1 <= len(rest) <= 2:
        raise ConfigError(f"tier {text!r}: write NAME:BANDWIDTH:LATENCY, such as cpu:50GB/s:10us")
    bandwidth = _quantity(rest[0], _RATES, f"tier {text!r}: bandwidth")
    latency = _quantity(rest[1], _TIMES, f"tier {text!r}: latency") if len(rest) == 2 else 0.0
    return Tier(name, bandwidth, latency)


def _quantity(text: str, units: dict[str, float] | dict[str, int], what: str) -> float:
    match = _QUANTITY.fullmatch(text)
    unit = match.group(2).strip().lower() if match else ""
    if match is None or unit not in units:
        raise ConfigError(f"{what} {text!r} is not a number and one of {', '.join(units)}")
    return float(match.group(1)) * units[unit]
