"""With the policy "lru" the native pool decides as vLLM's own does: every block, every victim, every hit."""

from __future__ import annotations

from typing import Any

import pytest

from kvopt.vllm.adapter import OrderedBlockPool
from kvopt.vllm.bridge import NativeBlockPool
from kvopt.vllm.settings import PoolSettings
from managers import Server, Workload, full_attention, make_manager, perform, sliding_window

GROUPS = {
    "full": lambda: [full_attention()],
    "full and window": lambda: [full_attention(), sliding_window(10)],
    "window": lambda: [sliding_window(10)],
    "two of each": lambda: [full_attention(), sliding_window(10), full_attention(), sliding_window(21)],
}


def run_beside(specs: Any, seed: int, steps: int, pool: Any = "native", **options: Any) -> Server:
    blocks = 12 + seed * 7 % 60
    theirs = Server(make_manager(specs(), blocks, None, **options))
    ours = Server(make_manager(specs(), blocks, PoolSettings("lru", pool=pool), **options))
    assert isinstance(ours.pool, NativeBlockPool if pool == "native" else OrderedBlockPool)
    assert not isinstance(theirs.pool, NativeBlockPool)
    workload = Workload(seed, blocks).steps(steps)
    answer = None
    try:
        while True:
            operation, arguments = workload.send(answer)
            answer = perform(theirs, operation, arguments)
            assert perform(ours, operation, arguments) == answer, (operation, arguments)
            assert ours.state() == theirs.state(), (operation, arguments)
            assert ours.manager.take_events() == theirs.manager.take_events()
    except StopIteration:
        pass
    order = ours.pool.native if pool == "native" else ours.pool.order
    assert order.verify() == []
    assert vars(ours.manager.prefix_cache_stats) == vars(theirs.manager.prefix_cache_stats)
    return ours


@pytest.mark.parametrize("seed", range(200))
def test_full_attention_equals_vllm_step_by_step(seed: int) -> None:
    ours = run_beside(GROUPS["full"], seed, 120, enable_kv_cache_events=seed % 2 == 0)
    assert seed % 10 or ours.pool.native.evictions > 0  # the pools are small enough to matter


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("seed", range(12))
def test_groups_equal_vllm_step_by_step(groups: str, seed: int) -> None:
    run_beside(GROUPS[groups], seed + 1000, 100, enable_kv_cache_events=seed % 3 == 0)


@pytest.mark.parametrize("seed", range(6))
def test_speculative_decoding_drops_the_last_block_as_vllm_does(seed: int) -> None:
    run_beside(GROUPS["full"], seed, 100, use_eagle=True)
    run_beside(GROUPS["full and window"], seed, 100, use_eagle=True)


@pytest.mark.parametrize("seed", range(4))
def test_without_prefix_caching(seed: int) -> None:
    run_beside(GROUPS["full"], seed, 100, enable_caching=False)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("seed", range(10))
def test_the_order_in_vllms_own_pool(groups: str, seed: int) -> None:
    run_beside(GROUPS[groups], seed, 100, pool="vllm", enable_kv_cache_events=seed % 2 == 0)
