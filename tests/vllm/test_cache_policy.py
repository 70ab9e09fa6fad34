"""KVopt's policies behind vLLM's own manager of the CPU tier, without a device."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest

MODULE = "kvopt.vllm.cache_policy"


def make_manager(chunks: int, policy: str) -> Any:
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    return CPUOffloadingManager(chunks, cache_policy=policy, cache_policy_module_path=MODULE)


def context(name: str) -> Any:
    from vllm.v1.kv_offload.base import ReqContext

    return ReqContext(name)


def key(number: int) -> Any:
    from vllm.v1.kv_offload.base import make_offload_key

    return make_offload_key(number.to_bytes(32, "big"), 0)


class Request:
    """What the connector does for one request: look up, load what is there, store the rest."""

    def __init__(self, manager: Any, name: str, numbers: list[int]) -> None:
        from vllm.v1.kv_offload.base import LookupResult

        self.keys = [key(number) for number in numbers]
        self.context = context(name)
        self.manager = manager
        manager.on_new_request(self.context)
        self.hits = []
        for wanted in self.keys:
            if manager.lookup(wanted, self.context) != LookupResult.HIT:
                break
            self.hits.append(wanted)
        if self.hits:
            manager.prepare_load(self.hits, self.context)
            manager.complete_load(self.hits, self.context)
        self.stored = manager.prepare_store(self.keys, self.context)
        if self.stored is not None:
            manager.complete_store(self.stored.keys_to_store, self.context)
        self.finish()

    def finish(self) -> None:
        finished = getattr(self.manager, "on_request_finished", None)
        if finished is not None and len(inspect.signature(finished).parameters) == 1:
            finished(self.context)


@pytest.mark.parametrize("policy", ["kvopt:lru", "cost-aware", "lfu", "s3-fifo", "lhd"])
def test_a_tier_that_is_full_stays_full_and_consistent(policy: str) -> None:
    manager = make_manager(20, policy)
    order = random.Random(1)
    held: set[int] = set()
    hits = 0
    for number in range(300):
        start = order.choice([0, 100, 200, 1000 + number * 10])
        chain = list(range(start, start + order.randint(1, 8)))
        request = Request(manager, f"r{number}", chain)
        hits += len(request.hits)
        assert request.stored is not None
        gone = {int.from_bytes(lost[:32], "big") for lost in request.stored.evicted_keys}
        assert gone <= held
        assert not gone & set(chain)
        held -= gone
        held |= {int.from_bytes(new[:32], "big") for new in request.stored.keys_to_store}
        assert len(held) <= 20
    assert len(held) == 20
    assert hits > 0
    found = [number for number in range(5000) if manager._policy.get(key(number)) is not None]
    assert set(found) == held


def test_lru_evicts_what_was_used_least_lately() -> None:
    manager = make_manager(4, "kvopt:lru")
    for number in range(4):
        Request(manager, f"r{number}", [number])
    Request(manager, "again", [0])
    request = Request(manager, "new", [10, 11])
    assert [int.from_bytes(lost[:32], "big") for lost in request.stored.evicted_keys] == [1, 2]


def test_eviction_is_all_or_nothing() -> None:
    from kvopt.vllm import cache_policy

    policy = getattr(cache_policy, "kvopt:lru")(3)
    from vllm.v1.kv_offload.cpu.policies.base import ChunkStatus

    for number in range(3):
        policy.insert(key(number), ChunkStatus(number), context("r"))
        policy.get(key(number)).ref_cnt = 0
        policy.mark_evictable(key(number))
    assert policy.evict(3, {key(1)}) is None
    assert [found for found, _ in policy.evict(2, {key(0)})] == [key(1), key(2)]
    assert policy.evict(1, {key(0)}) is None
    assert policy.get(key(0)).chunk_id == 0
    policy.clear()
    assert policy.get(key(0)) is None


def test_unknown_and_offline_policies_are_refused() -> None:
    with pytest.raises(AttributeError, match="lru"):
        make_manager(4, "lrru")
    with pytest.raises(AttributeError, match="future"):
        make_manager(4, "min")
