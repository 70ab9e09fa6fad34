"""What a policy has learned survives an engine, in a file; other files are refused and left alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import Engine
from kvopt.errors import ConfigError, PolicyStateError
from tiny_model import END_ID, TOOL_CALL_ID

Make = Callable[..., Any]


def options(file: Path, **more: Any) -> dict[str, Any]:
    return {"policy": "cost-aware", "policy_state": str(file), "simulation": {"time": "virtual"}, **more}


def learned(server: Engine) -> bytes:
    state: bytes = server.scheduler.kv_cache_manager.block_pool.save_learned()
    return state


def teach(server: Engine, turns: int = 6) -> None:
    """Sessions that come back after tool calls, in a pool too small for all of them."""
    prompts = {s: [10 + (s * 131 + i * 17) % 400 for i in range(100)] for s in range(8)}
    for turn in range(turns):
        for s, prompt in prompts.items():
            answer = [20 + turn, TOOL_CALL_ID, END_ID]
            server.add(f"{s}.{turn}", prompt, answer=answer, stop=[END_ID], extra={"kvopt_session_id": f"s{s}"})
            server.run()
            prompt += [*answer, *range(30, 60)]


@pytest.mark.parametrize("pool", ["native", "vllm"])
def test_an_engine_goes_on_from_what_the_last_one_learned(engine: Make, tmp_path: Path, pool: str) -> None:
    file = tmp_path / "learned.bin"
    first = engine(kvopt=options(file, pool=pool), blocks=40)
    new = learned(first)
    assert "learned state new" in first.scheduler.kvopt.describe()
    teach(first)
    first.shutdown()
    kept = file.read_bytes()
    assert kept != new
    second = engine(kvopt=options(file, pool=pool, strict=True), blocks=40)
    assert "learned state loaded" in second.scheduler.kvopt.describe()
    assert learned(second) == kept
    teach(second, turns=2)
    second.shutdown()
    assert file.read_bytes() != kept
    larger = engine(kvopt=options(file, pool=pool, strict=True), blocks=60)
    assert "learned state loaded" in larger.scheduler.kvopt.describe()
    assert second.scheduler.kvopt.hooks.errors == {}


def test_an_engine_that_is_killed_has_written_now_and_then(engine: Make, tmp_path: Path) -> None:
    file = tmp_path / "learned.bin"
    now = [0.0]
    server = engine(kvopt=options(file, policy_state_minutes=5), blocks=40)
    hooks = server.scheduler.kvopt.hooks
    start = hooks.clock()
    hooks.clock = lambda: start + now[0]
    teach(server, turns=1)
    assert not file.exists()
    now[0] = 301.0
    teach_again = {"answer": [20], "extra": {"kvopt_session_id": "late"}}
    server.add("late", range(10, 90), **teach_again)
    server.step()
    first = file.read_bytes()
    server.run()
    now[0] = 599.0
    teach(server, turns=2)
    assert file.read_bytes() == first
    now[0] = 603.0
    server.add("later", range(10, 90), **teach_again)
    server.step()
    assert file.read_bytes() != first
    restarted = engine(kvopt=options(file, strict=True), blocks=40)
    assert learned(restarted) == file.read_bytes()


@pytest.mark.parametrize("damage", ["foreign", "truncated", "flipped", "other settings", "a folder"])
def test_a_file_that_is_refused_is_left_as_it_is(
    engine: Make, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "learned.bin"
    server = engine(kvopt=options(file), blocks=40)
    teach(server, turns=2)
    server.shutdown()
    good = file.read_bytes()
    policy = "cost-aware:hints=0" if damage == "other settings" else "cost-aware"
    if damage == "a folder":
        file.unlink()
        file.mkdir()
        with pytest.raises(ConfigError, match="is a folder"):
            engine(kvopt=options(file))
        return
    if damage != "other settings":
        flipped = bytes([*good[:-20], good[-20] ^ 1, *good[-19:]])
        file.write_bytes({"foreign": b"not ours", "truncated": good[:-9], "flipped": flipped}[damage])
    before = file.read_bytes()
    with caplog.at_level(logging.WARNING, "vllm.kvopt"):
        server = engine(kvopt=options(file, policy=policy), blocks=40)
    said = [record.getMessage() for record in caplog.records if "starts anew" in record.getMessage()]
    assert len(said) == 1
    assert str(file) in said[0]
    assert "learned state refused" in server.scheduler.kvopt.describe()
    teach(server, turns=2)
    server.shutdown()
    assert file.read_bytes() == before
    assert server.scheduler.kvopt.hooks.errors == {}
    with pytest.raises(PolicyStateError, match=r"learned\.bin"):
        engine(kvopt=options(file, policy=policy, strict=True))


def test_engines_side_by_side_have_a_file_each(tmp_path: Path) -> None:
    from kvopt.vllm.bridge import NativeBlockPool
    from kvopt.vllm.learned_state import LearnedState
    from kvopt.vllm.settings import PoolSettings

    paths = []
    for number in range(2):
        pool = NativeBlockPool(10, True, 16, settings=PoolSettings("cost-aware"))
        state = LearnedState(str(tmp_path / "a.bin"), pool, minutes=1.0, now=0.0, engine=number)
        state.save()
        paths.append(state.path.name)
    assert paths == ["a.bin", "a-1.bin"]
    assert {path.name for path in tmp_path.iterdir()} == set(paths)
