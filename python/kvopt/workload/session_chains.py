"""Building a trace out of chains: requests that each extend the prompt of the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.workload.base import COLUMNS, UNKNOWN, Trace
from kvopt.workload.merge import reordered_prefix

NO_PROMPT = -1


class SessionChains:
    """Collects chains in any order and makes one trace of them, sorted by time.

    A chain's first request may begin with a common prompt; all chains with the same prompt share its full blocks.
    """

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._columns: dict[str, list[NDArray[Any]]] = {column: [] for column in COLUMNS}
        self._parent: list[NDArray[np.int64]] = []
        self._shared: list[NDArray[np.int64]] = []
        self._blocks: list[NDArray[np.int64]] = []
        self._prompt: list[NDArray[np.int64]] = []
        self._requests = 0

    def add_chain(self, columns: Mapping[str, ArrayLike], shared_tokens: ArrayLike, prompt: int = NO_PROMPT) -> None:
        """Add one chain of n requests.

        Args:
            columns: columns of :class:`~kvopt.workload.base.Trace`, each [n] or one value for all; times rise.
            shared_tokens: leading tokens in common with the request before, [n]; at place 0 with the prompt.
            prompt: number of the common prompt at the head of the chain.
        """
        requests = len(np.asarray(columns["time"]))
        parent = np.arange(self._requests - 1, self._requests + requests - 1)
        parent[0] = -1
        self._add(columns, parent, np.asarray(shared_tokens), np.full(requests, prompt))

    def add_single(self, columns: Mapping[str, ArrayLike], shared_tokens: ArrayLike, prompt: ArrayLike) -> None:
        """Add n chains of one request each: columns [n], leading tokens [n] of the prompts with these numbers [n]."""
        requests = len(np.asarray(columns["time"]))
        self._add(columns, np.full(requests, -1), np.asarray(shared_tokens), np.asarray(prompt))

    def _add(
        self,
        columns: Mapping[str, ArrayLike],
        parent: NDArray[np.int64],
        shared_tokens: NDArray[Any],
        prompt: NDArray[np.int64],
    ) -> None:
        requests = len(parent)
        for column, dtype in COLUMNS.items():
            values = np.asarray(columns.get(column, UNKNOWN.get(column)))
            kept = np.int64 if np.dtype(dtype).kind in "iu" else dtype  # wide: the trace refuses what does not fit
            self._columns[column].append(np.broadcast_to(values, (requests,)).astype(kept))
        blocks = self._columns["input_tokens"][-1] // self._block_tokens
        before = np.concatenate((blocks[:1], blocks[:-1]))
        room = np.where(parent >= 0, np.minimum(blocks, before), blocks)
        self._shared.append(np.minimum(shared_tokens.astype(np.int64) // self._block_tokens, room))
        self._blocks.append(blocks)
        self._parent.append(parent)
        self._prompt.append(prompt)
        self._requests += requests

    def trace(self, name: str, source: Mapping[str, Any], tool_names: tuple[str, ...] = ()) -> Trace:
        """The trace of all chains; requests at the same time stay in the order of adding."""
        columns = {column: np.concatenate(values) for column, values in self._columns.items()}
        order = np.argsort(columns["time"], kind="stable")
        parent = np.concatenate(self._parent)
        shared = np.concatenate(self._shared)
        blocks = np.concatenate(self._blocks)
        self._share_prompts(order, parent, shared, np.concatenate(self._prompt))
        prefix = reordered_prefix(parent, shared.astype(np.uint32), (blocks - shared).astype(np.uint32), order)
        return Trace.from_columns(
            prefix,
            {column: values[order] for column, values in columns.items()},
            name=name,
            block_tokens=self._block_tokens,
            tool_names=tool_names,
            source=source,
        )

    @staticmethod
    def _share_prompts(
        order: NDArray[np.int64], parent: NDArray[np.int64], shared: NDArray[np.int64], prompt: NDArray[np.int64]
    ) -> None:
        """Point each chain at the earlier one that holds most of its prompt, and cut what it shares to that much."""
        heads = order[parent[order] < 0]
        shared[heads[prompt[heads] == NO_PROMPT]] = 0
        heads = heads[prompt[heads] != NO_PROMPT]
        heads = heads[np.argsort(prompt[heads], kind="stable")]
        for group in np.split(heads, np.flatnonzero(np.diff(prompt[heads])) + 1):
            if not group.size:
                continue
            held = shared[group]
            longest = np.maximum.accumulate(held)
            longer = np.concatenate(([True], held[1:] > longest[:-1]))
            holder = np.maximum.accumulate(np.where(longer, np.arange(len(group)), 0))
            shared[group[0]] = 0
            shared[group[1:]] = np.minimum(held[1:], longest[:-1])
            parent[group[1:]] = group[holder[:-1]]
