"""Retention priorities by ranges of tokens, as TensorRT-LLM's `KvCacheRetentionConfig` takes them.

A range covers the blocks whose first token is in it. The pool must be built with ``retention=True`` and a policy that
looks at priorities, such as "priority". Call :func:`retain_ranges` right before the blocks are released: the clock of a
duration starts then.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvopt._core import Allocation, BlockPool
from kvopt.errors import ConfigError

DEFAULT_PRIORITY = 35
MAX_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class RetentionRange:
    """Tokens [start, end) of a request are kept with this priority for `duration` seconds.

    `end` None is the end of the request. `priority` is 0 (evict first) to 100 (evict last); after `duration`, infinite
    unless given, it is 35 again. Raises ConfigError, naming the field and its limits.
    """

    start: int
    end: int | None = None
    priority: int = DEFAULT_PRIORITY
    duration: float = math.inf

    def __post_init__(self) -> None:
        start = _whole("start", self.start)
        priority = _whole("priority", self.priority)
        if start < 0:
            raise ConfigError(f"start: token {start}; it must not be negative")
        if self.end is not None and _whole("end", self.end) <= start:
            raise ConfigError(f"end: token {self.end}; it must be after the start, {start}")
        if not 0 <= priority <= MAX_PRIORITY:
            raise ConfigError(f"priority: {priority}; it must be 0 to {MAX_PRIORITY}")
        if not self.duration >= 0:
            raise ConfigError(f"duration: {self.duration} s; it must be 0 or more")


def check_ranges(ranges: Sequence[RetentionRange]) -> list[RetentionRange]:
    """The ranges by rising start; ConfigError when two overlap, or one without an end is not the last."""
    ordered = sorted(ranges, key=lambda piece: piece.start)
    for before, after in itertools.pairwise(ordered):
        if before.end is None or before.end > after.start:
            end = "the end" if before.end is None else before.end
            raise ConfigError(
                f"ranges: tokens {before.start} to {end} overlap those from {after.start} on; each token has one range"
            )
    return ordered


def retain_ranges(
    pool: BlockPool,
    allocation: Allocation,
    ranges: Sequence[RetentionRange],
    *,
    block_tokens: int,
    now: float,
    lifetime: Literal["fixed", "refresh"] = "fixed",
) -> None:
    """Set the retention of an allocation's committed blocks, of all ranges or of none.

    Blocks outside all ranges keep what they have; what a range covers beyond the committed blocks is left out. `now` is
    seconds on the pool's clock; `lifetime` is "fixed" or "refresh" (a hit renews it). Raises ConfigError or
    StaleBlockError with nothing changed.
    """
    if _whole("block_tokens", block_tokens) < 1:
        raise ConfigError(f"block_tokens: {block_tokens}; it must be at least 1")
    for piece in check_ranges(ranges):
        first = min(-(-piece.start // block_tokens), allocation.committed)
        end = allocation.committed
        if piece.end is not None:
            end = min(-(-piece.end // block_tokens), end)
        pool.retain(
            allocation,
            first,
            end - first,
            priority=piece.priority,
            duration=piece.duration,
            lifetime=lifetime,
            now=now,
        )


def _whole(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ConfigError(f"{name}: {value!r} is not a whole number")
    return number
