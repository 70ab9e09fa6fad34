"""KV-cache policies in their plainest form: every evictable leaf is scored anew for every victim.

Block costs are those of a replay with `block_tokens` and `p_star` below.
"""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import Any

import numpy as np

from kvopt._core import RequestInfo, RunTable
from kvopt.policies import Policy
from kvopt.policies.base import RunIds

BLOCK_TOKENS = 1000
P_STAR = 1000.0
NONE = 2**32 - 1


def block_cost(depth: float) -> float:
    return BLOCK_TOKENS * (1 + (depth + 0.5) * BLOCK_TOKENS / P_STAR)


class NaivePolicy(Policy):
    """Subclasses give each leaf a rank at a moment; the lowest goes, ties deepest first, then the lowest run id."""

    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.evictable: set[int] = set()
        self.now = 0.0

    def on_referenced(self, runs: RunIds) -> None:
        self.evictable -= set(runs.tolist())

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        self.evictable |= set(runs.tolist())

    def end(self, run: int) -> int:
        return int(self.runs.depth[run]) + int(self.runs.length[run])

    def used(self, run: int) -> float:
        return float(self.runs.last_use[run])

    def leaves(self) -> list[int]:
        return [run for run in self.evictable if self.runs.children[run] == 0]

    def choose(self, wanted: int, now: float) -> int:
        self.now = now
        victim = min(self.leaves(), key=lambda run: (*self.rank(run), -self.end(run), run))
        self.chosen(victim, min(wanted, int(self.runs.length[victim])))
        return victim

    def rank(self, run: int) -> tuple[float, ...]:
        raise NotImplementedError

    def chosen(self, run: int, blocks: int) -> None:
        pass


class NaiveAsymCache(NaivePolicy):
    lifespan, p, r = 100.0, 0.5, 40.0

    def rank(self, run: int) -> tuple[float, ...]:
        alpha = -self.lifespan / math.log(self.p)
        beta = alpha / self.r
        idle = self.now - self.used(run)
        chance = min(-idle / alpha, -(idle - self.lifespan * (1 - 1 / self.r)) / beta)
        return (math.log(block_cost(self.end(run) - 1)) + chance,)


class NaivePensieve(NaivePolicy):
    def choose(self, wanted: int, now: float) -> int:
        def compare(a: int, b: int) -> int:
            costs = block_cost(self.end(a) - 1), block_cost(self.end(b) - 1)
            value = costs[0] * (now - self.used(b)) - costs[1] * (now - self.used(a))
            return int(np.sign(value or costs[0] - costs[1] or self.end(b) - self.end(a) or a - b))

        return min(self.leaves(), key=cmp_to_key(compare))


class NaivePgdsf(NaivePolicy):
    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.clock = 0.0
        self.cost: dict[int, float] = {}
        self.priority: dict[int, float] = {}

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        blocks = [depth for run in stored.tolist() for depth in range(int(self.runs.depth[run]), self.end(run))]
        mean = block_cost(sum(blocks) / len(blocks))
        self.cost |= dict.fromkeys(stored.tolist(), mean)

    def on_split(self, head: int, tail: int) -> None:
        self.cost[head] = self.cost[tail]
        self.priority[head] = self.priority.get(tail, 0.0)
        if tail in self.evictable:
            self.evictable.add(head)

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        for run in runs.tolist():
            self.priority[run] = self.clock + (int(self.runs.hits[run]) + 1) * self.cost[run]

    def rank(self, run: int) -> tuple[float, ...]:
        return self.priority[run], self.used(run)

    def chosen(self, run: int, blocks: int) -> None:
        self.clock = max(self.clock, self.priority[run])


class NaiveMarconi(NaivePolicy):
    alpha = 1.0

    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.accessed: dict[int, float] = {}

    def on_hit(self, hit: RunIds, info: RequestInfo) -> None:
        self.accessed[int(hit[0])] = info.now

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        self.accessed |= dict.fromkeys(stored.tolist(), info.now)

    def on_split(self, head: int, tail: int) -> None:
        self.accessed[head] = self.accessed[tail]

    def level(self, run: int) -> int:
        middle = int(self.runs.depth[run]) + (int(self.runs.length[run]) - 1) / 2
        return min(int(math.log2(block_cost(middle) / BLOCK_TOKENS) * 32), 255)

    def choose(self, wanted: int, now: float) -> int:
        leaves = self.leaves()
        recency = {run: 1 / max(now - self.accessed[run], 0.001) for run in leaves}
        saved = {run: 2 ** (self.level(run) / 32) for run in leaves}

        def scaled(values: dict[int, float], run: int) -> float:
            low, high = min(values.values()), max(values.values())
            return (values[run] - low) / (high - low) if high > low else 0.0

        def rank(run: int) -> tuple[float, ...]:
            score = scaled(recency, run) + self.alpha * scaled(saved, run)
            return round(score, 9), self.level(run), self.accessed[run], -self.end(run), run

        return min(leaves, key=rank)


class NaiveKvFlow(NaivePolicy):
    horizon = 4

    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.steps: dict[int, int] = {}  # requests of each session so far
        self.due: dict[int, tuple[int, float]] = {}  # of a run: session, step

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        for run in stored.tolist():
            self.due.pop(run, None)

    def on_split(self, head: int, tail: int) -> None:
        self.due.pop(head, None)
        if tail in self.due:
            self.due[head] = self.due[tail]

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        self.steps[info.session] = self.steps.get(info.session, 0) + 1
        due = self.steps[info.session] + info.steps if info.steps >= 0 else math.inf
        for run in runs.tolist():
            other = run in self.due and self.due[run][0] != info.session
            if not (other and self.distance(run) <= min(self.horizon, due - self.steps[info.session] - 1)):
                self.due[run] = info.session, due

    def distance(self, run: int) -> float:
        session, due = self.due.get(run, (None, math.inf))
        steps = due - self.steps[session] if session is not None else math.inf
        return steps if 0 <= steps <= self.horizon else self.horizon + 1

    def rank(self, run: int) -> tuple[float, ...]:
        return -self.distance(run), self.used(run)


class NaiveLpc(NaivePolicy):
    interval, unknown = 60.0, 0.5

    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.hints: dict[int, tuple[int, float, float]] = {}  # of a run: session, probability, when it was given

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        for run in stored.tolist():
            self.hints.pop(run, None)

    def on_split(self, head: int, tail: int) -> None:
        self.hints.pop(head, None)
        if tail in self.hints:
            self.hints[head] = self.hints[tail]

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        p = info.return_probability if info.return_probability >= 0 else self.unknown
        hint = (info.session, min(max(p, 1e-6), 1 - 1e-6), info.now)
        for run in runs.tolist():
            old = self.hints.get(run)
            if old is None or old[0] == hint[0] or self.log_odds(old, info.now) < self.log_odds(hint, info.now):
                self.hints[run] = hint

    def log_odds(self, hint: tuple[int, float, float], now: float) -> float:
        _, p, given = hint
        return math.log(p / (1 - p)) - (now - given) / self.interval

    def rank(self, run: int) -> tuple[float, ...]:
        return (round(self.log_odds(self.hints[run], self.now), 9),)


class NaiveWorkloadAware(NaivePolicy):
    turns, window, prior = 8, 3600.0, 16
    life = 60.0

    def attach(self, runs: RunTable) -> None:
        super().attach(runs)
        self.turn: dict[int, int] = {}
        self.group: dict[int, tuple[Any, ...]] = {}
        self.seen: list[dict[tuple[Any, ...], list[float]]] = [{}, {}]  # of each class: reused blocks, idle seconds
        self.next_renewal = self.half_end = -math.inf
        self.rates: dict[tuple[Any, ...], float] = {}
        self.fitted = (1.0, 1.0)

    def note(self, run: int, blocks: int, reused: int, now: float) -> None:
        counts = self.seen[0].setdefault(self.group[run], [0.0, 0.0])
        counts[0] += reused
        counts[1] += blocks * (now - self.used(run))

    def renew(self, now: float) -> None:
        if now < self.next_renewal:
            return
        self.next_renewal = now + 1
        if now >= self.half_end:
            self.seen = [{}, self.seen[0]]
            self.half_end = now + self.window / 2
        groups = set(self.seen[0]) | set(self.seen[1])
        total = {g: [sum(half.get(g, [0.0, 0.0])[i] for half in self.seen) for i in (0, 1)] for g in groups}
        reused = sum(blocks for blocks, _ in total.values())
        mean = sum(seconds for _, seconds in total.values()) / reused if reused else self.life
        self.fitted = (self.prior / max(self.prior * mean, 0.001), max(self.life, 0.001))
        self.rates = {g: (n + self.prior) / max(s + self.prior * mean, 0.001) for g, (n, s) in total.items()}

    def on_hit(self, hit: RunIds, info: RequestInfo) -> None:
        self.renew(info.now)
        for run in hit.tolist():
            if self.runs.references[run] == 0:
                self.note(run, int(self.runs.length[run]), int(self.runs.length[run]), info.now)

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:
        parent = int(self.runs.parent[stored[-1]])
        turn = info.turn if info.turn >= 0 else 0 if parent == NONE else self.turn[parent] + 1
        self.turn |= dict.fromkeys(stored.tolist(), min(turn, self.turns - 1))

    def on_split(self, head: int, tail: int) -> None:
        self.turn[head] = self.turn[tail]
        if tail in self.group:
            self.group[head] = self.group[tail]
        if tail in self.evictable:
            self.evictable.add(head)

    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        super().on_evictable(runs, info)
        turn = min(info.turn, self.turns - 1) if info.turn >= 0 else self.turn[int(runs[0])]
        self.group |= dict.fromkeys(runs.tolist(), (info.stop, info.subagent, turn))

    def choose(self, wanted: int, now: float) -> int:
        self.renew(now)
        return super().choose(wanted, now)

    def rank(self, run: int) -> tuple[float, ...]:
        rate = self.rates.get(self.group[run], self.fitted[0])
        chance = math.log(-math.expm1(-rate * self.fitted[1])) - rate * (self.now - self.used(run))
        return (chance,)

    def chosen(self, run: int, blocks: int) -> None:
        self.life += (self.now - self.used(run) - self.life) / 64
        self.note(run, blocks, 0, self.now)
