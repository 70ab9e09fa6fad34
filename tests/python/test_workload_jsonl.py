"""Mooncake and Qwen-Bailian JSONL: what is read, compressed or not, and what is refused."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kvopt.errors import TraceError
from kvopt.workload import Trace, read_trace
from kvopt.workload.mooncake import read_mooncake
from kvopt.workload.qwen_bailian import read_qwen_bailian
from made_traces import COUNTS

DATA = Path(__file__).parent / "data"
MOONCAKE = DATA / "mooncake.jsonl"
QWEN = DATA / "qwen_bailian.jsonl"

CODECS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def chains(trace: Trace) -> list[list[int]]:
    return [trace.prefix.chain(r).tolist() for r in range(trace.requests)]


def test_mooncake() -> None:
    trace = read_mooncake(MOONCAKE)
    assert chains(trace) == [[0, 1], [0, 1, 2], [3, 4], [0, 1, 2]]
    assert trace.time.tolist() == [0.0, 0.0, 3.0, 6.0]
    assert trace.input_tokens.tolist() == [1024, 1500, 600, 1536]
    assert trace.output_tokens.tolist() == [52, 26, 7, 1]
    assert trace.block_tokens == 512
    assert trace.name == "mooncake"
    assert not trace.has_sessions


def test_mooncake_without_partial_blocks() -> None:
    assert chains(read_mooncake(MOONCAKE, drop_partial=True)) == [[0, 1], [0, 1], [2], [0, 1, 3]]


def test_qwen_bailian_sessions_are_chains_of_chats() -> None:
    trace = read_qwen_bailian(QWEN)
    assert chains(trace) == [[0, 1, 2], [0, 3], [0, 1, 2, 4], [0, 1, 2, 4, 5]]
    assert trace.time.tolist() == [0.5, 1.25, 61.114, 61.114]
    assert trace.session.tolist() == [0, 1, 0, 0]
    assert trace.turn.tolist() == [0, 2, 1, 2]
    assert trace.block_tokens == 16
    assert trace.source["request_types"] == {"text": 3, "search": 1}


def test_qwen_bailian_without_partial_blocks() -> None:
    assert chains(read_qwen_bailian(QWEN, drop_partial=True)) == [[0, 1], [0, 2], [0, 1, 3, 4], [0, 1, 3, 4]]


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("named", [True, False])
def test_compressed_is_the_same(tmp_path: Path, suffix: str, named: bool) -> None:
    path = tmp_path / ("packed.jsonl" + (suffix if named else ""))
    path.write_bytes(CODECS[suffix](MOONCAKE.read_bytes()))
    assert chains(read_trace(path)) == chains(read_mooncake(MOONCAKE))


@pytest.mark.parametrize("suffix", CODECS)
def test_truncated_stream_names_file_and_line(tmp_path: Path, suffix: str) -> None:
    lines = [
        json.dumps({"timestamp": i, "input_length": 512, "output_length": 1, "hash_ids": [i * 7919 % 10007]})
        for i in range(20000)
    ]
    packed = CODECS[suffix]("\n".join(lines).encode())
    path = tmp_path / f"cut.jsonl{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(TraceError, match=rf"cut\.jsonl{suffix}: line \d+: truncated or corrupt") as caught:
        read_mooncake(path)
    reached = int(str(caught.value).split("line ")[1].split(":")[0])
    assert 1000 < reached < 20000


@pytest.mark.parametrize("suffix", CODECS)
def test_not_the_codec_of_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plain.jsonl{suffix}"
    path.write_bytes(MOONCAKE.read_bytes())
    with pytest.raises(TraceError, match=r"plain\.jsonl.*truncated or corrupt"):
        read_trace(path)


GOOD = {"timestamp": 5, "input_length": 1000, "output_length": 3, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestamp": -1}, r"line 2: timestamp: -1: Expected `float` >= 0"),
        ({"timestamp": "5"}, r"line 2: timestamp: '5': Expected `float`, got `str`"),
        ({"timestamp": 2}, r"line 2: timestamp: 2 is before 4"),
        ({"input_length": 512}, r"line 2: hash_ids: 2 ids of 512 tokens, but input_length 512 holds at most 1"),
        ({"input_length": 1000.5}, r"line 2: input_length: 1000\.5: Expected `int`, got `float`"),
        ({"input_length": 2**32}, r"line 2: input_length: 4294967296: Expected `int` <= 4294967295"),
        ({"output_length": -3}, r"line 2: output_length: -3: Expected `int` >= 0"),
        ({"hash_ids": [1, -2]}, r"line 2: hash_ids\[1\]: -2: Expected `int` >= 0"),
        (
            {"hash_ids": [1, 2**64]},
            r"line 2: hash_ids\[1\]: block id 18446744073709551616 is above 18446744073709551615",
        ),
        ({"hash_ids": [1, "x"]}, r"line 2: hash_ids\[1\]: 'x': Expected `int`, got `str`"),
        ({"hash_ids": None}, r"line 2: hash_ids: None: Expected `array`, got `null`"),
    ],
)
def test_mooncake_bad_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({**GOOD, "timestamp": 4}) + "\n" + json.dumps({**GOOD, **change}) + "\n")
    with pytest.raises(TraceError, match=r"bad\.jsonl: " + message):
        read_mooncake(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": []}', "line 1: not valid JSON"),
        (
            '{"timestamp": 1e999, "input_length": 1, "output_length": 1, "hash_ids": []}',
            "line 1: timestamp: .*out of range",
        ),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1}',
            "line 1: record: .*missing required field `hash_ids`",
        ),
        ('{"timestamp": 1, "input_length": 1, "outp', "line 1: not valid JSON"),
        ("[" * 100000, "line 1: (not valid JSON|record: Expected `object`)"),
        ("[1, 2]", "line 1: record: Expected `object`, got `array`"),
        ("", "no request in the file"),
        ("\n\n", "no request in the file"),
    ],
)
def test_mooncake_bad_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"bad\.jsonl: " + message):
        read_mooncake(path)


def test_invalid_utf8_is_a_trace_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(
        b'{"chat_id": 1, "timestamp": 0, "type": "\xff", "input_length": 1, "output_length": 1, "hash_ids": []}'
    )
    with pytest.raises(TraceError, match=r"bad\.jsonl: line 1: "):
        read_qwen_bailian(path)


def test_largest_id_is_read(tmp_path: Path) -> None:
    path = tmp_path / "wide.jsonl"
    path.write_text(
        json.dumps({**GOOD, "hash_ids": [2**64 - 1, 2**63]}) + "\n" + json.dumps({**GOOD, "hash_ids": [2**64 - 1]})
    )
    assert chains(read_mooncake(path)) == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turn": 0}, r"turn: 0: Expected `int` >= 1"),
        ({"chat_id": "a"}, r"chat_id: 'a': Expected `int`"),
        ({"timestamp": -0.25}, r"timestamp: -0\.25: Expected `float` >= 0"),
        ({"input_length": 16}, r"hash_ids: 2 ids of 16 tokens, but input_length 16 holds at most 1"),
        ({"hash_ids": [[]]}, r"hash_ids\[0\]: Expected `int`, got `array`"),
    ],
)
def test_qwen_bailian_bad_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    good = {"chat_id": 1, "timestamp": 0, "input_length": 32, "output_length": 1, "type": "text", "hash_ids": [1, 2]}
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({**good, **change}))
    with pytest.raises(TraceError, match=r"bad\.jsonl: line 1: " + message):
        read_qwen_bailian(path)


def test_progress_reaches_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text((json.dumps(GOOD) + "\n") * 2048)
    reports: list[tuple[int, int | None, str]] = []
    read_mooncake(path, progress=lambda done, total, what: reports.append((done, total, what)))
    assert reports == sorted(reports)
    assert len(reports) > 2
    assert reports[-1] == (path.stat().st_size, path.stat().st_size, "reading")


def test_mooncake_reference_figures(shared_dir: Path) -> None:
    expected = json.loads((shared_dir / "reference/replay.json").read_text())["prefix_rule"]["mooncake-conversation"]
    trace = read_trace(shared_dir / "traces/mooncake-conversation.jsonl.gz")
    assert trace.name == "mooncake-conversation"
    summary = trace.summary()
    assert {key: summary[key] for key in COUNTS} == {key: expected[key] for key in COUNTS}
    assert round(summary["infinite_cache_block_hit"], 4) == expected["infinite_cache_block_hit"]
