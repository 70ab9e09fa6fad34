"""Our own format: what is written is read, and nothing else is."""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt._core import PrefixTraceBuilder
from kvopt.errors import ConfigError, TraceError
from kvopt.workload import MultiTurnChat, Trace, read_parquet, read_trace, write_parquet

TOOLS = ("read", "shell", 'a tool, quoted "so"')
maybe_seconds = st.one_of(st.just(float("nan")), st.floats(0, 1e6, width=32))
requests = st.fixed_dictionaries(
    {
        "ids": st.lists(st.integers(0, 3), max_size=6),
        "wait": st.floats(0, 1e6),
        "output_tokens": st.integers(0, 2**32 - 1),
        "session": st.integers(-1, 2**31 - 1),
        "turn": st.integers(-1, 2**31 - 1),
        "stop": st.integers(0, 4),
        "tool": st.integers(-1, len(TOOLS) - 1),
        "gap": maybe_seconds,
        "subagent": st.booleans(),
        "api_time": maybe_seconds,
    }
)


def made(rows: list[dict[str, Any]], block_tokens: int = 64, **more: Any) -> Trace:
    builder = PrefixTraceBuilder()
    for row in rows:
        builder.append(np.array(row["ids"], dtype=np.uint64))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0] if name not in ("ids", "wait")}
    columns["time"] = np.cumsum([row["wait"] for row in rows])
    columns["input_tokens"] = np.array([len(row["ids"]) * block_tokens for row in rows])
    return Trace.from_columns(builder.finish(), columns, block_tokens=block_tokens, **more)


def assert_equal(one: Trace, other: Trace) -> None:
    for column, values in one.columns().items():
        np.testing.assert_array_equal(values, other.columns()[column])
    for tree in ("parent", "shared_blocks", "new_blocks"):
        np.testing.assert_array_equal(getattr(one.prefix, tree), getattr(other.prefix, tree))
    assert (one.name, one.block_tokens, one.tool_names) == (other.name, other.block_tokens, other.tool_names)
    assert dict(one.source) == dict(other.source)


@settings(max_examples=60, deadline=None)
@given(st.lists(requests, min_size=1, max_size=12), st.integers(1, 4096), st.text(st.characters(codec="utf-8")))
def test_round_trip(rows: list[dict[str, Any]], block_tokens: int, name: str) -> None:
    trace = made(rows, block_tokens, name=name, tool_names=TOOLS, source={"name": name, "parts": [1, {"x": None}]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.parquet"
        write_parquet(trace, path)
        assert_equal(read_parquet(path), trace)
        assert [p.name for p in Path(folder).iterdir()] == ["trace.parquet"]


@pytest.fixture(scope="module")
def chat() -> Trace:
    return MultiTurnChat(sessions=20).load()


@pytest.fixture
def chat_file(chat: Trace, tmp_path: Path) -> Path:
    path = tmp_path / "chat.parquet"
    write_parquet(chat, path)
    return path


def test_found_by_content_whatever_its_name(chat: Trace, chat_file: Path) -> None:
    assert_equal(read_trace(chat_file), chat)
    assert_equal(read_trace(chat_file.rename(chat_file.with_name("chat.bin"))), chat)


def test_foreign_block_ids_that_are_distinct(chat: Trace, chat_file: Path) -> None:
    table = pq.read_table(chat_file)
    position = table.schema.get_field_index("new_block_ids")
    foreign = [[(block + 1) * 7919 for block in blocks] for blocks in table["new_block_ids"].to_pylist()]
    table = table.set_column(position, "new_block_ids", pa.array(foreign, pa.list_(pa.uint64())))
    pq.write_table(table, chat_file)
    assert_equal(read_parquet(chat_file), chat)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("time_s", pa.array([0.0, 2.0, 1.0]), "request 2: time 1.0 is before"),
        ("time_s", pa.array([0.0, float("nan"), 1.0]), "request 1: time nan is not a finite"),
        ("time_s", pa.array([0.0, None, 1.0]), "row 1: time_s is null"),
        ("time_s", pa.array([0, 1, 2]), "column time_s is of type int64, not float64"),
        ("input_tokens", pa.array([64, 63, 128], pa.uint32()), "request 0: input_tokens 64 is too few for its blocks"),
        ("parent", pa.array([-1, 2, 1], pa.int32()), "request 1: its parent 2 is not an earlier request"),
        ("shared_blocks", pa.array([0, 9, 1], pa.uint32()), "request 1: shares 9 blocks of a parent that has 2"),
        ("stop", pa.array(["unknown", "tired", "length"]), "row 1: stop 'tired' is not one of unknown, tool_use"),
        ("stop", pa.array(["unknown", None, "length"]), "row 1: stop is null"),
        ("stop", pa.array([1, 2, 3]), "column stop is of type int64, not string"),
        ("tool", pa.array([None, None, "hammer"]), r"row 2: tool 'hammer' is not one of \(none\)"),
        ("new_block_ids", pa.array([[1, 2], [2], [3]], pa.list_(pa.uint64())), "block id 2 occurs twice"),
        ("new_block_ids", pa.array([[1, 2], None, [3]], pa.list_(pa.uint64())), "column new_block_ids holds nulls"),
        ("new_block_ids", pa.array([["a"], [], []]), "column new_block_ids is of type list"),
        ("session", None, "no column session; there are"),
    ],
)
def test_bad_column(tmp_path: Path, column: str, values: pa.Array | None, message: str) -> None:
    row = {
        "output_tokens": 1,
        "session": 0,
        "turn": 0,
        "stop": 0,
        "tool": -1,
        "gap": 1.0,
        "subagent": False,
        "api_time": 1.0,
    }
    rows = [{**row, "ids": ids, "wait": 1.0} for ids in ([1, 2], [1], [1, 3])]
    path = tmp_path / "bad.parquet"
    write_parquet(made(rows, name="bad"), path)
    table = pq.read_table(path)
    position = table.schema.get_field_index(column)
    table = table.remove_column(position) if values is None else table.set_column(position, column, values)
    pq.write_table(table, path)
    with pytest.raises(TraceError, match=r"bad\.parquet: .*" + message):
        read_parquet(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kvopt.format_version", "2", "format version 2; this release reads version 1"),
        ("kvopt.format_version", None, "a Parquet file of another kind"),
        ("kvopt.block_tokens", "-64", "kvopt.block_tokens: '-64' is not a whole number"),
        ("kvopt.block_tokens", "0", "chat: block_tokens 0 is not in 1"),
        ("kvopt.block_tokens", "9" * 5000, "kvopt.block_tokens: '9+' is not a whole number"),
        ("kvopt.tool_names", '{"a": 1}', "kvopt.tool_names: .* is not a JSON list"),
        ("kvopt.source", "{", "kvopt.source: .* is not a JSON dict"),
    ],
)
def test_bad_metadata(chat_file: Path, key: str, value: str | None, message: str) -> None:
    table = pq.read_table(chat_file)
    metadata = {k: v for k, v in table.schema.metadata.items() if k != key.encode()}
    if value is not None:
        metadata[key.encode()] = value.encode()
    pq.write_table(table.replace_schema_metadata(metadata), chat_file)
    with pytest.raises(TraceError, match=r"chat\.parquet: " + message):
        read_parquet(chat_file)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(1000) + b"PAR1", b"not a table\n" * 50])
def test_not_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.parquet"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"other\.parquet: not a Parquet file, or a damaged one"):
        read_trace(path)


def test_truncated(chat_file: Path) -> None:
    content = chat_file.read_bytes()
    for kept in (0.3, 0.9, 0.999):
        chat_file.write_bytes(content[: int(len(content) * kept)])
        with pytest.raises(TraceError, match=r"chat\.parquet: not a Parquet file, or a damaged one"):
            read_parquet(chat_file)


def test_a_flipped_bit_is_refused_or_harmless(chat: Trace, chat_file: Path) -> None:
    # Pages carry checksums; what they do not cover (statistics, padding of the footer) is not read.
    content = chat_file.read_bytes()
    draw = random.Random(5)
    refused = 0
    for _ in range(200):
        broken = bytearray(content)
        broken[draw.randrange(len(content) // 2)] ^= 1 << draw.randrange(8)
        chat_file.write_bytes(broken)
        try:
            found = read_parquet(chat_file)
        except TraceError:
            refused += 1
        else:
            assert_equal(found, chat)
    assert refused > 100


def test_nothing_is_left_when_writing_fails(chat: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chat.parquet"
    path.write_bytes(b"what was there")

    def full(table: pa.Table, out: Any, **_: Any) -> None:
        out.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        write_parquet(chat, path)
    assert [p.name for p in tmp_path.iterdir()] == ["chat.parquet"]
    assert path.read_bytes() == b"what was there"


def test_where_no_file_can_be(chat: Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        write_parquet(chat, tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        write_parquet(chat, tmp_path / "none" / "chat.parquet")


def test_source_that_is_no_json_value(tmp_path: Path) -> None:
    builder = PrefixTraceBuilder()
    builder.append(np.array([1], dtype=np.uint64))
    columns = {"time": np.array([0.0]), "input_tokens": np.array([64])}
    trace = Trace.from_columns(builder.finish(), columns, name="odd", block_tokens=64, source={"x": float("nan")})
    with pytest.raises(TraceError, match="source is not a JSON value"):
        write_parquet(trace, tmp_path / "odd.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_54_million_references_in_a_few_megabytes(shared_dir: Path, tmp_path: Path) -> None:
    trace = read_trace(shared_dir / "traces/agentic-400.tar.xz")
    path = tmp_path / "agentic.parquet"
    write_parquet(trace, path)
    assert path.stat().st_size < 2_000_000
    begin = time.process_time()
    loaded = read_parquet(path)
    assert time.process_time() - begin < 2.0
    assert_equal(loaded, trace)
    assert json.loads(pq.read_schema(path).metadata[b"kvopt.source"])["sessions"] == 400
