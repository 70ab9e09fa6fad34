"""Policies for KV caches: victims worked out by hand, and plain models on random traces.

In cases by hand a block at depth d costs 1000 * (1.5 + d) (made_pools.py); costs below are in thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naive_policies as naive
from kvopt import _core
from kvopt.errors import ConfigError
from kvopt.simulator import replay
from kvopt.workload.base import StopReason, Trace
from kvopt.workload.parquet import read_parquet, write_parquet
from made_pools import NamedBlocks
from made_traces import SMALL_TRACE, make_trace
from naive_policies import BLOCK_TOKENS, P_STAR

NAIVE: dict[str, Callable[[], naive.NaivePolicy]] = {
    "workload-aware": naive.NaiveWorkloadAware,
    "asymcache": naive.NaiveAsymCache,
    "pensieve": naive.NaivePensieve,
    "pgdsf": naive.NaivePgdsf,
    "marconi": naive.NaiveMarconi,
    "kvflow": naive.NaiveKvFlow,
    "lpc": naive.NaiveLpc,
}


def conversations(policy: str) -> NamedBlocks:
    blocks = NamedBlocks(policy)
    blocks.use([1, 2, 3, 4, 5], 0.0)
    blocks.use([11], 1.0)
    blocks.use([21, 22, 23], 2.0)
    return blocks


def test_t_lru_gives_the_surplus_first() -> None:
    # 2,000 tokens are two blocks: of five the last two are surplus, of one block that one, of three the last two. Then
    # comes the least recently used, which is what the first conversation needs.
    order = [5, 4, 11, 23, 22, 3, 2, 1, 21]
    assert conversations("t-lru:threshold=2000,next_prompt=0").victims(9, 3.0) == order
    for n in range(1, 10):
        assert conversations("t-lru:threshold=2000,next_prompt=0").victims_at_once(n, 3.0) == set(order[:n])


def test_t_lru_without_surplus_is_lru() -> None:
    # The next prompt alone takes up the budget.
    assert conversations("t-lru:threshold=2000,next_prompt=2000").victims(9, 3.0) == [5, 4, 3, 2, 1, 11, 23, 22, 21]


def test_t_lru_counts_the_longest_conversation_that_shares_a_block() -> None:
    blocks = NamedBlocks("t-lru:threshold=2000,next_prompt=0")
    blocks.use([1, 2, 3, 4, 5], 0.0)
    blocks.use([1, 2], 1.0)
    # Five blocks need the first three of them; the shorter conversation would need none.
    assert blocks.victims(3, 2.0) == [5, 4, 3]
    blocks.use([31], 3.0)
    # What was trimmed stays trimmed: blocks 1 and 2 are no surplus now that they end the chain.
    assert blocks.victims(1, 4.0) == [31]


@pytest.mark.parametrize(
    ("now", "order"),
    [
        # Idle times 2 and 10: 1.5 * 2^-0.2 = 1.31 against 4.5 * 2^-1 = 2.25.
        (10.0, [1, 14, 13, 12, 11]),
        # 8 and 16: 1.5 * 2^-0.8 = 0.86; behind the lifespan 4.5 * 2^-(11/5) = 0.98.
        (16.0, [1, 14, 13, 12, 11]),
        # 12 and 20: 1.5 * 2^-(7/5) = 0.57; 4.5 * 2^-3 = 0.56, then less cost.
        (20.0, [14, 13, 12, 11, 1]),
    ],
)
def test_asymcache_falls_fast_behind_the_lifespan(now: float, order: list[int]) -> None:
    blocks = NamedBlocks("asymcache:lifespan=10,p=0.5,r=2")
    blocks.use([11, 12, 13, 14], 0.0)
    blocks.use([1], 8.0)
    assert blocks.victims(5, now) == order


@pytest.mark.parametrize(
    ("now", "order"),
    [
        # 1.5 / 2 = 0.75 against 4.5 / 10 = 0.45, and less for each block in front.
        (10.0, [14, 13, 12, 11, 1]),
        # 1.5 / 4 = 4.5 / 12: the cheaper of equals; then it is alone.
        (12.0, [1, 14, 13, 12, 11]),
        # 1.5 / 5 = 0.3 against 4.5 / 13 = 0.35.
        (13.0, [1, 14, 13, 12, 11]),
    ],
)
def test_pensieve_divides_cost_by_idle_time(now: float, order: list[int]) -> None:
    blocks = NamedBlocks("pensieve")
    blocks.use([11, 12, 13, 14], 0.0)
    blocks.use([1], 8.0)
    assert blocks.victims(5, now) == order


def test_pgdsf_weighs_uses_and_the_cost_of_the_miss() -> None:
    blocks = NamedBlocks("pgdsf")
    for now in (0.0, 1.0, 2.0):
        blocks.use([1, 2], now)  # 3 uses * (1.5 + 2.5) / 2 = 6
    blocks.use([11], 3.0)  # 1.5
    blocks.use([21, 22, 23, 24], 4.0)  # (1.5 + 2.5 + 3.5 + 4.5) / 4 = 3
    assert blocks.victims(1, 5.0) == [11]
    blocks.use([31], 6.0)  # The clock is at 1.5: 1.5 + 1.5 = 3, used later than 21.
    assert blocks.victims(5, 7.0) == [24, 23, 22, 21, 31]
    blocks.use([41], 8.0)  # 3 + 1.5 = 4.5
    assert blocks.victims(3, 9.0) == [41, 2, 1]


@pytest.mark.parametrize(
    ("alpha", "first"),
    [
        # Recency 1/2, 1/10 and 1 scales to 0.44, 0 and 1; the cost a block, 1.5, 3 and 1.5, to 0, 1 and 0.
        ("1", 1),  # 0.44, 1 and 1
        ("0.3", 14),  # 0.44, 0.3 and 1
        ("0", 14),
    ],
)
def test_marconi_adds_scaled_recency_and_cost(alpha: str, first: int) -> None:
    blocks = NamedBlocks(f"marconi:alpha={alpha}")
    blocks.use([11, 12, 13, 14], 0.0)
    blocks.use([1], 8.0)
    blocks.use([2], 9.0)
    assert blocks.victims(1, 10.0) == [first]


def test_marconi_renews_only_the_deepest_block_that_is_hit() -> None:
    blocks = NamedBlocks("marconi:alpha=0")
    blocks.use([1], 0.0)
    blocks.use([1, 2], 1.0)
    blocks.use([11], 2.0)
    blocks.use([1, 2, 3], 9.0)
    assert blocks.victims(1, 10.0) == [11]
    # Block 1 was the deepest hit at 1 s, block 2 at 9 s, where 3 was stored.
    blocks.use([21], 11.0)
    assert blocks.victims(2, 12.0) == [3, 2]
    blocks.use([31], 13.0)
    assert blocks.victims(3, 14.0) == [1, 21, 31]


def test_kvflow_counts_the_steps_of_the_workflow() -> None:
    blocks = NamedBlocks("kvflow")
    blocks.use([1], 0.0, session=7, steps=3)
    blocks.use([2], 1.0, session=7, steps=1)  # block 1 is 2 steps away now
    blocks.use([3], 2.0, session=8, steps=2)  # another workflow
    blocks.use([4], 3.0, session=8)  # no hint; block 3 is a step away
    blocks.use([5], 4.0, session=9, steps=90)  # beyond the horizon, as good as unknown
    assert blocks.victims(5, 5.0) == [4, 5, 1, 2, 3]


def test_kvflow_forgets_what_is_overdue() -> None:
    blocks = NamedBlocks("kvflow")
    blocks.use([1], 0.0, session=7, steps=1)
    blocks.use([2], 1.0, session=7, steps=3)
    assert blocks.victims(0, 1.0) == []
    blocks.use([3], 2.0, session=7, steps=2)
    # Block 1 was due two requests ago; block 2 is 2 steps away, block 3 too.
    assert blocks.victims(3, 3.0) == [1, 2, 3]


def test_kvflow_keeps_the_nearest_of_several_agents() -> None:
    blocks = NamedBlocks("kvflow")
    blocks.use([1], 0.0, session=7, steps=1)
    blocks.use([1], 1.0, session=8, steps=3)
    blocks.use([2], 2.0, session=9, steps=2)
    assert blocks.victims(2, 3.0) == [2, 1]


def test_lpc_lets_the_odds_decay() -> None:
    blocks = NamedBlocks("lpc:interval=10")
    # ln(p / (1 - p)) * 10 + t: 21.97, 10 and -21.97 + 25 = 3.03; no hint is one half: 12.
    blocks.use([1], 0.0, return_probability=0.9)
    blocks.use([2], 10.0, return_probability=0.5)
    blocks.use([3], 12.0)
    blocks.use([4], 25.0, return_probability=0.1)
    assert blocks.victims(4, 26.0) == [4, 2, 3, 1]


def test_lpc_shares_the_greatest_and_replaces_its_own() -> None:
    blocks = NamedBlocks("lpc:interval=10")
    blocks.use([1], 0.0, session=1, return_probability=0.9)
    blocks.use([1], 1.0, session=2, return_probability=0.1)
    blocks.use([2], 2.0, session=3, return_probability=0.7)  # 8.47 + 2 = 10.5, below 21.97
    assert blocks.victims(1, 3.0) == [2]
    blocks.use([2], 4.0, session=3, return_probability=0.7)
    blocks.use([1], 5.0, session=1, return_probability=0.1)  # -21.97 + 5
    assert blocks.victims(2, 6.0) == [1, 2]


def test_workload_aware_learns_which_requests_return() -> None:
    blocks = NamedBlocks("workload-aware")
    for turn in range(20):
        now = 10.0 * turn
        blocks.use([1], now, turn=1, stop=_core.StopReason.TOOL_USE)
        blocks.use([1000 + turn], now, turn=1, stop=_core.StopReason.END_TURN)
        if turn > 0:
            assert blocks.victims(1, now + 5.0) == [999 + turn]
    assert sorted(blocks.victims(2, 200.0)) == [1, 1019]
    # Blocks of tool calls are known to be reused, those of ended turns are not, even if they were used later.
    blocks.use([2], 300.0, turn=1, stop=_core.StopReason.TOOL_USE)
    blocks.use([3], 301.0, turn=1, stop=_core.StopReason.END_TURN)
    assert blocks.victims(2, 302.0) == [3, 2]


def random_trace(seed: int) -> tuple[_core.PrefixTrace, np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
    """Sessions that grow, branch and share heads, with hints and some that know nothing."""
    rng = np.random.default_rng(seed)
    builder = _core.PrefixTraceBuilder()
    chains = [[100 * head + i for i in range(1, 4)] for head in range(1, 4)]
    next_id, now = 10_000, 0.0
    columns: dict[str, list[float]] = {
        name: [] for name in ("time", "session", "turn", "stop", "subagent", "steps", "return_probability")
    }
    for _ in range(150):
        chain = chains[int(rng.integers(len(chains)))]
        kept = chain[: int(rng.integers(1, len(chain) + 1))] if rng.random() < 0.3 else chain
        grown = kept + list(range(next_id, next_id + int(rng.integers(0, 4))))
        next_id += 4
        chains.append(grown[:14])
        builder.append(np.array(grown[:14], np.uint64))
        now += float(rng.choice([0.0, 0.25, 1.0, 3.0, 40.0]))
        columns["time"].append(now)
        columns["session"].append(int(rng.integers(0, 6)))
        columns["turn"].append(int(rng.integers(-1, 3)))
        columns["stop"].append(int(rng.integers(0, 3)))
        columns["subagent"].append(int(rng.random() < 0.2))
        columns["steps"].append(int(rng.integers(-1, 7)))
        columns["return_probability"].append(float(rng.choice([math.nan, 0.0, 0.1, 0.3, 0.8, 1.0])))
    types = {"subagent": np.uint8, "stop": np.uint8, "return_probability": np.float32, "time": np.float64}
    arrays = {name: np.array(values, types.get(name, np.int32)) for name, values in columns.items()}
    return builder.finish(), arrays.pop("time"), arrays


def replayed(policy: Any, trace: Any, capacity: int) -> tuple[list[int], int]:
    prefix, time, context = trace
    counts = _core.replay(prefix, time, policy, capacity, block_tokens=BLOCK_TOKENS, p_star=P_STAR, context=context)
    return counts.hit_blocks.tolist(), counts.evictions


@pytest.mark.parametrize("policy", NAIVE)
@pytest.mark.parametrize("seed", range(8))
def test_equals_a_plain_model(policy: str, seed: int) -> None:
    trace = random_trace(seed)
    for capacity in (15, 30, 60):
        assert replayed(policy, trace, capacity) == replayed(NAIVE[policy](), trace, capacity)


def plain_t_lru(trace: Any, capacity: int, spared: int) -> tuple[list[int], int]:
    """T-LRU block by block; `spared` tokens of a conversation need not be cached."""
    prefix, time, _ = trace
    used: dict[int, float] = {}
    place: dict[int, tuple[int, int | None]] = {}  # of a block: depth, parent
    longest: dict[int, int] = {}
    hits, evictions = [], 0
    for request, now in enumerate(time):
        chain = prefix.chain(request).tolist()
        if len(chain) >= capacity:
            hits.append(0)
            continue
        hit = next((i for i, block in enumerate(chain) if block not in used), len(chain))
        hits.append(hit)
        place |= {block: (i, chain[i - 1] if i else None) for i, block in enumerate(chain)}
        for _ in range(len(used) + len(chain) - hit - capacity):
            parents = {place[block][1] for block in used}
            ranks = {
                block: (place[block][0] < longest[block] - spared / BLOCK_TOKENS, used[block], -place[block][0])
                for block in used
                if block not in parents and block not in chain
            }
            victim = min(ranks, key=ranks.__getitem__)
            del used[victim], longest[victim]
            evictions += 1
        for block in chain:
            used[block] = now
            longest[block] = max(longest.get(block, 0), len(chain))
    return hits, evictions


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("threshold", [0, 1500, 4000])
def test_t_lru_equals_a_plain_model(seed: int, threshold: int) -> None:
    prefix, _, context = random_trace(seed)
    trace = (prefix, np.arange(float(prefix.requests)), context)
    for capacity in (15, 30, 60):
        policy = f"t-lru:threshold={threshold},next_prompt=0"
        assert replayed(policy, trace, capacity) == plain_t_lru(trace, capacity, threshold)


@pytest.mark.parametrize("policy", [*NAIVE, "t-lru", "priority"])
def test_works_without_hints_and_under_the_flat_rule(policy: str) -> None:
    prefix, time, _ = random_trace(1)
    for rule in ("prefix", "flat"):
        counts = _core.replay(prefix, time, policy, 30, rule=rule)
        again = _core.replay(prefix, time, policy, 30, rule=rule)
        assert counts.evictions > 0
        assert counts.hit_blocks.tolist() == again.hit_blocks.tolist()


def hinted(**hints: Any) -> Trace:
    trace = make_trace(SMALL_TRACE)
    columns = trace.columns() | {name: np.array(values) for name, values in hints.items()}
    return Trace.from_columns(trace.prefix, columns, name="hinted", block_tokens=trace.block_tokens)


@pytest.mark.parametrize(
    ("policy", "hint", "values"),
    [
        ("kvflow:horizon=2", "steps", [2, -1, 1, 0, 3, -1, 1]),
        ("lpc", "return_probability", [0.5, math.nan, 1.0, 0.0, 0.25, 0.5, 0.5]),
    ],
)
def test_a_missing_hint_is_named(policy: str, hint: str, values: list[float], tmp_path: Path) -> None:
    calls: list[int] = []
    with pytest.raises(ConfigError, match=f"{policy} needs the hint '{hint}', which no request of small carries"):
        replay(make_trace(SMALL_TRACE), ["lru", policy], [4], progress=lambda done, total, what: calls.append(done))
    assert calls == []
    trace = hinted(**{hint: values})
    write_parquet(trace, tmp_path / "hinted.parquet")
    for given in (trace, read_parquet(tmp_path / "hinted.parquet")):
        row = replay(given, policy, [4]).rows[0]
        assert row.evictions > 0
        np.testing.assert_array_equal(given.columns()[hint], np.array(values, given.columns()[hint].dtype))
    assert not trace.knows("stop")
    assert hinted(stop=[StopReason.TOOL_USE] * 7).knows("stop")
