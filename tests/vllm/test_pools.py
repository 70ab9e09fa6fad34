"""Every pool and policy in the real engine core: the same answers, the same order for lru, and what falls back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import Engine, has_kernels
from kvopt.errors import ConfigError
from tiny_model import END_ID, TOOL_CALL_ID

Make = Callable[..., Any]
VIRTUAL = {"time": "virtual"}

PLAIN_POLICY = """
from kvopt.policies import RankingPolicy

class Oldest(RankingPolicy):
    def rank(self, run, now):
        return float(self.runs.last_use[run])

class Raises(RankingPolicy):
    def rank(self, run, now):
        raise ValueError("no rank today")
"""


def workload(server: Engine, seed: int = 1, sessions: int = 6, turns: int = 4) -> dict[str, list[int]]:
    """Agents and one-off prompts that overlap, in a pool too small for them; aborts now and then. The answers."""
    order = random.Random(seed)
    prompts = {s: [10 + (s * 131 + i * 17) % 400 for i in range(order.randint(60, 250))] for s in range(sessions)}
    for turn in range(turns):
        for s in order.sample(sorted(prompts), len(prompts)):
            name = f"{seed}.{s}.{turn}"
            extra = {"kvopt_session_id": f"s{s}"} if s % 2 else None
            server.add(name, prompts[s], max_tokens=order.randint(5, 40), extra=extra, stop=[TOOL_CALL_ID, END_ID])
            server.add(f"{name}.once", [10 + order.randrange(400) for _ in range(order.randint(20, 150))], max_tokens=5)
            for _ in range(order.randint(1, 6)):
                server.step()
            if order.random() < 0.1:
                server.core.abort_requests([f"{name}.once"])
        server.run()
        for s, prompt in prompts.items():
            prompt += [*server.outputs[f"{seed}.{s}.{turn}"], *(10 + (s + i) % 400 for i in range(30))]
    return dict(server.outputs)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("pool", ["native", "vllm"])
def test_lru_is_vllms_own_order(engine: Make, pool: str, asynchronous: bool) -> None:
    """Same hits, same preemptions, same blocks handed out as untouched vLLM."""
    simulation = {**VIRTUAL, "asynchronous": asynchronous}
    seen = []
    for options in ({"pool": "off"}, {"pool": pool, "policy": "lru"}):
        server = engine(kvopt={**options, "simulation": simulation}, blocks=40)
        taken: list[list[int]] = []
        manager = server.scheduler.kv_cache_manager
        allocate = manager.allocate_slots

        def watched(request: Any, *args: Any, _allocate: Any = allocate, _taken: Any = taken, **kwargs: Any) -> Any:
            blocks = _allocate(request, *args, **kwargs)
            _taken.append([request.request_id, blocks and blocks.get_block_ids()])
            return blocks

        manager.allocate_slots = watched
        answers = workload(server)
        values = server.scheduler.kvopt.metrics.snapshot()["values"]
        kept = ("hit_tokens", "preemptions", "evicted_blocks", "stored_blocks", "free_blocks", "requests")
        seen.append((taken, answers, {name: values[name] for name in kept}))
        assert server.scheduler.kvopt.hooks.errors == {}
    assert seen[0][2] == seen[1][2]
    assert seen[0][1] == seen[1][1]
    assert seen[0][0] == seen[1][0]
    assert seen[0][2]["evicted_blocks"]["capacity"] > 100


@pytest.mark.parametrize("pool", ["native", "vllm"])
@pytest.mark.parametrize("policy", ["cost-aware", "priority", "s3-fifo", "FILE:Oldest", "FILE:Raises"])
def test_any_policy_serves_the_engine(engine: Make, tmp_path: Path, policy: str, pool: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(PLAIN_POLICY)
    server = engine(kvopt={"policy": policy.replace("FILE", str(file)), "pool": pool, "simulation": VIRTUAL}, blocks=40)
    workload(server)
    block_pool = server.scheduler.kv_cache_manager.block_pool
    native = block_pool.native if pool == "native" else block_pool.order
    assert native.verify() == []
    assert block_pool.get_num_free_blocks() == 39
    assert bool(native.failure) is policy.endswith("Raises")
    assert server.core.reset_prefix_cache() is True
    workload(server, seed=2, sessions=2, turns=2)
    assert server.scheduler.kvopt.hooks.errors == {}


def test_the_pool_is_told_of_sessions_and_stop_reasons(engine: Make) -> None:
    from kvopt.policies import StopReason

    server = engine(kvopt={"policy": "cost-aware", "pool": "native", "simulation": VIRTUAL})
    pool = server.scheduler.kv_cache_manager.block_pool
    told = []
    free = pool.free_blocks

    def free_blocks(blocks: Any) -> Any:
        told.append(pool.request_info)
        return free(blocks)

    pool.free_blocks = free_blocks
    server.add("a", range(10, 110), answer=[TOOL_CALL_ID, 20, END_ID], stop=[END_ID], extra={"kvopt_session_id": "s"})
    server.run()
    server.add("b", range(10, 170), answer=[20, 30], extra={"kvopt_session_id": "s", "kvopt_expected_gap": 4})
    server.run()
    assert [(info.session, info.turn, info.stop, info.output_tokens) for info in told] == [
        (0, 0, StopReason.TOOL_USE, 3),
        (0, 1, StopReason.LENGTH, 2),
    ]
    assert told[1].expected_gap == 4.0


@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor"])
def test_native_hashes_are_vllms(engine: Make, algorithm: str) -> None:
    found = []
    for hashing in ("vllm", "native"):
        server = engine(kvopt={"hashing": hashing, "simulation": VIRTUAL}, prefix_caching_hash_algo=algorithm)
        assert server.scheduler.kvopt.hashing == hashing
        server.add("a", range(10, 200), max_tokens=60, cache_salt="salt")
        server.step()
        request = server.scheduler.requests["a"]
        server.run()
        found.append([bytes(block) for block in request.block_hashes])
    assert found[0] == found[1]
    assert len(found[0]) == (190 + 60) // 32


def test_prefix_caching_off_keeps_vllms_pool(engine: Make) -> None:
    server = engine(kvopt={"policy": "cost-aware", "simulation": VIRTUAL}, enable_prefix_caching=False)
    assert "prefix caching is off" in server.scheduler.kvopt.describe()
    workload(server, turns=2)
    assert server.scheduler.kvopt.hooks.errors == {}
    with pytest.raises(ConfigError, match="prefix caching is off"):
        engine(kvopt={"strict": True, "simulation": VIRTUAL}, enable_prefix_caching=False)


def test_windows_and_full_attention_in_one_pool(engine: Make, windowed_model: Path) -> None:
    for policy in ("lru", "cost-aware"):
        server = engine(
            model=windowed_model, max_model_len=1024, blocks=80, kvopt={"policy": policy, "simulation": VIRTUAL}
        )
        workload(server, sessions=3, turns=3)
        assert server.scheduler.kv_cache_manager.block_pool.native.verify() == []
        assert server.scheduler.kvopt.hooks.errors == {}


@pytest.mark.slow
@pytest.mark.skipif(not has_kernels(), reason="this vLLM has no kernels for this machine")
def test_kernels_answer_the_same_whatever_the_policy(engine: Make) -> None:
    answers = {}
    for name, options in {
        "vllm": None,
        "lru": {"policy": "lru"},
        "cost-aware": {"policy": "cost-aware"},
        "ordered": {"policy": "s3-fifo", "pool": "vllm"},
    }.items():
        server = engine(kvopt=options, simulated=False, blocks=40)
        answers[name] = workload(server, sessions=4, turns=3)
        if options is not None:
            assert server.scheduler.kvopt.hooks.errors == {}
            assert server.scheduler.kvopt.metrics.snapshot()["values"]["hit_tokens"] > 0
        server.shutdown()
    for name, answer in answers.items():
        assert {r: t for r, t in answer.items() if "once" not in r} == {
            r: t for r, t in answers["vllm"].items() if "once" not in r
        }, name
