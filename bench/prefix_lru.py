"""A prefix LRU in plain Python: what one writes in an afternoon to answer the same question."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice


def ordered_dict_prefix_lru(requests: Sequence[Sequence[int]], capacity: int) -> list[int]:
    """Leading blocks of each request found cached, by the rule of KVopt's replay, in a cache of `capacity` blocks.

    A request is touched from its last block to its first, so among blocks of one age the deepest is always the oldest:
    the end of the dictionary never holds a block with a cached child. Requests that do not fit are skipped (0 hits).
    """
    cached: OrderedDict[int, None] = OrderedDict()
    touch, forget = cached.move_to_end, cached.popitem
    hits = []
    for blocks in requests:
        hit = 0
        if len(blocks) < capacity:
            for block in blocks:
                if block not in cached:
                    break
                hit += 1
            for block in reversed(blocks[hit:]):
                cached[block] = None
            for block in islice(reversed(blocks), len(blocks) - hit, None):
                touch(block)
            while len(cached) > capacity:
                forget(last=False)
        hits.append(hit)
    return hits
