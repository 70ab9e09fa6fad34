"""What clients ask for in vllm_xargs, on the real engine core: priorities, ranges of tokens, lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engines import BLOCK, Engine
from kvopt.policies.retention import DEFAULT_PRIORITY

Make = Callable[..., Any]
PROMPT = list(range(10, 10 + 5 * BLOCK + 1))


class Asked:
    """An engine whose clock the test sets, and the priorities of the blocks that hold PROMPT."""

    def __init__(self, engine: Make, policy: str) -> None:
        self.now = 0.0
        options = {"policy": policy, "retention": "index", "lease_share": 0, "simulation": {"time": "virtual"}}
        self.server: Engine = engine(kvopt=options, blocks=64)
        self.runtime = self.server.scheduler.kvopt
        self.runtime.hooks.clock = lambda: self.now

    def ask(self, name: str, **record: Any) -> None:
        extra = {f"kvopt_{field}": value for field, value in record.items()}
        self.server.add(name, PROMPT, answer=[20, 30], extra=extra)
        self.server.run()
        assert self.runtime.hooks.errors == {}
        assert self.runtime.hooks.hint_errors == 0

    def pass_to(self, now: float) -> None:
        self.now = now
        self.runtime.before_step()

    @property
    def priorities(self) -> list[int]:
        pool = self.server.scheduler.kv_cache_manager.block_pool
        assert pool.native.verify() == []
        priority = pool.native.runs.priority
        numbers = {block.block_hash: block.block_id for block in pool.blocks if block.block_hash is not None}
        return [int(priority[number]) for number in sorted(numbers.values())]


@pytest.mark.parametrize("policy", ["priority", "cost-aware"])
@pytest.mark.parametrize("lifetime", ["fixed", "refresh"])
def test_a_hit_begins_a_refreshed_lifetime_anew_and_leaves_a_fixed_one(
    engine: Make, lifetime: str, policy: str
) -> None:
    asked = Asked(engine, policy)
    asked.ask("first", session_id="s", priority=80, ttl=10, lifetime=lifetime)
    assert asked.priorities == [80] * 5
    asked.pass_to(8.0)
    asked.ask("another", last_turn=True)
    assert asked.priorities == [80] * 5
    asked.pass_to(12.0)
    assert asked.priorities == [80 if lifetime == "refresh" else DEFAULT_PRIORITY] * 5
    asked.pass_to(17.9)
    assert asked.priorities == [80 if lifetime == "refresh" else DEFAULT_PRIORITY] * 5
    asked.pass_to(18.1)
    assert asked.priorities == [DEFAULT_PRIORITY] * 5


def test_a_look_up_without_a_hit_renews_nothing(engine: Make) -> None:
    asked = Asked(engine, "priority")
    asked.ask("first", session_id="s", priority=80, ttl=10, lifetime="refresh")
    asked.pass_to(8.0)
    asked.server.add("other", [400, *PROMPT[1:]], answer=[20])
    asked.server.run()
    asked.pass_to(10.1)
    assert 80 not in asked.priorities


def test_ranges_of_tokens_have_their_own_priorities_and_durations(engine: Make) -> None:
    asked = Asked(engine, "priority")
    ranges = [
        {"start": 0, "end": 2 * BLOCK, "priority": 90},
        {"start": 3 * BLOCK, "priority": 10, "duration_ms": 5000},
    ]
    asked.ask("first", session_id="s", priority=50, ttl=100, token_ranges=ranges)
    assert asked.priorities == [90, 90, 50, 10, 10]
    asked.pass_to(5.1)
    assert asked.priorities == [90, 90, 50, DEFAULT_PRIORITY, DEFAULT_PRIORITY]
    asked.pass_to(100.1)
    assert asked.priorities == [90, 90, DEFAULT_PRIORITY, DEFAULT_PRIORITY, DEFAULT_PRIORITY]


def test_another_session_with_the_same_head_does_not_end_what_a_client_asked_for(engine: Make) -> None:
    """An operator's system prompt keeps its priority although everybody else's requests begin with it."""
    asked = Asked(engine, "cost-aware")
    asked.ask("system", session_id="system", priority=95, ttl=1000)
    asked.ask("user", session_id="user")
    assert asked.priorities == [95] * 5
