"""Mooncake JSONL: one request a line, one id for every 512-token block of its input.

The format of the traces that accompany Qin et al., "Mooncake: Trading More Storage for Less Computation", FAST '25:
``timestamp`` in milliseconds, ``input_length`` and ``output_length`` in tokens, ``hash_ids`` of the prefix-chained
blocks. The last id stands for a partial block when the input length is not a multiple of 512.
"""

from __future__ import annotations

import os
from typing import Annotated

import msgspec

from kvopt.workload.base import Progress, Trace
from kvopt.workload.columns import RequestColumns
from kvopt.workload.compression import InputFile
from kvopt.workload.hash_ids import HashIdReader, check_order
from kvopt.workload.json_records import BlockIds, Tokens, decode

BLOCK_TOKENS = 512


class MooncakeRecord(msgspec.Struct):
    """One line."""

    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: Tokens
    output_length: Tokens
    hash_ids: BlockIds


def read_mooncake(
    path: str | os.PathLike[str], *, drop_partial: bool = False, progress: Progress | None = None
) -> Trace:
    """Read a Mooncake trace, plain or compressed.

    Args:
        path: the file.
        drop_partial: leave out the id of a partial last block, which an engine never caches.
        progress: called with bytes of the file read and in all.

    Raises:
        TraceError: the file breaks the format (names file, line, field and value), or holds no request.
        OSError: the file cannot be opened.
    """
    reader = HashIdReader(BLOCK_TOKENS, drop_partial)
    decoder = msgspec.json.Decoder(MooncakeRecord)
    columns = RequestColumns()
    last = 0.0
    with InputFile(path, progress=progress) as file:
        for number, line in file.lines():
            where = f"{path}: line {number}"
            record = decode(decoder, line, where)
            check_order(record.timestamp, last, where)
            last = record.timestamp
            reader.append(record.hash_ids, record.input_length, where)
            columns.append(record.timestamp / 1000, record.input_length, record.output_length)
    return reader.trace(path, columns, {"format": "mooncake"})
