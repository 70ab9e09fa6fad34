"""The ``hash_ids`` of JSONL traces: one id for every block of a request's input, the last block perhaps partial."""

from __future__ import annotations

import os
from pathlib import Path

from kvopt._core import PrefixTraceBuilder
from kvopt.errors import TraceError
from kvopt.workload.base import Trace
from kvopt.workload.columns import RequestColumns
from kvopt.workload.compression import trace_name
from kvopt.workload.json_records import BlockIds, block_ids


class HashIdReader:
    """Turns the ``hash_ids`` of a JSONL trace into its prefix tree, one request at a time."""

    def __init__(self, block_tokens: int, drop_partial: bool) -> None:
        self.block_tokens = block_tokens
        self.drop_partial = drop_partial
        self._builder = PrefixTraceBuilder()

    def append(self, ids: BlockIds, input_length: int, where: str) -> None:
        """Add the blocks of a request; TraceError when its input is too short for them or an id is too large."""
        surplus = len(ids) * self.block_tokens - input_length
        if surplus >= self.block_tokens:
            raise TraceError(
                f"{where}: hash_ids: {len(ids)} ids of {self.block_tokens} tokens, "
                f"but input_length {input_length} holds at most {-(-input_length // self.block_tokens)}"
            )
        known = block_ids(ids, where, "hash_ids")
        self._builder.append(known[:-1] if self.drop_partial and surplus > 0 else known)

    def trace(self, path: str | os.PathLike[str], columns: RequestColumns, source: dict[str, object]) -> Trace:
        """The finished trace; TraceError when nothing was appended."""
        if not len(columns):
            raise TraceError(f"{path}: no request in the file; a trace needs at least one")
        return Trace.from_columns(
            self._builder.finish(),
            columns.finish(),
            name=trace_name(path),
            block_tokens=self.block_tokens,
            source={**source, "drop_partial": self.drop_partial, "file": Path(path).name},
        )


def check_order(time: float, last: float, where: str) -> None:
    """Raise TraceError when a timestamp is before the one of the line before it."""
    if time < last:
        raise TraceError(f"{where}: timestamp: {time:g} is before {last:g}, the time of the request before it")
