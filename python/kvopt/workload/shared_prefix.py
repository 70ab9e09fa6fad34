"""Block ids that sessions of one model have in common: the tool definitions and the system prompt at the head."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = 2**64 - 1


class SharedPrefixes:
    """Makes block ids global: the leading blocks of a scope become those of its model, the others stay its own.

    A scope (a session, or a sub-agent of one) belongs to the model of its first request. Its head is the head of that
    request; a later request shares as much of it as its own ids show.
    """

    def __init__(self) -> None:
        self._heads: dict[int, tuple[np.uint64, NDArray[np.uint64]]] = {}

    def globalized(self, ids: NDArray[np.uint64], scope: int, model: str, shared_blocks: int) -> NDArray[np.uint64]:
        """The ids of one request (uint64[n]) of ``scope``, of whose head ``shared_blocks`` blocks are common."""
        if scope not in self._heads:
            self._heads[scope] = (_salt(f"model {model}"), ids[:shared_blocks].copy())
        salt, head = self._heads[scope]
        compared = min(len(head), len(ids))
        differs = head[:compared] != ids[:compared]
        common = int(np.argmax(differs)) if differs.any() else compared
        result = ids ^ _salt(f"scope {scope}")
        result[:common] = np.arange(common, dtype=np.uint64) ^ salt
        return result


def _salt(name: str) -> np.uint64:
    """64 well-mixed bits, the same in every run: FNV-1a, finished by the mixer of SplitMix64."""
    x = 0xCBF29CE484222325
    for byte in name.encode():
        x = (x ^ byte) * 0x100000001B3 & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return np.uint64(x ^ (x >> 31))
