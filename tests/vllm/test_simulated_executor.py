"""The engine core without kernels: steps, answers, time, sync and async, with windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import BLOCK


def prompt(length: int, seed: int = 0) -> list[int]:
    return [10 + (seed * 97 + i * 31) % 400 for i in range(length)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_requests_are_answered_and_hit_what_others_stored(engine: Callable[..., Any], asynchronous: bool) -> None:
    server = engine(kvopt={"pool": "off", "simulation": {"time": "virtual", "asynchronous": asynchronous}})
    assert server.scheduler.scheduler_config.async_scheduling is asynchronous
    server.add("a", prompt(200), max_tokens=5)
    server.run()
    server.add("b", prompt(200), answer=[7, 8, 9])
    server.run()
    assert server.outputs == {"a": [100] * 5, "b": [7, 8, 9]}
    assert server.reasons == {"a": "length", "b": "length"}
    stats = server.core.model_executor
    assert stats.steps >= 8
    assert stats.simulated_seconds == 0.0


def test_preempted_requests_answer_the_same(engine: Callable[..., Any]) -> None:
    server = engine(kvopt={"pool": "off", "simulation": {"time": "virtual"}}, blocks=24)
    answers = {f"r{i}": [10 + i, *range(200, 299)] for i in range(6)}
    for seed, (name, answer) in enumerate(answers.items()):
        server.add(name, prompt(100, seed), answer=answer)
    preempted = 0
    while server.scheduler.has_requests():
        before = list(server.scheduler.running)
        server.step()
        preempted += sum(r.num_preemptions for r in before)
    assert preempted > 0
    assert server.outputs == answers


def test_profile_gives_the_time_of_a_step(engine: Callable[..., Any]) -> None:
    prefill = {"k0": 10.0, "k1": 0.5, "k2": 0.0, "k3": 0.001}
    server = engine(kvopt={"pool": "off", "prefill": prefill, "simulation": {"time": "virtual", "decode_ms": 2.0}})
    server.add("a", prompt(100), max_tokens=2)
    server.run()
    first = 10.0 + 0.5 * 100
    second = 10.0 + 0.5 + 0.001 * 100 + 2.0
    assert server.core.model_executor.simulated_seconds == pytest.approx((first + second) / 1000)


def test_windows_get_a_group_of_their_own(engine: Callable[..., Any], windowed_model: Path) -> None:
    server = engine(model=windowed_model, max_model_len=1024, kvopt={"pool": "off", "simulation": {"time": "virtual"}})
    kinds = {type(group.kv_cache_spec).__name__ for group in server.scheduler.kv_cache_config.kv_cache_groups}
    assert kinds == {"FullAttentionSpec", "SlidingWindowSpec"}
    for turn in range(2):
        server.add(f"t{turn}", prompt(6 * BLOCK + 5), max_tokens=40)
        server.run()
    assert [len(tokens) for tokens in server.outputs.values()] == [40, 40]
