"""What LRU saves at any capacity, and what a cache without limit would: the yardsticks of a regime report.

Larger caches hold longer requests, and a share over more requests is another share. So every figure here is over the
requests that fit into a capacity that the caller names, whatever the capacity of the cache that serves them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvopt import _core
from kvopt.cost import DEFAULT_P_STAR, check_p_star
from kvopt.simulator.measure import RequestWeights

if TYPE_CHECKING:
    from kvopt.simulator.replay import Rule
    from kvopt.workload.base import Trace


class LruCurve:
    """LRU on one trace. `worth` is the share of prefill cost saved or, under the flat rule, the block hit ratio.

    Under the prefix rule one pass gives every capacity above the longest request (Mattson et al., 1970); a smaller one
    costs a replay, which is kept. Under the flat rule `worth` and `reaching` know nothing. Raises ConfigError for a bad
    `p_star` (tokens).
    """

    def __init__(self, trace: Trace, *, rule: Rule = "prefix", p_star: float = DEFAULT_P_STAR) -> None:
        self._trace = trace
        self._flat = rule == "flat"
        self._p_star = check_p_star(p_star)
        self._weights = RequestWeights(trace, self._p_star)
        self._largest = trace.unique_blocks + trace.prefix.longest_request + 1
        self._replayed: dict[int, NDArray[np.uint32]] = {}

    def worth(self, capacity: int, fits: int) -> float | None:
        """What LRU is worth with `capacity` blocks, over the requests that fit into `fits` blocks; both at least 1."""
        return None if self._flat else self._share(self._hits(capacity), fits)

    def unlimited(self, fits: int) -> float:
        """What a cache that never evicts is worth, over the requests that fit into `fits` blocks."""
        return self._share(self._trace.prefix.shared_blocks, fits)

    def reaching(self, worth: float, above: int, fits: int) -> int | None:
        """The least number of blocks, `above` or more, with which LRU is worth so much; None where none is."""
        if self._flat or worth > self.unlimited(fits):
            return None
        low, high = above, max(above, self._largest)
        while low < high:
            middle = (low + high) // 2
            if self._share(self._hits(middle), fits) >= worth:
                high = middle
            else:
                low = middle + 1
        return low

    def slack_from(self, tolerance: float) -> int | None:
        """The least number of blocks with which LRU misses at most `tolerance` of worth, over all requests."""
        return self.reaching(self.unlimited(self._largest) - tolerance, self._longest + 1, self._largest)

    @property
    def _longest(self) -> int:
        return int(self._trace.prefix.longest_request)

    def _share(self, hits: NDArray[Any], fits: int) -> float:
        skipped = np.zeros(self._trace.requests, np.bool_) if self._flat else self._weights.blocks >= fits
        figures = self._weights.figures(hits, skipped, prefix=not self._flat)
        return figures.block_hit if self._flat else figures.cost_saved

    def _hits(self, capacity: int) -> NDArray[np.uint32]:
        if capacity > self._longest:
            return self._distances.request_hits_at(capacity)
        if capacity not in self._replayed:
            counts = _core.replay(
                self._trace.prefix,
                self._trace.time,
                "lru",
                capacity,
                block_tokens=self._trace.block_tokens,
                p_star=self._p_star,
            )
            self._replayed[capacity] = counts.hit_blocks
        return self._replayed[capacity]

    @cached_property
    def _distances(self) -> _core.StackDistances:
        return _core.lru_stack_distances(self._trace.prefix)
