"""Filling a block pool the way a server does: generated coding agents whose prompts grow turn by turn.

The pool is full of chains of very different length and age, some of them hit again and again. `AgentLoad` goes on with
the same sessions between measured calls, so that measuring does not turn the pool into something else.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray

from kvopt._core import BlockPool
from kvopt.workload import CodingAgents

Keys = NDArray[np.uint64]


def block_keys(numbers: NDArray[np.uint64]) -> Keys:
    """A 64-bit hash of each number (SplitMix64), as an engine's block hashes look."""
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class AgentLoad:
    """Agents' requests, one after another, put through a pool; requests that fill more than a third of it are left out.

    `sessions` should have more blocks than the pool. When all requests are done the same sessions come again.
    """

    def __init__(self, pool: BlockPool, sessions: int) -> None:
        self.pool = pool
        self.now = 0.0
        trace = CodingAgents(sessions=sessions, arrival_gap=10.0).load()
        prefix = trace.prefix
        self._keys = block_keys(np.arange(prefix.unique_blocks, dtype=np.uint64))
        self._requests = [
            (prefix.chain(request), int(trace.session[request]))
            for request in range(prefix.requests)
            if 0 < prefix.shared_blocks[request] + prefix.new_blocks[request] <= pool.capacity // 3
        ]
        self._next = 0
        self._fresh = count(1)

    def serve(self, keys: Keys) -> int:
        """One request from acquire to release; returns how many blocks it stored."""
        self.now += 1.0
        allocation = self.pool.acquire(keys, now=self.now)
        hit = allocation.hit
        self.pool.commit(allocation, keys[hit:], now=self.now)
        self.pool.release(allocation, now=self.now)
        return len(keys) - hit

    def run(self, blocks: int) -> None:
        """Serve agents until they have stored at least so many blocks and no block of the pool is empty."""
        while blocks > 0 or self.pool.counts()["empty"] > 0:
            blocks -= self.serve(self._prompt(self._next))
            self._next += 1

    def one_off(self, blocks: int) -> Keys:
        """Keys that no request has had."""
        start = next(self._fresh) << 32
        return block_keys(np.arange(start, start + blocks, dtype=np.uint64))

    def recent_prompts(self, blocks: int, most: int) -> list[Keys]:
        """The first `blocks` keys of the latest prompts of at most so many sessions, all of them cached."""
        found: dict[int, Keys] = {}
        for request in range(self._next - 1, max(-1, self._next - 1 - len(self._requests)), -1):
            _, session = self._requests[request % len(self._requests)]
            if session in found:
                continue
            prompt = self._prompt(request)[:blocks]
            if len(prompt) == blocks and self.pool.match(prompt) == blocks:
                found[session] = prompt
                if len(found) == most:
                    break
        return list(found.values())

    def _prompt(self, request: int) -> Keys:
        chain, _ = self._requests[request % len(self._requests)]
        return self._keys[chain]
