"""KVopt's own trace format: a Parquet file with one row a request, in arrival order.

============== ======================= =====================================================================
column         type                    meaning
============== ======================= =====================================================================
time_s         float64                 arrival in seconds, finite, not negative, never decreasing
input_tokens   uint32                  prompt length
output_tokens  uint32                  answer length
session        int32                   number of the session, -1 unknown
turn           int32                   position in the session or sub-agent from 0, -1 unknown
stop           dictionary<string>      unknown, tool_use, end_turn, length or abort
tool           dictionary<string>      name of the tool that the answer calls, null for none
gap_s          float32                 seconds at the client since the session's previous answer, NaN unknown
api_time_s     float32                 seconds at the server, NaN unknown
subagent       bool                    whether a sub-agent of the session sent it
parent         int32                   row of an earlier request whose first blocks it shares, -1 for none
shared_blocks  uint32                  how many blocks it shares with that row, from the first on
new_block_ids  list<uint64>            ids of its further blocks; each occurs once in the file
============== ======================= =====================================================================

The hints ``steps`` (int32, -1 unknown) and ``return_probability`` (float32, NaN unknown) are columns where any request
has one.

No column but ``tool`` holds nulls. The file's metadata are ``kvopt.format_version`` (``1``), ``kvopt.block_tokens``,
``kvopt.name``, ``kvopt.tool_names`` (JSON list), ``kvopt.source`` (JSON object: how the trace was made) and, written by
KVopt and checked where it is present, ``kvopt.checksum`` (CRC-32 of the other metadata and the values of a trace).
Numbers are delta-encoded and the file is compressed with zstd, so that 54 million block references take about a
megabyte.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kvopt._core import PrefixTrace
from kvopt.errors import TraceError
from kvopt.output_file import write_output
from kvopt.workload.base import Progress, StopReason, Trace

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = "1"
_CHECKSUM = "kvopt.checksum"
_STOP_NAMES = [reason.name.lower() for reason in StopReason]
_NUMBERS = {
    "time": ("time_s", np.float64),
    "input_tokens": ("input_tokens", np.uint32),
    "output_tokens": ("output_tokens", np.uint32),
    "session": ("session", np.int32),
    "turn": ("turn", np.int32),
    "gap": ("gap_s", np.float32),
    "api_time": ("api_time_s", np.float32),
    "subagent": ("subagent", np.bool_),
}
_HINTS = {"steps": np.int32, "return_probability": np.float32}
_DELTA = ("input_tokens", "output_tokens", "session", "turn", "parent", "shared_blocks", "new_block_ids.list.element")
_SPLIT = ("time_s", "gap_s", "api_time_s")


def write_parquet(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace in the format above; the file appears whole or not at all.

    Raises:
        TraceError: ``trace.source`` holds something that is not a JSON value.
        ConfigError: ``path`` is a folder, or its folder is missing or not writable.
        OSError: the file cannot be written.
    """
    import pyarrow.parquet as pq

    table = _to_table(trace)
    encoding = {**dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"), **dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT")}

    def write(out: BinaryIO) -> None:
        pq.write_table(
            table, out, compression="zstd", compression_level=9, use_dictionary=["stop", "tool"],
            column_encoding=encoding, write_page_checksum=True,
        )  # fmt: skip

    write_output(path, write)


def read_parquet(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Read what :func:`write_parquet` wrote.

    Raises:
        TraceError: not a Parquet file, damaged, of another version, without the columns above, or with values that
            break the rules above; names file, column and row.
        OSError: the file cannot be opened.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Path(path).open("rb") as file:
        try:
            table = pq.read_table(file, use_threads=False, page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise TraceError(f"{path}: not a Parquet file, or a damaged one: {_first_line(error)}") from error
    if progress is not None:
        progress(table.num_rows, table.num_rows, "reading")
    try:
        return _from_table(table)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: a damaged Parquet file: {_first_line(error)}") from error


def _to_table(trace: Trace) -> pa.Table:
    import pyarrow as pa

    prefix = trace.prefix
    columns: dict[str, Any] = {column: getattr(trace, name) for name, (column, _) in _NUMBERS.items()}
    columns["stop"] = pa.DictionaryArray.from_arrays(trace.stop.astype(np.int32), _STOP_NAMES)
    columns["tool"] = pa.DictionaryArray.from_arrays(
        pa.array(trace.tool, mask=trace.tool < 0), pa.array(list(trace.tool_names), pa.string())
    )
    columns |= {hint: getattr(trace, hint) for hint in _HINTS if trace.knows(hint)}
    columns["parent"] = prefix.parent
    columns["shared_blocks"] = prefix.shared_blocks
    # Large offsets: a trace may have more than 2^31 different blocks.
    ends = np.concatenate(([0], np.cumsum(prefix.new_blocks, dtype=np.int64)))
    columns["new_block_ids"] = pa.LargeListArray.from_arrays(ends, pa.array(np.arange(ends[-1], dtype=np.uint64)))
    try:
        source = json.dumps(dict(trace.source), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{trace.name}: source is not a JSON value: {error}") from error
    metadata = {
        "kvopt.format_version": FORMAT_VERSION,
        "kvopt.block_tokens": str(trace.block_tokens),
        "kvopt.name": trace.name,
        "kvopt.tool_names": json.dumps(trace.tool_names),
        "kvopt.source": source,
    }
    metadata[_CHECKSUM] = _checksum(metadata, trace)
    return pa.table(columns).replace_schema_metadata(metadata)


def _from_table(table: pa.Table) -> Trace:
    metadata = {k.decode(): v.decode(errors="replace") for k, v in (table.schema.metadata or {}).items()}
    version = metadata.get("kvopt.format_version")
    if version is None:
        raise TraceError("a Parquet file of another kind: its metadata have no kvopt.format_version")
    if version != FORMAT_VERSION:
        raise TraceError(f"format version {version}; this release reads version {FORMAT_VERSION}")
    tool_names = _json(metadata, "kvopt.tool_names", list)
    if not all(isinstance(tool, str) for tool in tool_names):
        raise TraceError(f"kvopt.tool_names: {tool_names!r} is not a list of names")
    block_tokens = metadata.get("kvopt.block_tokens", "")
    if not (block_tokens.isascii() and block_tokens.isdigit() and len(block_tokens) <= 10):
        raise TraceError(f"kvopt.block_tokens: {block_tokens!r} is not a whole number of tokens")
    columns = {name: _numbers(table, column, np.dtype(dtype)) for name, (column, dtype) in _NUMBERS.items()}
    columns |= {
        hint: _numbers(table, hint, np.dtype(dtype)) for hint, dtype in _HINTS.items() if hint in table.schema.names
    }
    columns["stop"] = _indices(table, "stop", _STOP_NAMES)
    columns["tool"] = _indices(table, "tool", tool_names)
    unstopped = columns["stop"] < 0
    if unstopped.any():
        raise TraceError(f"row {int(np.argmax(unstopped))}: stop is null")
    prefix = PrefixTrace(
        _numbers(table, "parent", np.dtype(np.int32)),
        _numbers(table, "shared_blocks", np.dtype(np.uint32)),
        _new_blocks(table),
    )
    trace = Trace.from_columns(
        prefix,
        columns,
        name=metadata.get("kvopt.name", ""),
        block_tokens=int(block_tokens),
        tool_names=tuple(tool_names),
        source=_json(metadata, "kvopt.source", dict),
    )
    found = _checksum(metadata, trace)
    if metadata.get(_CHECKSUM, found) != found:
        raise TraceError(f"{_CHECKSUM}: {metadata[_CHECKSUM]!r}, but the values read give {found!r}: a damaged file")
    return trace


def _checksum(metadata: dict[str, str], trace: Trace) -> str:
    # The checksums of Parquet cover pages of data, but neither their headers nor the footer.
    told = {key: value for key, value in metadata.items() if key.startswith("kvopt.") and key != _CHECKSUM}
    checksum = zlib.crc32(json.dumps(told, sort_keys=True).encode())
    prefix = trace.prefix
    for values in (*trace.columns().values(), prefix.parent, prefix.shared_blocks, prefix.new_blocks):
        checksum = zlib.crc32(values.tobytes(), checksum)
    return f"{checksum:08x}"


def _column(table: pa.Table, name: str) -> pa.Array:
    if table.schema.names.count(name) != 1:
        found = "two columns" if name in table.schema.names else "no column"
        raise TraceError(f"{found} {name}; there are {', '.join(table.schema.names)}")
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(table: pa.Table, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    import pyarrow as pa

    column = _column(table, name)
    if column.type != pa.from_numpy_dtype(dtype):
        raise TraceError(f"column {name} is of type {column.type}, not {dtype}")
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise TraceError(f"row {row}: {name} is null")
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _indices(table: pa.Table, name: str, names: list[str]) -> NDArray[np.int32]:
    """Where each value of a string column stands in ``names``; -1 for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _column(table, name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise TraceError(f"column {name} is of type {column.type}, not string")
    found = pc.index_in(column, value_set=pa.array(names, column.type))
    strange = pc.and_(column.is_valid(), found.is_null()).to_numpy(zero_copy_only=False)
    if strange.any():
        row = int(np.argmax(strange))
        raise TraceError(f"row {row}: {name} {column[row].as_py()!r} is not one of {', '.join(names) or '(none)'}")
    return found.fill_null(-1).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _new_blocks(table: pa.Table) -> NDArray[np.uint32]:
    """How many new blocks each row has, after a check that no id occurs twice."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = _column(table, "new_block_ids")
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)) or lists.type.value_type != pa.uint64():
        raise TraceError(f"column new_block_ids is of type {lists.type}, not list<uint64>")
    if lists.null_count or lists.flatten().null_count:
        raise TraceError("column new_block_ids holds nulls")
    ids = lists.flatten().to_numpy()
    if not np.array_equal(ids, np.arange(len(ids), dtype=np.uint64)):
        order = np.argsort(ids, kind="stable")
        again = ids[order][1:] == ids[order][:-1]
        if again.any():
            value = ids[order][int(np.argmax(again))]
            raise TraceError(f"new_block_ids: block id {value} occurs twice; a further use belongs to shared_blocks")
    return pc.list_value_length(lists).to_numpy().astype(np.uint32)  # type: ignore[no-any-return]


def _json(metadata: dict[str, str], key: str, kind: type) -> Any:
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise TraceError(f"{key}: {metadata.get(key, '(missing)')[:60]!r} is not a JSON {kind.__name__}")
    return value


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
