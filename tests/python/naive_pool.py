"""A block pool in plain dictionaries: what BlockPool promises, block by block, by a look at all of them every time.

Where the pool may choose (which of several copies is hit, which of equal victims goes), the model is told what it
chose, and asserts that it was allowed to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

Prefix = tuple[int, ...]  # a block and all before it, by token; under the flat rule a single token


@dataclass
class Block:
    prefix: Prefix
    parent: int | None  # the block in front of it
    stored: int  # number of the commit
    requests: int = 0
    leases: int = 0
    hits: int = 0
    last_use: float = 0.0
    let_go: int = 0  # when it became evictable, in a running count
    priority: int = 35
    priority_ends: float = inf
    renewal: float = 0.0
    forgotten: bool = False

    @property
    def evictable(self) -> bool:
        return self.requests == 0 and self.leases == 0


@dataclass
class Held:
    """What a request holds: blocks with content, then blocks without."""

    cached: list[int]
    pending: list[int] = field(default_factory=list)


Rank = Callable[[Block], tuple[float, ...]]

RANKS: dict[str, Rank] = {
    "lru": lambda block: (block.let_go,),
    "last use": lambda block: (block.last_use,),
    "fifo": lambda block: (block.stored,),
    "lfu": lambda block: (block.hits, block.last_use),
    "priority": lambda block: (block.priority, block.last_use),
    "any": lambda block: (),
}


class NaivePool:
    def __init__(self, capacity: int, rank: Rank, *, flat: bool = False, lease_budget: int = 0) -> None:
        self.capacity, self.rank, self.flat, self.lease_budget = capacity, rank, flat, lease_budget
        self.empty = set(range(capacity))
        self.blocks: dict[int, Block] = {}
        self.requests: dict[int, Held] = {}
        self.leases: dict[int, tuple[float, list[int]]] = {}  # deadline, blocks
        self.commits = self.released = 0

    def counts(self) -> dict[str, int]:
        evictable = sum(block.evictable for block in self.blocks.values())
        leased = sum(block.leases > 0 and block.requests == 0 for block in self.blocks.values())
        counts = {"empty": len(self.empty), "evictable": evictable, "leased": leased}
        return {"capacity": self.capacity, "referenced": self.capacity - sum(counts.values()), **counts}

    def keys(self, tokens: Sequence[int]) -> list[Prefix]:
        """The blocks of a request, as prefixes."""
        return [(token,) if self.flat else tuple(tokens[: i + 1]) for i, token in enumerate(tokens)]

    def copies(self, prefix: Prefix) -> list[int]:
        return [number for number, block in self.blocks.items() if block.prefix == prefix and not block.forgotten]

    def match(self, tokens: Sequence[int]) -> int:
        hit = 0
        for prefix in self.keys(tokens):
            if not self.copies(prefix):
                break
            hit += 1
        return hit

    def path(self, number: int | None) -> list[int]:
        """A block and what is in front of it, root first."""
        return [] if number is None else [*self.path(self.blocks[number].parent), number]

    # ---- room --------------------------------------------------------------------------------------------------------

    def room(self, hit: Sequence[int] = ()) -> int:
        """Blocks that can be had once a request holds `hit`."""
        return len(self.empty) + sum(block.evictable for n, block in self.blocks.items() if n not in hit)

    def least_room(self, prefixes: Sequence[Prefix]) -> tuple[int, int]:
        """The least and the most room there is, over the copies that may be hit."""
        if self.flat:
            free = [[self.blocks[n].evictable for n in self.copies(prefix)] for prefix in set(prefixes)]
            room = self.room()
            return room - sum(any(f) for f in free), room - sum(all(f) for f in free)
        rooms = [self.room(self.path(n)) for n in self.copies(prefixes[-1])] if prefixes else [self.room()]
        return min(rooms), max(rooms)

    def take(self, numbers: Sequence[int]) -> None:
        """Note that a request got these blocks: first empty ones, then victims."""
        empty = min(len(numbers), len(self.empty))
        for i, number in enumerate(numbers):
            if i < empty:
                self.empty.remove(number)
            else:
                self.drop_victim(number)

    def drop_victim(self, number: int) -> None:
        parents = {block.parent for block in self.blocks.values()}
        victim = self.blocks.pop(number)
        assert victim.evictable, f"block {number} is held"
        assert number not in parents, f"block {number} has a cached child"
        for other, block in self.blocks.items():
            if block.evictable and other not in parents:
                assert self.rank(victim) <= self.rank(block), f"block {other} should go before block {number}"

    def evict(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.drop_victim(number)
            self.empty.add(number)

    def let_go(self, numbers: Sequence[int]) -> None:
        """Note that a holder of these blocks is gone; the deepest first."""
        for number in reversed(numbers):
            block = self.blocks[number]
            if block.evictable and block.forgotten:
                del self.blocks[number]
                self.empty.add(number)
            elif block.evictable:
                self.released += 1
                block.let_go = self.released

    # ---- requests ----------------------------------------------------------------------------------------------------

    def acquire(self, request: int, tokens: Sequence[int], got: Sequence[int], hit: int, now: float) -> None:
        for i, prefix in enumerate(self.keys(tokens)[:hit]):
            block = self.blocks[got[i]]
            assert block.prefix == prefix
            assert not block.forgotten
            assert self.flat or block.parent == (got[i - 1] if i else None)
            block.requests += 1
            block.hits += 1
            if block.renewal > 0 and block.priority_ends > now:
                block.priority_ends = now + block.renewal
        self.take(got[hit:])
        self.requests[request] = Held(list(got[:hit]), list(got[hit:]))

    def extend(self, request: int, got: Sequence[int]) -> None:
        self.take(got)
        self.requests[request].pending.extend(got)

    def commit(self, request: int, tokens: Sequence[int], n: int) -> None:
        """`tokens` of the whole request; its next n blocks became full."""
        self.commits += 1
        held = self.requests[request]
        for _ in range(n):
            prefix = self.keys(tokens)[len(held.cached)]
            parent = held.cached[-1] if held.cached and not self.flat else None
            forgotten = parent is not None and self.blocks[parent].forgotten
            number = held.pending.pop(0)
            self.blocks[number] = Block(prefix, parent, self.commits, requests=1, forgotten=forgotten)
            held.cached.append(number)

    def release(self, request: int, now: float) -> None:
        held = self.requests.pop(request)
        self.empty.update(held.pending)
        for number in held.cached:
            self.blocks[number].requests -= 1
            self.blocks[number].last_use = now
        self.let_go(held.cached)

    def forget(self, numbers: Sequence[int]) -> None:
        for number in [n for n in self.blocks if set(self.path(n)) & set(numbers)]:
            self.blocks[number].forgotten = True
        for number in [n for n, block in self.blocks.items() if block.forgotten and block.evictable]:
            del self.blocks[number]
            self.empty.add(number)

    # ---- leases and retention ----------------------------------------------------------------------------------------

    def lease_fits(self, request: int, n: int) -> bool:
        wanted = set(self.requests[request].cached[:n])
        leased = {number for number, block in self.blocks.items() if block.leases > 0}
        return len(wanted | leased) <= self.lease_budget

    def lease(self, request: int, n: int, lease: int, deadline: float) -> None:
        numbers = self.requests[request].cached[:n]
        self.leases[lease] = (deadline, numbers)
        for number in numbers:
            self.blocks[number].leases += 1

    def end_lease(self, lease: int) -> None:
        _, numbers = self.leases.pop(lease)
        for number in numbers:
            self.blocks[number].leases -= 1
        self.let_go(numbers)

    def retain(
        self, request: int, first: int, n: int, priority: int, duration: float, refresh: bool, now: float
    ) -> None:
        for number in self.requests[request].cached[first : first + n]:
            block = self.blocks[number]
            block.priority = priority if duration > 0 else 35
            block.priority_ends = now + duration if duration > 0 else inf
            block.renewal = duration if refresh and 0 < duration < inf else 0.0

    def expire(self, now: float) -> None:
        for lease in sorted(self.leases, key=lambda lease: self.leases[lease][0]):
            if self.leases[lease][0] <= now:
                self.end_lease(lease)
        for block in self.blocks.values():
            if block.priority_ends <= now:
                block.priority, block.priority_ends, block.renewal = 35, inf, 0.0
