"""What cost-aware must be equal to, on pools that are trained to know one class exactly.

All releases but the first of a chain are of one class (same hint, no output, short, many turns), and with a shrinkage
of 0 a class knows nothing but itself. So what it has learned is known here, too, and a plain model says who must go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from cost_aware_model import at, counted, gittins, hit_density, last_look
from kvopt._core import Allocation, BlockPool, RequestInfo

BLOCK_TOKENS = 16
P_STAR = 100.0
TURNS = 11  # from so many on, releases are of one class
OTHER = 100  # blocks of a chain that is too long for that class
CHAINS = 100  # more than what is scanned for every victim
QUIET = 600  # requests in which every class is refreshed


@dataclass
class School:
    """A pool, what it was taught, and the chains in it."""

    settings: str
    pool: BlockPool = field(init=False)
    blocks: dict[int, int] = field(default_factory=dict)  # of each chain, what is cached
    released: dict[int, float] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)
    gaps: list[float] = field(default_factory=list)  # that followed a release of the class
    owner: dict[int, int] = field(default_factory=dict)  # chain of each block
    held: Allocation | None = None

    def __post_init__(self) -> None:
        settings = f"cost-aware:guard=0,shared=0,ghosts=0,shrinkage=0,forgetting=1,{self.settings}"
        self.pool = BlockPool(4096, settings, block_tokens=BLOCK_TOKENS, p_star=P_STAR)

    def request(self, chain: int, now: float, blocks: int) -> None:
        """A request of this chain; what it waited is learned."""
        info = RequestInfo(now, expected_gap=1.0)
        keys = np.arange(blocks, dtype=np.uint64) + np.uint64(10_000 * (chain + 1))
        allocation = self.pool.acquire(keys, now=info)
        assert allocation.hit in (0, blocks)
        self.pool.commit(allocation, keys[allocation.hit :], now=info)
        for block in allocation.blocks.tolist():
            self.owner[block] = chain
        self.pool.release(allocation, now=info)
        if self.turns.get(chain, 0) > TURNS and blocks < OTHER:
            self.gaps.append(now - self.released[chain])
        self.blocks[chain] = blocks
        self.released[chain] = now
        self.turns[chain] = self.turns.get(chain, 0) + 1

    def end(self, now: float) -> None:
        """Give every class time to be refreshed, by requests of another class, of which nothing stays evictable."""
        other = max(self.blocks) + 1
        for _ in range(QUIET):
            self.request(other, now, OTHER)
        keys = np.arange(OTHER, dtype=np.uint64) + np.uint64(10_000 * (other + 1))
        self.held = self.pool.acquire(keys, now=RequestInfo(now, expected_gap=1.0))
        for known in (self.blocks, self.released, self.turns):
            del known[other]

    def victim(self, now: float) -> int:
        """The chain that the next victim is the end of."""
        (block,) = self.pool.evict(1, now=now).tolist()
        chain = self.owner[block]
        self.blocks[chain] -= 1
        if self.blocks[chain] == 0:
            del self.blocks[chain], self.released[chain]
        return chain


def taught(settings: str, gaps: list[float], seed: int, *, most_blocks: int = 1, oldest: float) -> tuple[School, float]:
    """Chains that return after these gaps, dealt out evenly; then all wait, at most so long; and the time."""
    draw = np.random.default_rng(seed)
    school = School(settings)
    blocks = draw.integers(1, most_blocks + 1, CHAINS).tolist()
    hands = np.array_split(draw.permutation(gaps), CHAINS)
    last = [float(np.sum(hand)) + TURNS for hand in hands]
    now = max(last) + oldest
    due = []
    for chain, hand in enumerate(hands):
        first = now - oldest * draw.random() - last[chain]
        due += [(time, chain) for time in first + np.cumsum([0.0, *[1.0] * TURNS, *hand])]
    for time, chain in sorted(due):
        school.request(chain, time, blocks[chain])
    school.end(now)
    return school, now


def fast_or_slow(n: int, seed: int) -> list[float]:
    """Seconds or minutes: a hazard that falls and rises."""
    draw = np.random.default_rng(seed)
    median = np.where(draw.random(n) < 0.6, 2.0, 90.0)
    return [float(gap) for gap in median * draw.lognormal(0, 0.5, n)]


def memoryless(n: int) -> list[float]:
    """Exponential with a mean of a second, exact: the quantiles."""
    return [-math.log(1 - (number + 0.5) / n) for number in range(n)]


def cost_of(blocks: int, cost: int) -> float:
    """Of the last block of so many, with p* = 100 tokens."""
    depth = {0: None, 1: blocks - 1, 2: (blocks - 1) / 2}[cost]
    return BLOCK_TOKENS * (1.0 if depth is None else 1 + (depth + 0.5) * BLOCK_TOKENS / P_STAR)


def still_waiting(school: School, now: float) -> list[int]:
    return counted([last_look(now - released) for released in school.released.values()])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cost", [0, 1, 2])
@pytest.mark.parametrize("horizon", [0, 1])
def test_the_victim_has_the_least_value_of_all_leaves(horizon: int, cost: int, seed: int) -> None:
    """Brute force over leaves: with an endless horizon by LHD's hit density, else by the best of all horizons."""
    gaps = fast_or_slow(4000, seed)
    school, now = taught(f"horizon={horizon},cost={cost}", gaps, seed, most_blocks=60, oldest=400.0)
    assert sorted(school.gaps) == pytest.approx(sorted(gaps))
    index = (gittins if horizon else hit_density)(counted(school.gaps), still_waiting(school, now))
    kinds = set()
    while len(school.blocks) > 5:
        value = {
            chain: at(index, now - school.released[chain]) * cost_of(blocks, cost)
            for chain, blocks in school.blocks.items()
        }
        victim = school.victim(now)
        assert value[victim] <= min(value.values()) * 1.001
        kinds.add(value[victim])
    assert len(kinds) > 5


@pytest.mark.parametrize("seed", range(4))
def test_memoryless_gaps_at_unit_cost_are_lru(seed: int) -> None:
    """A flat hazard is a tie, and ties go to the oldest. (Below the first edge all are of one age.)"""
    school, now = taught("cost=0", memoryless(20_000), seed, oldest=6.0)
    ages = {chain: now - released for chain, released in school.released.items()}
    order = [ages[school.victim(now)] for _ in range(CHAINS)]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_before_it_has_learned_anything_it_is_lru(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pool = BlockPool(1000, "cost-aware:cost=0", block_tokens=BLOCK_TOKENS)
    times = np.sort(draw.exponential(100.0, 200)).tolist()
    owner: dict[int, int] = {}
    for chain, time in enumerate(times):
        keys = np.arange(draw.integers(1, 5), dtype=np.uint64) + np.uint64(10 * chain)
        allocation = pool.acquire(keys, now=time)
        pool.commit(allocation, keys, now=time)
        owner |= dict.fromkeys(allocation.blocks.tolist(), chain)
        pool.release(allocation, now=time)
    now = times[-1] + 1
    order = [owner[pool.evict(1, now=now).item()] for _ in range(pool.counts()["evictable"])]
    assert order == sorted(order)
