"""kv-cache-tester sessions: the merge by hand, folders and archives, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kvopt.errors import ConfigError, TraceError
from kvopt.workload import StopReason, Trace, read_trace
from kvopt.workload.kv_cache_tester import read_kv_cache_tester
from made_traces import COUNTS

SESSIONS = Path(__file__).parent / "data" / "kv_cache_tester"

# Poisson arrivals by the definition: random.Random(1).random() is .13436424411240122, then .8474337369372327.
START_A = -math.log(1 - 0.13436424411240122) * 30
START_B = START_A - math.log(1 - 0.8474337369372327) * 30


def chains(trace: Trace) -> list[list[int]]:
    return [trace.prefix.chain(r).tolist() for r in range(trace.requests)]


def test_merge_of_two_sessions_by_hand() -> None:
    # a starts at 4.33 s and b at 60.7 s; the sub-agent is listed before the request that arrives with its first one.
    trace = read_kv_cache_tester(SESSIONS)
    assert trace.time == pytest.approx([START_A + t for t in (0, 10, 10, 14)] + [START_B, START_A + 400])
    assert trace.input_tokens.tolist() == [200, 130, 260, 192, 200, 150]
    assert trace.output_tokens.tolist() == [20, 5, 21, 6, 30, 22]
    assert trace.session.tolist() == [0, 0, 0, 0, 1, 0]
    assert trace.turn.tolist() == [0, 0, 1, 1, 0, 2]
    assert trace.subagent.tolist() == [False, True, False, True, False, False]
    assert [StopReason(s).name for s in trace.stop] == [
        "TOOL_USE",
        "TOOL_USE",
        "END_TURN",
        "END_TURN",
        "LENGTH",
        "UNKNOWN",
    ]
    np.testing.assert_array_equal(trace.gap, np.array([np.nan, np.nan, 8.5, 3.5, np.nan, np.nan], np.float32))
    np.testing.assert_array_equal(trace.api_time, np.array([1.5, 0.5, 2.0, np.nan, 3.0, np.nan], np.float32))
    assert chains(trace) == [[0, 1, 2], [3, 4], [0, 1, 2, 5], [3, 4, 6], [7, 8, 9], [0, 1]]
    assert trace.block_tokens == 64


def test_share_prefix_joins_the_heads_of_one_model() -> None:
    # a and b share (64 + 64) // 64 = 2 blocks of model m; the sub-agent runs model s; ids 3 of a and b stay apart.
    trace = read_kv_cache_tester(SESSIONS, share_prefix=True)
    assert chains(trace) == [[0, 1, 2], [3, 4], [0, 1, 2, 5], [3, 4, 6], [0, 1, 7], [0, 1]]


def test_share_prefix_keeps_what_a_session_shows_as_different(tmp_path: Path) -> None:
    write_sessions(
        tmp_path,
        a=session([request(0, [1, 2, 3]), request(1, [1, 9, 3])], tool_tokens=192),
        b=session([request(0, [4, 5, 6])], tool_tokens=192),
    )
    trace = read_kv_cache_tester(tmp_path, share_prefix=True, arrival_gap=1e6)
    assert chains(trace) == [[0, 1, 2], [0, 3, 4], [0, 1, 2]]


def test_arrivals_follow_seed_and_gap() -> None:
    trace = read_kv_cache_tester(SESSIONS, seed=7, arrival_gap=1000.0)
    draw = random.Random(7)
    starts = np.cumsum([draw.expovariate(1 / 1000), draw.expovariate(1 / 1000)])
    assert trace.time[(trace.session == 0) & (trace.turn == 0) & ~trace.subagent] == pytest.approx(starts[:1])
    assert trace.time[trace.session == 1] == pytest.approx(starts[1:])


def request(t: float, ids: Sequence[int], **more: Any) -> dict[str, Any]:
    made = {"t": t, "type": "n", "model": "m", "in": 64 * len(ids), "out": 1, "hash_ids": list(ids), "stop": "tool_use"}
    return {**made, "api_time": 1.0, "think_time": 1.0, **more}


def session(requests: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": requests, **more}


def write_sessions(folder: Path, **sessions: dict[str, Any]) -> None:
    for name, content in sessions.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def pack(path: Path, members: Sequence[tuple[tarfile.TarInfo | str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def both_sessions() -> list[tuple[tarfile.TarInfo | str, bytes]]:
    # Stored in the reverse of the order of their names.
    return [(f"traces/{name}.json", (SESSIONS / f"{name}.json").read_bytes()) for name in ("b", "a")]


def assert_same(one: Trace, other: Trace) -> None:
    assert chains(one) == chains(other)
    for column, values in one.columns().items():
        np.testing.assert_array_equal(values, other.columns()[column])


@pytest.mark.parametrize(
    ("suffix", "mode"), [(".tar", "w"), (".tar.gz", "w:gz"), (".tgz", "w:gz"), (".tar.xz", "w:xz")]
)
def test_archive_reads_as_the_folder(tmp_path: Path, suffix: str, mode: str) -> None:
    path = pack(tmp_path / f"sessions{suffix}", [("traces/README.md", b"not a session"), *both_sessions()], mode)
    trace = read_trace(path)
    assert_same(trace, read_kv_cache_tester(SESSIONS))
    assert trace.name == "sessions"


def test_zstd_archive_reads_as_the_folder(tmp_path: Path) -> None:
    plain = pack(tmp_path / "plain.tar", both_sessions())
    path = tmp_path / "sessions.tar.zst"
    path.write_bytes(pa.compress(plain.read_bytes(), codec="zstd", asbytes=True))
    assert_same(read_trace(path), read_kv_cache_tester(SESSIONS))


def test_compressed_files_in_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress((SESSIONS / f"{name}.json").read_bytes()))
    assert_same(read_trace(tmp_path), read_kv_cache_tester(SESSIONS))


def test_single_file() -> None:
    trace = read_trace(SESSIONS / "b.json")
    assert trace.time == pytest.approx([START_A])


def test_ties_go_in_the_order_of_names_not_of_storage(tmp_path: Path) -> None:
    members: list[tuple[tarfile.TarInfo | str, bytes]] = [
        (f"{name}.json", json.dumps(session([request(0, [1]), request(5, [1, block])])).encode())
        for name, block in (("b", 2), ("a", 3))
    ]
    trace = read_trace(pack(tmp_path / "tie.tar", members), arrival_gap=1e-300)  # vanishes beside 5 s
    assert trace.time[2:].tolist() == [5.0, 5.0]
    assert trace.session.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("name", ["/etc/a.json", "../a.json", "traces/../../a.json", "C:\\a.json", "..\\a.json"])
def test_member_outside_its_folder(tmp_path: Path, name: str) -> None:
    content = (SESSIONS / "a.json").read_bytes()
    # Before it a session that is broken: nothing may be read before all names are checked.
    path = pack(tmp_path / "evil.tar", [("a.json", b"not JSON"), (name, content)])
    with pytest.raises(TraceError, match=r"evil\.tar: member .* (has an absolute name|points outside its folder)"):
        read_trace(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_member_that_is_no_file(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("b.json")
    info.type = kind
    info.linkname = "a.json"
    path = pack(tmp_path / "evil.tar", [("a.json", b"not JSON"), (info, b"")])
    with pytest.raises(TraceError, match=r"evil\.tar: member 'b\.json' is a link or device"):
        read_trace(path)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz"])
@pytest.mark.parametrize("kept", [0.1, 0.4, 0.7])
def test_truncated_archive(tmp_path: Path, suffix: str, kept: float) -> None:
    noise = random.Random(3)
    members = [
        (f"s{i:03}.json", json.dumps(session([request(0, [noise.getrandbits(60) for _ in range(40)])])).encode())
        for i in range(50)
    ]
    path = pack(tmp_path / f"cut{suffix}", members, {".tar": "w", ".tar.gz": "w:gz", ".tar.xz": "w:xz"}[suffix])
    assert read_trace(path).requests == 50
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(TraceError, match=rf"cut{suffix}: .*truncated or corrupt"):
        read_trace(path)


def test_archive_cut_between_members(tmp_path: Path) -> None:
    path = pack(tmp_path / "cut.tar", both_sessions())
    with tarfile.open(path) as archive:
        second = archive.getmembers()[1].offset
    path.write_bytes(path.read_bytes()[:second])
    with pytest.raises(TraceError, match=r"cut\.tar: truncated or corrupt archive"):
        read_trace(path)


def test_corrupt_member_header(tmp_path: Path) -> None:
    path = pack(tmp_path / "bad.tar", both_sessions())
    with tarfile.open(path) as archive:
        second = archive.getmembers()[1].offset
    content = bytearray(path.read_bytes())
    content[second + 3] ^= 0x55
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"bad\.tar: truncated or corrupt archive"):
        read_trace(path)


def test_two_members_of_one_name(tmp_path: Path) -> None:
    path = pack(tmp_path / "twice.tar", [both_sessions()[0], both_sessions()[0]])
    with pytest.raises(TraceError, match=r"two members are named 'traces/b\.json'"):
        read_trace(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([request(-1, [])], r"requests\[0\]\.t: -1: Expected `float` >= 0"),
        ([request(5, []), request(4.5, [])], r"requests\[1\]\.t: 4\.5 is before 5"),
        ([request(0, [1, -2])], r"requests\[0\]\.hash_ids\[1\]: -2: Expected `int` >= 0"),
        ([request(0, [1, 2**64])], r"requests\[0\]\.hash_ids\[1\]: block id 18446744073709551616 is above"),
        (
            [request(0, [1, 2], **{"in": 127})],
            r"requests\[0\]\.hash_ids: 2 ids, but 127 tokens \(in\) hold 1 full blocks",
        ),
        ([request(0, [1]), request(1, [1], out="x")], r"requests\[1\]\.out: 'x': Expected `int`, got `str`"),
        ([request(0, [1], type="z")], r"requests\[0\]\.type: 'z': Invalid value"),
        ([request(0, [1], think_time=-1)], r"requests\[0\]\.think_time: -1"),
        (
            [{"t": 0, "type": "subagent", "requests": [request(0, [1]), request(0, [True])]}],
            r"requests\[0\]\.requests\[1\]\.hash_ids\[0\]: True: Expected `int`, got `bool`",
        ),
        ([], "no request in any session"),
    ],
)
def test_bad_session(tmp_path: Path, entries: list[dict[str, Any]], message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(session(entries)))
    with pytest.raises(TraceError, match=r"bad\.json: " + message):
        read_kv_cache_tester(path)


def test_subagents_nested_without_end(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    inner = '{"t": 0, "type": "subagent", "requests": [' * 100_000
    path.write_text('{"block_size": 64, "hash_id_scope": "local", "requests": [' + inner)
    with pytest.raises(TraceError, match=r"deep\.json: not valid JSON"):
        read_kv_cache_tester(path)


def test_bad_session_in_an_archive_names_the_member(tmp_path: Path) -> None:
    path = pack(tmp_path / "bad.tar", [*both_sessions(), ("traces/c.json", b'{"block_size": 64')])
    with pytest.raises(TraceError, match=r"bad\.tar: traces/c\.json: not valid JSON"):
        read_trace(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_size": 0}, "block_size: 0: Expected `int` >= 1"),
        ({"hash_id_scope": "global"}, "hash_id_scope: 'global': Invalid enum value"),
        ({"requests": 3}, "requests: 3: Expected `array`"),
    ],
)
def test_bad_session_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**session([]), **change}))
    with pytest.raises(TraceError, match=r"bad\.json: " + message):
        read_kv_cache_tester(path)


def test_sessions_of_different_block_size(tmp_path: Path) -> None:
    write_sessions(tmp_path, a=session([request(0, [])]), b=session([request(0, [])], block_size=32))
    with pytest.raises(TraceError, match=r"b\.json: block_size: 32, but 64 in the sessions before it"):
        read_kv_cache_tester(tmp_path)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no session in it"):
        read_trace(tmp_path)


@pytest.mark.parametrize("arrival_gap", [0.0, -3.0, float("nan"), float("inf")])
def test_bad_arrival_gap(arrival_gap: float) -> None:
    with pytest.raises(ConfigError, match="arrival_gap"):
        read_kv_cache_tester(SESSIONS, arrival_gap=arrival_gap)


@pytest.mark.slow
def test_agentic_reference_figures(shared_dir: Path) -> None:
    expected = json.loads((shared_dir / "reference/replay.json").read_text())["prefix_rule"]["agentic-400"]
    trace = read_trace(shared_dir / "traces/agentic-400.tar.xz")
    summary = trace.summary()
    assert {key: summary[key] for key in COUNTS} == {key: expected[key] for key in COUNTS}
    assert summary["sessions"]["count"] == 400
    assert summary["sessions"]["subagent_requests"] == 320
    assert summary["gap_after_tool_use_s"]["p50"] == 9.0
