"""The blocks of a live cache: the native pool, and handles on it by request id."""

from __future__ import annotations

from kvopt._core import Allocation, BlockPool, BlockValue, RunTable
from kvopt.cache.explanation import Explanation
from kvopt.cache.manager import CacheManager, RequestFacts
from kvopt.cache.state import Band, CacheState, PrefixUse

__all__ = [
    "Allocation",
    "Band",
    "BlockPool",
    "BlockValue",
    "CacheManager",
    "CacheState",
    "Explanation",
    "PrefixUse",
    "RequestFacts",
    "RunTable",
]
