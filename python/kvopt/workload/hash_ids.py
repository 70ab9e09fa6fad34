"""The ``hash_ids`` of JSONL traces: one id for every block of a request's input, the last block perhaps partial."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from kvopt._core import PrefixTraceBuilder
from kvopt.errors import TraceError
from kvopt.workload.base import Progress, Trace
from kvopt.workload.columns import RequestColumns
from kvopt.workload.compression import InputFile, trace_name
from kvopt.workload.json_records import BlockIds, Seconds, Tokens, block_ids, decode


class HashIdRecord(msgspec.Struct):
    """What every line holds, whatever else the format has: lengths in tokens; ``timestamp`` in the format's unit."""

    timestamp: Seconds
    input_length: Tokens
    output_length: Tokens
    hash_ids: BlockIds


_Record = TypeVar("_Record", bound=HashIdRecord)


class HashIdReader:
    """Turns the ``hash_ids`` of a JSONL trace into its prefix tree, one request at a time.

    Args:
        path: the file, plain or compressed.
        block_tokens: tokens in a full block.
        drop_partial: leave out the id of a partial last block, which an engine never caches.
    """

    def __init__(self, path: str | os.PathLike[str], block_tokens: int, drop_partial: bool) -> None:
        self.path = path
        self.block_tokens = block_tokens
        self.drop_partial = drop_partial
        self._builder = PrefixTraceBuilder()

    def records(self, kind: type[_Record], progress: Progress | None) -> Iterator[_Record]:
        """Every line, checked; its blocks are taken already.

        Raises:
            TraceError: a line breaks the format, or is earlier than the line before it; names file, line and value.
            OSError: the file cannot be opened.
        """
        decoder = msgspec.json.Decoder(kind)
        last = 0.0
        with InputFile(self.path, progress=progress) as file:
            for number, line in file.lines():
                where = f"{self.path}: line {number}"
                record = decode(decoder, line, where)
                if record.timestamp < last:
                    why = f"{record.timestamp:g} is before {last:g}, the time of the request before it"
                    raise TraceError(f"{where}: timestamp: {why}")
                last = record.timestamp
                self._append(record.hash_ids, record.input_length, where)
                yield record

    def _append(self, ids: BlockIds, input_length: int, where: str) -> None:
        surplus = len(ids) * self.block_tokens - input_length
        if surplus >= self.block_tokens:
            raise TraceError(
                f"{where}: hash_ids: {len(ids)} ids of {self.block_tokens} tokens, "
                f"but input_length {input_length} holds at most {-(-input_length // self.block_tokens)}"
            )
        known = block_ids(ids, where, "hash_ids")
        self._builder.append(known[:-1] if self.drop_partial and surplus > 0 else known)

    def trace(self, columns: RequestColumns, source: dict[str, object]) -> Trace:
        """The finished trace; TraceError when there was no request."""
        if not len(columns):
            raise TraceError(f"{self.path}: no request in the file; a trace needs at least one")
        return Trace.from_columns(
            self._builder.finish(),
            columns.finish(),
            name=trace_name(self.path),
            block_tokens=self.block_tokens,
            source={**source, "drop_partial": self.drop_partial, "file": Path(self.path).name},
        )
