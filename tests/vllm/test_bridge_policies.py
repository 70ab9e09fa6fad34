"""Whatever the policy decides, the pool stays sound: right hits, no victim that is held, no chain without its head."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from kvopt._core import RequestInfo, policies
from kvopt.policies import Policy, RankingPolicy
from kvopt.vllm.settings import PoolKind, PoolSettings
from managers import BLOCK, Server, Workload, full_attention, make_manager, perform, sliding_window

ONLINE = [info.name for info in policies() if not info.offline]
GROUP = (0).to_bytes(4, "big")


class Clock:
    """Seconds that go on by themselves, the same in every run."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


class Deepest(RankingPolicy):
    def rank(self, run: int, now: float) -> float:
        return -float(self.runs.depth[run])


class Raising(Policy):
    """Fails in its tenth choice."""

    choices = 0

    def on_referenced(self, runs: Any) -> None:
        self.free = {r for r in getattr(self, "free", set()) if r not in set(runs.tolist())}

    def on_evictable(self, runs: Any, info: RequestInfo) -> None:
        self.free = getattr(self, "free", set()) | set(runs.tolist())

    def choose(self, wanted: int, now: float) -> int:
        self.choices += 1
        if self.choices == 10:
            raise RuntimeError("out of ideas")
        leaves = [r for r in sorted(self.free) if self.runs.children[r] == 0]
        return leaves[0]


class Checked(Server):
    """A server that checks what its pool does, from the outside."""

    fronts: dict[bytes, bytes]
    whole_chains = True

    def admit(self, name: str, tokens: list[int], chunk: int) -> tuple[Any, ...]:
        cached = {b.block_hash for b in self.pool.blocks}
        held = {b.block_id for b in self.pool.blocks if b.ref_cnt > 0 or b.is_null}
        answer = super().admit(name, tokens, chunk)
        hit_ids, hit, new_ids = answer
        request = self.requests[name]
        hashes = request.block_hashes
        self.fronts.update(zip(hashes[1:], hashes, strict=False))
        naive = 0
        limit = (request.num_tokens - 1) // BLOCK
        while naive < limit and hashes[naive] + GROUP in cached:
            naive += 1
        assert hit == naive * BLOCK
        assert [self.pool.blocks[b].block_hash for b in hit_ids[0]] == [
            h + GROUP for h in hashes[:naive]
        ] or not new_ids
        if new_ids is not None:
            assert held.isdisjoint(new_ids[0])
        return answer

    def check(self) -> None:
        assert self.pool.native.verify() == []
        free = sum(b.ref_cnt == 0 and not b.is_null for b in self.pool.blocks)
        assert self.pool.get_num_free_blocks() == free
        if self.whole_chains:
            cached = {b.block_hash[:-4] for b in self.pool.blocks if b.block_hash}
            assert all(self.fronts.get(h, h) in cached for h in cached)


def run_checked(policy: Any, seed: int, steps: int, specs: Any = None, **options: Any) -> Checked:
    blocks = 14 + seed * 11 % 50
    manager = make_manager(specs or [full_attention()], blocks, PoolSettings(policy, clock=Clock()), **options)
    server = Checked(manager)
    server.fronts = {}
    workload = Workload(seed, blocks).steps(steps)
    answer = None
    try:
        while True:
            operation, arguments = workload.send(answer)
            if operation == "evict":  # takes content out of the middle of chains
                server.whole_chains = False
            server.pool.request_info = RequestInfo(server.pool.request_info.now, session=seed)
            answer = perform(server, operation, arguments)
            if operation == "reset" and answer:
                server.whole_chains = True
            server.check()
    except StopIteration:
        pass
    return server


@pytest.mark.parametrize("policy", [name for name in ONLINE if name != "lru"])
def test_every_policy_keeps_the_pool_sound(policy: str) -> None:
    evictions = 0
    for seed in range(6):
        evictions += run_checked(policy, seed, 120).pool.native.evictions
    assert evictions > 20


@pytest.mark.parametrize("seed", range(8))
def test_policies_written_in_python(seed: int) -> None:
    server = run_checked(Deepest(), seed, 100)
    assert server.pool.native.failure == ""


@pytest.mark.parametrize("seed", range(4))
def test_events_and_windows(seed: int) -> None:
    server = run_checked("cost-aware", seed, 120, enable_kv_cache_events=True)
    stored = removed = 0
    for event in server.manager.take_events():
        stored += len(getattr(event, "token_ids", [])) // BLOCK
        removed += "Removed" in type(event).__name__
    assert stored > removed > 0
    manager = make_manager([full_attention(), sliding_window(10)], 60, PoolSettings("cost-aware", clock=Clock()))
    server = Server(manager)
    workload = Workload(seed, 60).steps(120)
    answer = None
    try:
        while True:
            answer = perform(server, *workload.send(answer))
            assert server.pool.native.verify() == []
    except StopIteration:
        pass


def test_a_policy_that_fails_is_replaced_by_lru(caplog: pytest.LogCaptureFixture) -> None:
    server = run_checked(Raising(), 3, 250)
    assert "out of ideas" in server.pool.native.failure
    assert [r.message.split(":")[0] for r in caplog.records].count("KVopt") == 1
    assert server.pool.native.evictions > 20


def test_what_has_priority_stays() -> None:
    server = Server(make_manager([full_attention()], 40, PoolSettings("priority", clock=Clock())))
    server.admit("keep", list(range(40)), 64)
    server.admit("drop", list(range(100, 140)), 64)
    kept = [server.pool.blocks[b] for b in server.manager.get_block_ids("keep")[0]]
    server.pool.native.set_priority(kept, 90)
    server.let_go("keep", True)
    server.let_go("drop", True)
    server.admit("new", list(range(200, 316)), 128)  # 29 blocks: 19 are empty, 10 of "drop" go
    assert all(b.block_hash is not None for b in kept)
    assert np.all(server.pool.native.runs.priority[[b.block_id for b in kept]] == 90)


@pytest.mark.parametrize("policy", ["cost-aware", "lfu", "arc"])
def test_both_pools_choose_the_same_victims(policy: str) -> None:
    for seed in range(4):
        tables = []
        for pool in get_args(PoolKind):
            now = [0.0]  # the pools call the clock differently often
            settings = PoolSettings(policy, pool=pool, clock=lambda now=now: now[0])
            server = Server(make_manager([full_attention()], 30, settings))
            seen = []
            for i in range(12):
                now[0] = float(i)
                server.admit(f"r{i}", [seed, *range(i % 5, i % 5 + 30 + i)], 64)
                seen.append(server.manager.get_block_ids(f"r{i}"))
                server.let_go(f"r{i}", True)
            tables.append(seen)
        assert tables[0] == tables[1]
