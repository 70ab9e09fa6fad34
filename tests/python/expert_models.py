"""Naive models of policies by key, by sample and by experts: dictionaries and sorting, reference by reference."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence

BLOCK_TOKENS = 16
P_STAR = 28600.0


class SplitMix:
    """The random numbers of the native policies."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        return ((self.next() >> 32) * n) >> 32

    def uniform(self) -> float:
        return (self.next() >> 11) * 2.0**-53


def block_cost(depth: int) -> float:
    """Prefill time of a block, in units of a token at position 0."""
    return BLOCK_TOKENS * (1 + (depth + 0.5) * BLOCK_TOKENS / P_STAR)


class Model:
    """A cache of single blocks."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.clock = 0  # references before this one

    def reference(self, key: int, depth: int) -> bool:
        raise NotImplementedError

    def hits(self, requests: Sequence[Sequence[int]]) -> list[int]:
        """Hits of each request."""
        counts = []
        for request in requests:
            count = 0
            for depth, key in enumerate(request):
                count += self.reference(key, depth)
                self.clock += 1
            counts.append(count)
        return counts


class GreedyDual(Model):
    """LFU-DA, and GDSF with or without cost."""

    def __init__(self, capacity: int, cost: bool = False) -> None:
        super().__init__(capacity)
        self.cost = cost
        self.age = 0.0
        self.cached: dict[int, tuple[float, int, int]] = {}  # key: worth, when it was set, references

    def reference(self, key: int, depth: int) -> bool:
        hit = key in self.cached
        age = self.age
        if not hit and len(self.cached) == self.capacity:
            victim = min(self.cached, key=lambda k: self.cached[k][:2])
            self.age = max(self.age, self.cached.pop(victim)[0])
        references = self.cached[key][2] + 1 if hit else 1
        self.cached[key] = (age + references * (block_cost(depth) if self.cost else 1), self.clock, references)
        return hit


class LruK(Model):
    def __init__(self, capacity: int, k: int, history: float) -> None:
        super().__init__(capacity)
        self.k = k
        self.cached: dict[int, list[int]] = {}  # key: its last k references, the latest first
        self.ghosts: OrderedDict[int, list[int]] = OrderedDict()
        self.remembered = int(capacity * history)

    def reference(self, key: int, depth: int) -> bool:
        hit = key in self.cached
        if not hit and len(self.cached) == self.capacity:
            victim = min(self.cached, key=lambda v: self.rank(self.cached[v]))
            self.ghosts[victim] = self.cached.pop(victim)
            while len(self.ghosts) > self.remembered:
                self.ghosts.popitem(last=False)
        past = self.cached[key] if hit else self.ghosts.pop(key, [])
        self.cached[key] = [self.clock, *past][: self.k]
        return hit

    def rank(self, past: list[int]) -> tuple[bool, int]:
        return (True, past[-1]) if len(past) == self.k else (False, past[0])


class WTinyLfu(Model):
    """With exact counts in the place of the sketch."""

    def __init__(self, capacity: int, window: float, protected: float, sample: float) -> None:
        super().__init__(capacity)
        self.window_size = max(1, int(capacity * window))
        self.protected_size = int((capacity - self.window_size) * protected)
        self.sample = int(capacity * sample)
        self.added = 0
        self.seen: Counter[int] = Counter()
        self.window: OrderedDict[int, None] = OrderedDict()
        self.probation: OrderedDict[int, None] = OrderedDict()
        self.protected: OrderedDict[int, None] = OrderedDict()

    def count(self, key: int) -> None:
        self.seen[key] = min(self.seen[key] + 1, 15)
        self.added += 1
        if self.added >= self.sample:
            self.added //= 2
            self.seen = Counter({k: n // 2 for k, n in self.seen.items()})

    def reference(self, key: int, depth: int) -> bool:
        hit = True
        if key in self.window:
            self.count(key)
            self.window.move_to_end(key)
        elif key in self.protected:
            self.count(key)
            self.protected.move_to_end(key)
        elif key in self.probation:
            self.count(key)
            del self.probation[key]
            self.protected[key] = None
            while len(self.protected) > self.protected_size:
                self.probation[self.protected.popitem(last=False)[0]] = None
        else:
            hit = False
            main = len(self.probation) + len(self.protected)
            if len(self.window) + main == self.capacity:
                self.evict()
            self.count(key)
            self.window[key] = None
            main = len(self.probation) + len(self.protected)
            if len(self.window) > self.window_size and main < self.capacity - self.window_size:
                self.probation[self.window.popitem(last=False)[0]] = None
        return hit

    def evict(self) -> None:
        candidate = next(iter(self.window))
        segment = self.probation or self.protected
        if not segment:
            del self.window[candidate]
            return
        victim = next(iter(segment))
        del self.window[candidate]
        if self.seen[candidate] > self.seen[victim]:
            del segment[victim]
            self.probation[candidate] = None


class LeCaR(Model):
    def __init__(self, capacity: int, seed: int, rate: float = 0.45) -> None:
        super().__init__(capacity)
        self.random = SplitMix(seed)
        self.rate = rate
        self.lru_weight = 0.5
        self.cached: dict[int, tuple[int, int]] = {}  # key: references, the last one
        self.ghosts: OrderedDict[int, tuple[int, bool]] = OrderedDict()  # key: when it was evicted, by LRU or not

    def reference(self, key: int, depth: int) -> bool:
        hit = key in self.cached
        if not hit:
            if len(self.cached) == self.capacity:
                by_lru = self.random.uniform() < self.lru_weight
                victim = min(self.cached, key=lambda k: self.cached[k][1] if by_lru else self.cached[k])
                del self.cached[victim]
                while len(self.ghosts) >= self.capacity:
                    self.ghosts.popitem(last=False)
                self.ghosts[victim] = (self.clock, by_lru)
            if key in self.ghosts:
                time, by_lru = self.ghosts.pop(key)
                reward = math.exp(self.rate * math.exp(math.log(0.005) / self.capacity * (self.clock - time)))
                lru = self.lru_weight * (1 if by_lru else reward)
                lfu = (1 - self.lru_weight) * (reward if by_lru else 1)
                self.lru_weight = min(max(lru / (lru + lfu), 0.01), 0.99)
        self.cached[key] = (self.cached[key][0] + 1 if hit else 1, self.clock)
        return hit


class Sampled(Model):
    """Random, or hyperbolic: the leaves in the order of the native array."""

    def __init__(self, capacity: int, seed: int, samples: int = 0, cost: bool = False) -> None:
        super().__init__(capacity)
        self.random = SplitMix(seed)
        self.samples = samples
        self.cost = cost
        self.order: list[int] = []
        self.cached: dict[int, tuple[int, int, int]] = {}  # key: references, when it was stored, depth

    def reference(self, key: int, depth: int) -> bool:
        hit = key in self.cached
        if hit:
            self.remove(key)
        elif len(self.cached) == self.capacity:
            drawn = [self.order[self.random.below(len(self.order))] for _ in range(max(self.samples, 1))]
            victim = min(drawn, key=self.worth)
            self.remove(victim)
            del self.cached[victim]
        references, stored, _ = self.cached.get(key, (0, self.clock, depth))
        self.cached[key] = (references + 1, stored, depth)
        self.order.append(key)
        return hit

    def remove(self, key: int) -> None:
        last = self.order.pop()
        if last != key:
            self.order[self.order.index(key)] = last

    def worth(self, key: int) -> float:
        references, stored, depth = self.cached[key]
        # The reference that is being made is number `clock`; ages count it.
        return references / (self.clock - stored + 1) * (block_cost(depth) if self.cost else 1)


class Cacheus(Model):
    def __init__(self, capacity: int, seed: int) -> None:
        super().__init__(capacity)
        self.random = SplitMix(seed)
        self.rate = self.draw_rate()
        self.last_rate = self.last_ratio = 0.0
        self.fruitless = self.period = self.period_hits = 0
        self.weights = [0.5, 0.5]
        self.scan_size = max(capacity / 2, 1.0)
        self.scan: OrderedDict[int, bool] = OrderedDict()  # key: whether it fell out of `reused`
        self.reused: OrderedDict[int, None] = OrderedDict()
        self.frequency: dict[int, tuple[int, int]] = {}  # key: references, the last one
        self.fresh: set[int] = set()  # cached ones that never came back
        self.history: OrderedDict[int, tuple[int, bool]] = OrderedDict()  # key: references, fresh
        self.regrets: list[OrderedDict[int, None]] = [OrderedDict(), OrderedDict()]

    def draw_rate(self) -> float:
        return 1e-3 + self.random.uniform() * (1 - 1e-3)

    def reference(self, key: int, depth: int) -> bool:
        hit = key in self.frequency
        if hit:
            self.tick(hit)
            self.frequency[key] = (self.frequency[key][0] + 1, self.clock)
            if key in self.scan:
                if self.scan[key]:
                    demoted = sum(self.scan.values())
                    self.resize(-self.ratio(self.fresh_ghosts(), demoted))
                del self.scan[key]
            self.reused.pop(key, None)
            self.reused[key] = None
        else:
            if len(self.frequency) == self.capacity:
                self.evict()
            for expert in (0, 1):
                if key in self.regrets[expert]:
                    del self.regrets[expert][key]
                    self.weights[expert] *= math.exp(-self.rate)
            total = sum(self.weights)
            self.weights = [weight / total for weight in self.weights]
            if key in self.history:
                if self.history[key][1]:
                    self.resize(self.ratio(sum(self.scan.values()), self.fresh_ghosts()))
                self.frequency[key] = (self.history.pop(key)[0] + 1, self.clock)
                self.reused[key] = None
            else:
                self.frequency[key] = (1, self.clock)
                self.fresh.add(key)
                self.scan[key] = False
            self.tick(hit)
        while len(self.reused) > self.capacity - self.scan_size:
            self.scan[self.reused.popitem(last=False)[0]] = True
        return hit

    def fresh_ghosts(self) -> int:
        return sum(fresh for _, fresh in self.history.values())

    def ratio(self, a: int, b: int) -> float:
        return max(1.0, math.floor(a / max(1, b) + 0.5))

    def resize(self, blocks: float) -> None:
        self.scan_size = min(max(self.scan_size + blocks, 1.0), max(1.0, self.capacity - 1.0))

    def evict(self) -> None:
        by_recency = next(iter(self.scan or self.reused))
        least = min(count for count, _ in self.frequency.values())
        by_frequency = max(
            (k for k in self.frequency if self.frequency[k][0] == least), key=lambda k: self.frequency[k][1]
        )
        recency = self.random.uniform() < self.weights[0]
        victim = by_recency if recency else by_frequency
        if len(self.history) == self.capacity:
            self.history.popitem(last=False)
        self.history[victim] = (self.frequency.pop(victim)[0], victim in self.fresh)
        self.fresh.discard(victim)
        self.scan.pop(victim, None)
        self.reused.pop(victim, None)
        if by_recency != by_frequency:
            ghosts = self.regrets[0 if recency else 1]
            if len(ghosts) == max(self.capacity // 2, 1):
                ghosts.popitem(last=False)
            ghosts[victim] = None

    def tick(self, hit: bool) -> None:
        self.period += 1
        self.period_hits += hit
        if self.period < self.capacity:
            return
        ratio = self.period_hits / self.period
        self.period = self.period_hits = 0
        ratio_change, rate_change = ratio - self.last_ratio, self.rate - self.last_rate
        self.last_ratio, self.last_rate = ratio, self.rate
        if rate_change != 0:
            step = abs(self.rate * rate_change)
            self.rate = min(max(self.rate + (step if ratio_change / rate_change > 0 else -step), 1e-3), 1.0)
            self.fruitless = 0
        elif ratio == 0 or ratio_change <= 0:
            self.fruitless += 1
            if self.fruitless == 10:
                self.fruitless = 0
                self.rate = self.draw_rate()


class SketchedTinyLfu(Model):
    """W-TinyLFU as libCacheSim has it: what its own figures are explained by.

    Its sketch raises ten of 14.4 counters a block, and each block that is ever seen; hits in the window are not
    counted, candidates twice, and the counts are halved only every 32 capacities of hits in the main part. While the
    cache fills, 80 % of the blocks become protected without a hit.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        window = int(capacity * 0.01)
        self.main_size = capacity - window
        self.probation_size, self.protected_size = int(self.main_size / 5), int(self.main_size * 4 / 5)
        self.counters = [0] * math.ceil(-math.log(0.001) / math.log(2) ** 2 * self.main_size)
        self.main_hits = 0
        self.places: dict[int, list[int]] = {}
        self.window: OrderedDict[int, None] = OrderedDict()
        self.probation: OrderedDict[int, None] = OrderedDict()
        self.protected: OrderedDict[int, None] = OrderedDict()

    def places_of(self, key: int) -> list[int]:
        if key not in self.places:
            draw = SplitMix(key)
            a, b = draw.next() >> 32, draw.next() >> 32
            self.places[key] = [(a + i * b) % 2**32 % len(self.counters) for i in range(10)]
        return self.places[key]

    def count(self, key: int) -> None:
        for place in self.places_of(key):
            self.counters[place] += 1

    def seen(self, key: int) -> int:
        return min(self.counters[place] for place in self.places_of(key))

    def reference(self, key: int, depth: int) -> bool:
        if key in self.window:
            self.window.move_to_end(key)
            return True
        if key in self.probation or key in self.protected:
            self.probation.pop(key, None)
            self.protected.pop(key, None)
            self.protected[key] = None
            while len(self.protected) > self.protected_size:
                self.probation[self.protected.popitem(last=False)[0]] = None
            self.count(key)
            self.main_hits += 1
            if self.main_hits >= 32 * self.main_size:
                self.main_hits = 0
                self.counters = [counter // 2 for counter in self.counters]
            return True
        while len(self.window) + len(self.probation) + len(self.protected) >= self.capacity:
            candidate = self.window.popitem(last=False)[0]
            if len(self.probation) + len(self.protected) < self.main_size:
                full = len(self.probation) >= self.probation_size and len(self.protected) < self.protected_size
                (self.protected if full else self.probation)[candidate] = None
            else:
                segment = self.probation or self.protected
                victim = next(iter(segment))
                if self.seen(candidate) > self.seen(victim):
                    del segment[victim]
                    self.probation[candidate] = None
            self.count(candidate)
        self.window[key] = None
        self.count(key)
        return False
