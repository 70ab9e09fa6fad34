"""What holds for every online policy under any sequence of operations on a pool, under both rules.

* The pool's and the policy's own invariants hold after each operation: verify() finds nothing.
* A block that a request holds, or that a lease pins, is never evicted: holders keep their blocks, each its own.
* Under the prefix rule a block is never evicted before what is cached behind it.
* The policy always names a victim: no operation raises PolicyError, and evict(n) takes exactly n.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvopt import _core
from kvopt.errors import LeaseError, NotEnoughBlocksError

CAPACITY = 24
LEASE_BUDGET = 8

Path = tuple[int, ...]
Rule = Literal["prefix", "flat"]
Operation = tuple[str, Any, int]

ONLINE = [policy.name for policy in _core.policies() if not policy.offline]

small = st.integers(0, 40)
chains = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)
operations = st.one_of(
    st.tuples(st.just("request"), chains, small),
    st.tuples(st.just("request"), chains, small),
    st.tuples(st.just("begin"), chains, small),
    st.tuples(st.just("decode"), small, small),
    st.tuples(st.just("release"), small, small),
    st.tuples(st.just("evict"), small, small),
    st.tuples(st.just("lease"), small, small),
    st.tuples(st.just("end lease"), small, small),
    st.tuples(st.just("forget"), small, small),
    st.tuples(st.just("clear"), small, small),
)


@dataclass
class Content:
    """What a block holds: the block in front of it in its prefix, and who holds it now."""

    parent: int | None


@dataclass
class Holder:
    allocation: Any
    path: Path
    blocks: list[int]


@dataclass
class Driver:
    """Runs operations on a pool and keeps, block by block, what must be cached."""

    policy: str
    rule: Rule
    now: float = 0
    content: dict[int, Content] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    leases: list[tuple[int, list[int]]] = field(default_factory=list)
    keys: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool = _core.BlockPool(CAPACITY, self.policy, rule=self.rule, lease_budget=LEASE_BUDGET, block_tokens=512)

    def keys_of(self, path: Path) -> np.ndarray[Any, Any]:
        prefixes = (path[: i + 1] for i in range(len(path)))
        return np.array([self.keys.setdefault(p, len(self.keys) + 1) for p in prefixes], dtype=np.uint64)

    def info(self, n: int) -> Any:
        return _core.RequestInfo(now=self.now, session=n % 5 - 1, turn=n % 3 - 1, gap=n % 7 - 1)

    def held(self) -> set[int]:
        pinned = {block for _, blocks in self.leases for block in blocks}
        return pinned.union(*(holder.blocks for holder in self.holders))

    def gone(self, blocks: list[int]) -> None:
        """These blocks were evicted, in this order or at once."""
        cached = [block for block in blocks if block in self.content]
        assert not self.held() & set(cached), "a held block was evicted"
        for block in cached:
            del self.content[block]
        orphans = [b for b, c in self.content.items() if c.parent is not None and c.parent not in self.content]
        assert not orphans, "a block was evicted before what is cached behind it"

    def begin(self, path: Path, n: int) -> Holder | None:
        keys = self.keys_of(path)
        try:
            allocation = self.pool.acquire(keys, len(path) + n % 3, now=self.info(n))
        except NotEnoughBlocksError:
            return None
        blocks = allocation.blocks.tolist()
        self.gone(blocks[allocation.hit :])
        holder = Holder(allocation, path, blocks)
        self.holders.append(holder)
        self.commit(holder, len(path) - n % 2, n)
        return holder

    def commit(self, holder: Holder, until: int, n: int) -> None:
        start = holder.allocation.committed
        if until <= start:
            return
        keys = self.keys_of(holder.path)
        self.pool.commit(holder.allocation, keys[start:until], now=self.info(n))
        for i in range(start, until):
            parent = holder.blocks[i - 1] if i > 0 and self.rule == "prefix" else None
            if parent is None or parent in self.content:
                self.content[holder.blocks[i]] = Content(parent)

    def release(self, n: int) -> None:
        if self.holders:
            holder = self.holders.pop(n % len(self.holders))
            self.pool.release(holder.allocation, now=self.info(n))

    def decode(self, n: int, m: int) -> None:
        if not self.holders:
            return
        holder = self.holders[n % len(self.holders)]
        try:
            self.pool.extend(holder.allocation, 1, now=self.info(n))
        except NotEnoughBlocksError:
            return
        blocks = holder.allocation.blocks.tolist()
        self.gone(blocks[len(holder.blocks) :])
        holder.blocks = blocks
        holder.path += (m % 3,) * (len(blocks) - len(holder.path))
        self.commit(holder, len(blocks), n)

    def evict(self, n: int) -> None:
        wanted = n % 6
        before = self.pool.counts()
        if wanted > before["evictable"]:
            with pytest.raises(NotEnoughBlocksError):
                self.pool.evict(wanted, now=self.now)
            assert self.pool.counts() == before
            return
        evicted = self.pool.evict(wanted, now=self.now).tolist()
        assert len(set(evicted)) == wanted
        for block in evicted if self.rule == "flat" else []:
            assert block in self.content
        self.gone(evicted)

    def lease(self, n: int, m: int) -> None:
        live = [h for h in self.holders if h.allocation.committed > 0]
        if not live:
            return
        holder = live[n % len(live)]
        blocks = 1 + m % holder.allocation.committed
        try:
            lease = self.pool.lease(holder.allocation, blocks, deadline=self.now + 1000, now=self.now)
        except LeaseError:
            return
        self.leases.append((lease, holder.blocks[:blocks]))

    def end_lease(self, n: int) -> None:
        if self.leases:
            self.pool.end_lease(self.leases.pop(n % len(self.leases))[0], now=self.now)

    def forget(self, n: int) -> None:
        if not self.content:
            return
        block = sorted(self.content)[n % len(self.content)]
        self.pool.forget(np.array([block], dtype=np.uint32))
        behind = {block}
        while behind:
            for b in behind:
                del self.content[b]
            behind = {b for b, c in self.content.items() if c.parent in behind}

    def clear(self) -> None:
        if not self.holders:
            self.pool.clear()
            self.content.clear()
            self.leases.clear()

    def run(self, operation: Operation) -> None:
        kind, a, b = operation
        self.now += b % 4
        if kind == "request":
            if self.begin(a, b) is not None:
                self.release(len(self.holders) - 1)
        elif kind == "begin":
            self.begin(a, b)
        elif kind == "decode":
            self.decode(a, b)
        elif kind == "release":
            self.release(a)
        elif kind == "evict":
            self.evict(a)
        elif kind == "lease":
            self.lease(a, b)
        elif kind == "end lease":
            self.end_lease(a)
        elif kind == "forget":
            self.forget(a)
        else:
            self.clear()
        broken = self.pool.verify()
        assert not broken, broken[0]
        for holder in self.holders:
            assert holder.allocation.blocks.tolist() == holder.blocks, "a holder lost a block"


@pytest.mark.parametrize("rule", ["prefix", "flat"])
@pytest.mark.parametrize("policy", ONLINE)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(operations, min_size=20, max_size=70))
def test_any_sequence_of_operations(policy: str, rule: Rule, sequence: list[Operation]) -> None:
    driver = Driver(policy, rule)
    for operation in sequence:
        driver.run(operation)
