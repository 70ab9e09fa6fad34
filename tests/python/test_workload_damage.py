"""Damaged files of every format: what is read is a trace, and what is refused is a TraceError that names the file."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.errors import TraceError
from kvopt.workload import CodingAgents, Trace, read_lengths, read_trace, write_parquet

DATA = Path(__file__).parent / "data"
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".xz": lzma.compress,
    ".zst": lambda content: bytes(pa.compress(content, codec="zstd", asbytes=True)),
}


def archive() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted((DATA / "kv_cache_tester").iterdir()):
            tar.add(path, arcname=f"sessions/{path.name}")
    return out.getvalue()


def parquet() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.parquet"
        write_parquet(CodingAgents(sessions=2).load(), path)
        return path.read_bytes()


PLAIN = {
    "mooncake.jsonl": (DATA / "mooncake.jsonl").read_bytes(),
    "qwen_bailian.jsonl": (DATA / "qwen_bailian.jsonl").read_bytes(),
    "burstgpt.csv": (DATA / "burstgpt.csv").read_bytes(),
    "azure.csv": (DATA / "azure.csv").read_bytes(),
    "session.json": (DATA / "kv_cache_tester/a.json").read_bytes(),
    "sessions.tar": archive(),
}
FILES = {f"{name}{suffix}": pack(content) for name, content in PLAIN.items() for suffix, pack in CODECS.items()}
FILES["made.parquet"] = parquet()


def read(name: str, content: bytes) -> object:
    """What is read of a file with this content, or None when it is refused as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        refusal = ""
        try:
            return read_lengths(path) if ".csv" in name else read_trace(path)
        except TraceError as error:
            refusal = str(error)
        assert str(path) in refusal
        return None


@pytest.mark.parametrize("name", FILES)
def test_the_whole_file_is_read(name: str) -> None:
    assert read(name, FILES[name]) is not None


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_flipped_bits(name: str, data: st.DataObject) -> None:
    content = bytearray(FILES[name])
    places = st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=3, unique=True)
    for place in data.draw(places):
        content[place // 8] ^= 1 << place % 8
    read(name, bytes(content))


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_cut_short(name: str, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(FILES[name]) - 1))
    found = read(name, FILES[name][:kept])
    if name.endswith((".gz", ".xz", ".zst", ".parquet")):
        assert found is None


def test_no_flipped_bit_changes_what_a_parquet_file_says() -> None:
    content = FILES["made.parquet"]
    whole = read("made.parquet", content)
    assert isinstance(whole, Trace)
    draw = np.random.default_rng(5)
    footer = int.from_bytes(content[-8:-4], "little")
    places = np.concatenate((draw.integers(0, len(content), 150), len(content) - 1 - draw.integers(0, footer, 250)))
    outcomes = set()
    for place, bit in zip(places.tolist(), draw.integers(0, 8, len(places)).tolist(), strict=True):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        found = read("made.parquet", bytes(damaged))
        outcomes.add(found is None)
        if isinstance(found, Trace):
            for column, values in whole.columns().items():
                np.testing.assert_array_equal(found.columns()[column], values)
            np.testing.assert_array_equal(found.prefix.new_blocks, whole.prefix.new_blocks)
            told = (found.name, found.block_tokens, found.tool_names, found.source)
            assert told == (whole.name, whole.block_tokens, whole.tool_names, whole.source)
    assert outcomes == {True, False}
