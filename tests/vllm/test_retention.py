"""Retention on the real engine core: what is protected stays, nothing is held for ever, nobody waits for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from engines import BLOCK, Engine
from kvopt.errors import LeaseError
from kvopt.vllm import observation as seen
from tiny_model import END_ID, TOOL_CALL_ID

Make = Callable[..., Any]
VIRTUAL = {"time": "virtual"}


def agents(
    server: Engine, *, turns: int = 4, sessions: int = 3, once: int = 8, seed: int = 1, one_by_one: bool = False
) -> tuple[int, int]:
    """Agents that call tools, and chats between their turns. Hit and prompt tokens of the agents."""
    order = random.Random(seed)
    totals = [0, 0]

    def count(event: seen.Event) -> None:
        if isinstance(event, seen.Scheduled) and not event.resumed and event.request.request_id.startswith("agent"):
            totals[0] += event.hit_tokens
            totals[1] += event.request.prompt_tokens

    server.scheduler.kvopt.hooks.add_observer("count", count)
    prompts = {s: [10 + (s * 131 + i * 17) % 400 for i in range(150)] for s in range(sessions)}
    for turn in range(turns):
        for s, prompt in prompts.items():
            answer = [*(20 + order.randrange(300) for _ in range(20)), TOOL_CALL_ID, END_ID]
            server.add(
                f"agent{s}.{turn}", prompt, answer=answer, stop=[END_ID], extra={"kvopt_session_id": f"s{seed}.{s}"}
            )
            prompt += [*answer, *(20 + order.randrange(300) for _ in range(30))]
        server.run()
        for number in range(once):
            server.add(f"{seed}.{turn}.{number}", [10 + order.randrange(400) for _ in range(120)], answer=[20, 30])
            if one_by_one:
                server.run()
        server.run()
    return totals[0], totals[1]


def test_what_is_protected_is_hit_again(engine: Make) -> None:
    shares = {}
    for retention in ({"retention": "off"}, {"retention": "fixed", "retention_ttl": 1000, "lease_share": 0}):
        server = engine(kvopt={"policy": "priority", "simulation": VIRTUAL, **retention}, blocks=40)
        hit, prompt = agents(server, turns=3, one_by_one=True)
        shares[retention["retention"]] = hit / prompt
        assert server.scheduler.kvopt.hooks.errors == {}
        assert server.scheduler.kv_cache_manager.block_pool.native.verify() == []
    assert shares["fixed"] > shares["off"] + 0.3


@pytest.mark.parametrize("rule", ["index", "expected-hold", "paper", "infercept"])
@pytest.mark.parametrize("pool", ["native", "vllm"])
def test_everybody_finishes_and_nothing_is_held_in_the_end(engine: Make, rule: str, pool: str) -> None:
    server = engine(
        kvopt={
            "policy": "cost-aware",
            "pool": pool,
            "retention": rule,
            "lease_share": 0.8,
            "waiting": "sessions",
            "simulation": VIRTUAL,
        },
        blocks=30,
    )
    for seed in range(3):
        agents(server, seed=seed, turns=3, once=6)
    runtime = server.scheduler.kvopt
    assert runtime.hooks.errors == {}
    assert server.core.reset_prefix_cache() is True
    assert runtime.retention.pool.leased == 0
    assert server.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 29
    assert runtime.metrics.snapshot()["values"]["leased_blocks"] == 0


def lease_at_end(server: Engine, blocks: int) -> list[int]:
    """Lease the first blocks of every request that ends; the numbers of the leases."""
    retention = server.scheduler.kvopt.retention
    manager = server.scheduler.kv_cache_manager
    leases: list[int] = []

    def observe(event: seen.Event) -> None:
        if isinstance(event, seen.Finished):
            handle = retention.pool.handle_of(manager, event.request.request_id)
            leases.append(retention.pool.lease(handle, blocks, deadline=event.now + 9, now=event.now))

    server.scheduler.kvopt.hooks.add_observer("lease", observe)
    return leases


def test_leased_blocks_are_held_until_the_lease_ends(engine: Make) -> None:
    server = engine(kvopt={"retention": "index", "lease_share": 0.5, "policy": "lru", "simulation": VIRTUAL}, blocks=41)
    leases = lease_at_end(server, 3)
    pool = server.scheduler.kvopt.retention.pool
    assert pool.lease_budget == 20
    server.add("a", range(10, 10 + 5 * BLOCK), answer=[20, 30])
    server.run()
    assert pool.leased == 3
    assert pool.available() == 40 - 3
    assert server.scheduler.kv_cache_manager.reset_prefix_cache() is False
    for seed in range(20):  # more than the pool holds
        server.add(f"f{seed}", [20 + (seed * 7 + i) % 380 for i in range(3 * BLOCK)], answer=[20])
        server.run()
        pool.end_lease(leases.pop(), now=0.0)
    server.add("b", range(10, 10 + 5 * BLOCK), answer=[20, 30])
    server.step()
    assert server.scheduler.kvopt.hooks.requests["b"].hit_tokens == 3 * BLOCK
    server.run()
    for lease in leases:
        assert pool.end_lease(lease, now=0.0) is True
        assert pool.end_lease(lease, now=0.0) is False
    assert pool.available() == 40
    assert server.scheduler.kv_cache_manager.reset_prefix_cache() is True


def test_leases_stay_within_the_budget(engine: Make) -> None:
    server = engine(kvopt={"retention": "index", "lease_share": 0.1, "simulation": VIRTUAL}, blocks=41)
    leases = lease_at_end(server, 10)
    server.add("a", range(10, 10 + 6 * BLOCK), answer=[20])
    server.run()
    assert leases == []
    assert server.scheduler.kvopt.hooks.errors == {"lease": 1}
    blocks = server.scheduler.kv_cache_manager.block_pool.blocks[1:7]
    with pytest.raises(LeaseError, match="budget of 4"):
        server.scheduler.kvopt.retention.pool.lease([blocks], 6, deadline=1.0, now=0.0)


@pytest.mark.parametrize("mode", ["abort", "keep"])
def test_sleep_and_wake_clear_what_is_held(engine: Make, mode: str) -> None:
    server = engine(kvopt={"retention": "index", "lease_share": 0.5, "simulation": VIRTUAL}, blocks=41)
    leases = lease_at_end(server, 3)
    server.add("a", range(10, 10 + 5 * BLOCK), answer=[20, 30])
    server.run()
    protected = server.scheduler.kvopt.retention
    assert protected.pool.leased == 3
    for lease in leases:  # of this test's own; the coordinator ends its own at the reset
        protected.pool.end_lease(lease, now=0.0)
    server.core.sleep(1, mode)
    assert server.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 40
    server.core.wake_up()
    server.add("b", range(10, 10 + 5 * BLOCK), answer=[20, 30])
    server.run()
    assert server.outputs["b"] == [20, 30]
    assert server.scheduler.kvopt.hooks.errors == {}


def test_a_storm_of_aborts(engine: Make) -> None:
    server = engine(
        kvopt={"retention": "paper", "lease_share": 0.8, "waiting": "sessions", "simulation": VIRTUAL}, blocks=30
    )
    order = random.Random(3)
    for round_number in range(20):
        names = [f"{round_number}.{number}" for number in range(12)]
        for name in names:
            length = order.randint(20, 200)
            server.add(name, [10 + order.randrange(400) for _ in range(length)], max_tokens=30)
        for _ in range(order.randint(0, 5)):
            server.step()
        server.core.abort_requests(order.sample(names, 9))
    server.run()
    runtime = server.scheduler.kvopt
    assert runtime.hooks.errors == {}
    assert runtime.hooks.requests == {}
    assert server.core.reset_prefix_cache() is True
    assert server.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 29


def test_hints_that_lie_or_are_malformed(engine: Make, log: list[str]) -> None:
    server = engine(kvopt={"retention": "index", "simulation": VIRTUAL})
    lies: list[dict[str, Any]] = [
        {"kvopt_ttl": -1},
        {"kvopt_ttl": "long"},
        {"kvopt_priority": 1000},
        {"kvopt_expected_gap": 1e300},
        {"kvopt_token_ranges": "all"},
        {"kvopt_unknown": 1},
        {"kvopt_session_id": ["a"]},
        {"kvopt": '{"session_id": {"a": 1}}'},
    ]
    for number, extra in enumerate(lies):
        server.add(f"r{number}", [10 + number, *range(50, 150)], answer=[20, 30], extra=extra)
    server.run()
    assert len(server.reasons) == len(lies)
    assert server.scheduler.kvopt.hooks.hint_errors == len(lies)
    assert len([line for line in log if "a client's record cannot be read" in line]) == 1
    assert server.scheduler.kvopt.hooks.errors == {}
