"""Mooncake JSONL: one request a line, one id for every 512-token block of its input.

The format of the traces that accompany Qin et al., "Mooncake: Trading More Storage for Less Computation", FAST '25:
``timestamp`` in milliseconds, ``input_length`` and ``output_length`` in tokens, ``hash_ids`` of the prefix-chained
blocks. The last id stands for a partial block when the input length is not a multiple of 512.
"""

from __future__ import annotations

import os

from kvopt.workload.base import Progress, Trace
from kvopt.workload.columns import RequestColumns
from kvopt.workload.hash_ids import HashIdReader, HashIdRecord

BLOCK_TOKENS = 512


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
    reader = HashIdReader(path, BLOCK_TOKENS, drop_partial)
    columns = RequestColumns()
    for record in reader.records(HashIdRecord, progress):
        columns.append(record.timestamp / 1000, record.input_length, record.output_length)
    return reader.trace(columns, {"format": "mooncake"})
