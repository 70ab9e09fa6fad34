"""What a session leaves in the cache, in blocks."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import NamedTuple

from kvopt.errors import ConfigError


class Footprint(NamedTuple):
    """`blocks` in all, of which the first `shared` are also those of others.

    `group` names the shared head: sessions with one group share it, and it is charged once.
    """

    blocks: int
    shared: int = 0
    group: Hashable = None

    def check(self) -> None:
        """Raise ConfigError unless both are whole numbers with 0 ≤ shared ≤ blocks."""
        blocks = whole_blocks("footprint.blocks", self.blocks)
        if whole_blocks("footprint.shared", self.shared) > blocks:
            raise ConfigError(f"footprint.shared: {self.shared}; it must be at most {blocks}, the blocks in all")


def whole_blocks(name: str, blocks: int) -> int:
    """The number as an int; ConfigError, with the argument's name, unless it is a whole number from 0."""
    try:
        number = -1 if isinstance(blocks, bool) else operator.index(blocks)
    except TypeError:
        number = -1
    if number < 0:
        raise ConfigError(f"{name}: {blocks!r}; it must be a whole number of blocks from 0")
    return number
