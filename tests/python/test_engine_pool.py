"""EnginePool and its blocks as Python sees them. The decisions are compared in tests/cpp and, with vLLM, tests/vllm."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from kvopt._core import EngineBlock, EnginePool, RequestInfo
from kvopt.errors import ConfigError, NotEnoughBlocksError, ReferenceCountError, StaleBlockError, UnknownPolicyError
from kvopt.policies import DummyPolicy

HASHES = [bytes([i]) * 32 for i in range(8)]
GROUP = bytes(4)


def ids(blocks: list[EngineBlock]) -> list[int]:
    return [b.block_id for b in blocks]


def filled(policy: str | DummyPolicy = "lru", blocks: int = 10) -> tuple[EnginePool, list[EngineBlock]]:
    """A pool whose request holds blocks 1 to 5, the first four cached."""
    pool = EnginePool(blocks, policy, clock=iter(range(10**6)).__next__)
    table = pool.get_new_blocks(5)
    pool.cache_full_blocks(HASHES, table, 0, 4, 16, 0)
    return pool, table


def test_blocks_show_what_the_pool_knows() -> None:
    pool, table = filled()
    first = table[0]
    assert pool.blocks[1] is first
    assert (first.block_id, first.ref_cnt, first.is_null) == (1, 1, False)
    assert (first.block_hash, first.block_hash_num_tokens) == (HASHES[0] + GROUP, 16)
    assert (table[4].block_hash, table[4].block_hash_num_tokens) == (None, None)
    assert pool.blocks[0].is_null
    assert len({first, table[1]}) == 2
    assert first != table[1]
    with pytest.raises(AttributeError):
        first.block_id = 7  # type: ignore[misc]
    first.ref_cnt += 1
    assert first.ref_cnt == 2


def test_a_block_is_small_and_outside_the_garbage_collector() -> None:
    pool, table = filled()
    assert sys.getsizeof(table[0]) == 32
    assert not gc.is_tracked(table[0])
    assert pool.nbytes / len(pool.blocks) < 290


def test_blocks_outlive_their_pool() -> None:
    pool, table = filled("lfu")
    kept = table[2]
    gone = weakref.ref(pool)
    del pool, table
    gc.collect()
    assert gone() is None
    assert (kept.block_id, kept.ref_cnt, kept.block_hash) == (3, 1, HASHES[2] + GROUP)


def test_the_owner_is_held_weakly() -> None:
    class Owner:
        pass

    pool, table = filled()
    owner = Owner()
    assert table[0].pool is None
    pool.set_owner(owner)
    assert table[0].pool is owner
    del owner
    gc.collect()
    assert table[0].pool is None


def test_order_and_hits() -> None:
    pool, table = filled()
    assert pool.free_blocks(reversed(table)) is None
    assert ids(pool.free_order()) == [5, 6, 7, 8, 9, 4, 3, 2, 1]
    (hit,) = pool.longest_hit(HASHES, [0], 3)
    assert ids(hit) == [1, 2, 3]
    assert pool.count_free(hit) == 3
    pool.touch(hit)
    assert (pool.count_free(hit), pool.get_num_free_blocks()) == (0, 6)
    assert ids(pool.get_new_blocks(6)) == [5, 6, 7, 8, 9, 4]
    assert pool.evictions == 1
    assert pool.longest_hit(HASHES, [0], 9) == ([table[0], table[1], table[2]],)
    assert pool.longest_hit(HASHES, [0, 1], 9) == ([], [])
    assert pool.get_cached_block(HASHES[1], [0]) == [table[1]]
    assert pool.get_cached_block(HASHES[1], [0, 1]) is None
    assert pool.verify() == []


def test_coarser_blocks_use_the_last_of_their_hashes() -> None:
    pool = EnginePool(10)
    table = pool.get_new_blocks(2)
    pool.cache_full_blocks(HASHES, table, 0, 2, 32, 0, 2)
    assert [b.block_hash for b in table] == [HASHES[1] + GROUP, HASHES[3] + GROUP]
    assert pool.longest_hit(HASHES, [0], 9, 2) == (table,)


@pytest.mark.parametrize("policy", ["lru", "lfu"])
def test_removed_keys_are_noted_in_order(policy: str) -> None:
    pool, table = filled(policy)
    pool.note_removed(True)
    pool.free_blocks(reversed(table))
    pool.get_new_blocks(7)
    assert pool.take_removed() == [HASHES[3] + GROUP, HASHES[2] + GROUP]
    assert pool.take_removed() == []


def test_several_keys_a_block() -> None:
    pool, table = filled()
    assert pool.insert_block_hash(b"x" * 36, table[0], 8)
    assert not pool.insert_block_hash(b"x" * 36, table[0])
    assert pool.more_block_hashes(1) == {b"x" * 36}
    assert pool.carries(b"x" * 36, 1)
    assert pool.find(b"x" * 36) is table[0]
    pool.move_block_hashes(table[0], table[4])
    assert table[0].block_hash is None
    assert pool.remove_block_hashes(table[4]) == [HASHES[0] + GROUP, b"x" * 36]
    assert pool.num_keys == 3


def test_what_is_refused_changes_nothing() -> None:
    pool, table = filled()
    other, others = filled()
    before = ids(pool.free_order())
    with pytest.raises(NotEnoughBlocksError, match="5 blocks are needed; 4 are free"):
        pool.get_new_blocks(5)
    with pytest.raises(ReferenceCountError, match="block 9"):
        pool.free_blocks([table[0], pool.blocks[9]])
    with pytest.raises(StaleBlockError, match="block 1 is cached already"):
        pool.cache_full_blocks(HASHES, table, 0, 4, 16, 0)
    with pytest.raises(StaleBlockError, match="no block of this pool"):
        pool.touch([others[0]])
    with pytest.raises(ConfigError, match="bytes"):
        pool.cache_full_blocks(["no bytes"] * 5, table, 4, 5, 16, 0)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="hashes of 4 blocks"):
        pool.cache_full_blocks(HASHES[:4], table, 4, 5, 16, 0)
    with pytest.raises(ConfigError, match="must not be negative"):
        pool.get_new_blocks(-1)
    assert ids(pool.free_order()) == before
    assert [b.ref_cnt for b in table] == [1] * 5
    assert pool.free_blocks(others) == others
    assert other.get_num_free_blocks() == 4
    assert pool.verify() == other.verify() == []


def test_bad_options() -> None:
    for blocks in (0, -1, 2**31):
        with pytest.raises(ConfigError, match=str(blocks)):
            EnginePool(blocks)
    with pytest.raises(UnknownPolicyError, match="lru"):
        EnginePool(4, "lur")
    with pytest.raises(ConfigError, match="block_tokens"):
        EnginePool(4, block_tokens=0)
    policy = DummyPolicy()
    with pytest.raises(ConfigError):
        EnginePool(0, policy)
    assert not policy.attached


def test_the_policy_hears_of_the_request() -> None:
    class Listening(DummyPolicy):
        heard: list[tuple[int, float]] = []  # noqa: RUF012

        def on_evictable(self, runs: object, info: RequestInfo) -> None:
            self.heard.append((info.session, info.now))
            super().on_evictable(runs, info)  # type: ignore[arg-type]

    policy = Listening()
    pool, table = filled(policy)
    pool.request_info = RequestInfo(0.0, session=12)
    pool.free_blocks(reversed(table))
    ((session, now),) = policy.heard
    assert session == 12
    assert now == 2.0  # the third call on the clock
    assert pool.runs is not None
    assert pool.runs.depth[4] == 3
    assert pool.runs.parent[4] == 3


def test_reset_only_while_nothing_is_held() -> None:
    for policy in ("lru", "cost-aware"):
        pool, table = filled(policy)
        assert not pool.reset_prefix_cache()
        assert pool.num_keys == 4
        pool.free_blocks(reversed(table))
        assert pool.reset_prefix_cache()
        assert (pool.num_keys, pool.get_num_free_blocks(), pool.get_usage()) == (0, 9, 0.0)
        assert pool.verify() == []
