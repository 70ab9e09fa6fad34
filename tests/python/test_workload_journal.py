"""Journals: what was written is read, whatever happened to the end of the file."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import succeeds
from kvopt.errors import TraceError
from kvopt.simulator import replay
from kvopt.workload import StopReason, read_parquet, read_trace
from kvopt.workload.journal import MAGIC, JournalWriter, read_journal


def hashes(tokens: str) -> list[bytes]:
    """One chained hash a letter, as an engine makes them."""
    found, last = [], b""
    for token in tokens:
        last = hashlib.sha256(last + token.encode()).digest()
        found.append(last)
    return found


def write(path: Path, prompts: list[str], most_hashes: int = 1_000_000) -> JournalWriter:
    writer = JournalWriter(path, block_tokens=4, name="made", source={"from": "test"}, most_hashes=most_hashes)
    for number, prompt in enumerate(prompts):
        row = writer.arrival(float(number), 4 * len(prompt) + 1, hashes(prompt), session=number % 3, turn=number // 3)
        if number % 2 == 0:
            writer.end(row, 7, StopReason.TOOL_USE, 0.5, "bash")
    return writer


def test_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    write(path, ["abc", "abcd", "x", "abq"]).close()
    trace = read_trace(path)
    assert (trace.name, trace.block_tokens, trace.tool_names) == ("made", 4, ("bash",))
    assert trace.source == {"from": "test", "unread_bytes": 0}
    assert trace.time.tolist() == [0, 1, 2, 3]
    assert trace.input_tokens.tolist() == [13, 17, 5, 13]
    assert trace.output_tokens.tolist() == [7, 0, 7, 0]
    assert trace.stop.tolist() == [StopReason.TOOL_USE, 0, StopReason.TOOL_USE, 0]
    assert trace.tool.tolist() == [0, -1, 0, -1]
    assert trace.session.tolist() == [0, 1, 2, 0]
    assert trace.turn.tolist() == [0, 0, 0, 1]
    assert math.isnan(trace.gap[0])
    assert trace.unique_blocks == 3 + 1 + 1 + 1
    assert trace.chain_blocks().tolist() == [3, 4, 1, 3]


def first_request(content: bytes) -> int:
    """Where the frame of the first request ends; the header's is before it."""
    at = len(MAGIC)
    for _ in range(2):
        at += 8 + int.from_bytes(content[at : at + 4], "little")
    return at


prompts = st.lists(st.text("abc", max_size=12), min_size=1, max_size=30)


@given(prompts, st.sampled_from([1, 3, 1000]))
@settings(max_examples=100, deadline=None)
def test_blocks_are_shared_exactly_where_prompts_are(
    tmp_path_factory: pytest.TempPathFactory, made: list[str], most: int
) -> None:
    """Property: two requests have the same block at a depth exactly when their prompts agree up to there."""
    path = tmp_path_factory.mktemp("journal") / "a.journal"
    write(path, made, most).close()
    prefix = read_journal(path).prefix
    chains = [prefix.chain(row).tolist() for row in range(len(made))]
    for a, first in zip(made, chains, strict=True):
        assert len(first) == len(a)
        for b, second in zip(made, chains, strict=True):
            depth = next((d for d, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            assert first[:depth] == second[:depth]
            assert set(first[depth:]).isdisjoint(second[depth:])


@given(prompts, st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_a_file_that_was_cut_is_read_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, made: list[str], lost: int
) -> None:
    """Property: whatever was lost at the end, the requests before it are those of the whole file."""
    path = tmp_path_factory.mktemp("journal") / "a.journal"
    write(path, made).close()
    whole = read_journal(path)
    content = path.read_bytes()
    path.write_bytes(content[: max(first_request(content), len(content) - lost)])
    cut = read_journal(path)
    assert cut.requests >= 1
    assert cut.requests <= whole.requests
    assert np.array_equal(cut.time, whole.time[: cut.requests])
    for row in range(cut.requests):
        assert cut.prefix.chain(row).tolist() == whole.prefix.chain(row).tolist()


def test_damage_in_the_middle_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    write(path, ["abc", "abd", "abe"]).close()
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    trace = read_journal(path)
    assert 1 <= trace.requests <= 3
    assert trace.source["unread_bytes"] > 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty file"),
        (b"KVOPTJ1\n", "its header is damaged or missing"),
        (b"KVOPTJ1\n" + b"\x01" * 40, "its header is damaged or missing"),
    ],
)
def test_what_is_no_journal(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said):
        read_trace(path)
    with pytest.raises(TraceError, match=r"not a journal"):
        read_journal(path)


def test_a_journal_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    write(path, ["a"]).close()
    with pytest.raises(FileExistsError):
        JournalWriter(path, block_tokens=4, name="b")


def test_commands_read_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet.journal"
    write(path, ["abc", "abcd", "x", "abcd"]).close()
    succeeds("trace", "convert", path, tmp_path / "trace.parquet")
    made = read_parquet(tmp_path / "trace.parquet")
    assert made.requests == 4
    (row,) = replay(made, ["lru"], [10]).rows
    assert row.block_hit == pytest.approx((3 + 4) / (3 + 4 + 1 + 4))
