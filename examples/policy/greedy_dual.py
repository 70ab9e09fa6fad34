"""Greedy-dual: what is hit often and is costly to prefill stays, unless it goes unused for long.

kvopt compare --policy lru,examples/policy/greedy_dual.py:GreedyDual
"""

from kvopt.policies import RankingPolicy


class GreedyDual(RankingPolicy):
    """Ranks a leaf by (hits + 1) x prefill time above a clock, which rises to the rank of each victim."""

    name = "greedy-dual"
    twice = 447  # blocks of 64 tokens before the one that takes twice as long as the first (Llama-3.1-8B)

    def __init__(self) -> None:
        self.clock = 0.0
        self.ranks: dict[int, float] = {}

    def rank(self, run: int, now: float) -> float:
        """Rank a run that becomes an evictable leaf; the lowest is evicted first."""
        prefill_time = 1 + self.runs.depth[run] / self.twice
        self.ranks[run] = self.clock + (self.runs.hits[run] + 1) * prefill_time
        return self.ranks[run]

    def choose(self, wanted: int, now: float) -> int:
        """Take the lowest-ranked leaf, and note its rank."""
        run = super().choose(wanted, now)
        self.clock = self.ranks[run]
        return run
