"""The blocks of a live cache: the native pool, and handles on it by request id."""

from __future__ import annotations

from kvopt._core import Allocation, BlockPool, RunTable
from kvopt.cache.manager import CacheManager, RequestFacts
from kvopt.cache.state import Band, CacheState, PrefixUse

__all__ = ["Allocation", "Band", "BlockPool", "CacheManager", "CacheState", "PrefixUse", "RequestFacts", "RunTable"]
