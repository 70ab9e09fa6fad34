"""Random operations on a pool behind the C interface and one behind the Python binding: every answer is the same."""

from __future__ import annotations

from ctypes import byref, c_size_t, c_uint32, c_uint64
from typing import Any, Literal

import numpy as np
import pytest

from c_caller import Caller, keys
from c_library import STATUS
from kvopt import errors
from kvopt._core import BlockPool, RequestInfo
from kvopt.policies import StopReason

REFUSED = object()


class Pair:
    """The same pool behind the C interface and behind the Python binding; every answer is compared."""

    def __init__(self, c: Caller, policy: str, rule: Literal["prefix", "flat"], seed: int) -> None:
        self.c = c
        self.random = np.random.default_rng(seed)
        given = {"lease_budget": 6, "retention": 1}
        self.binding = BlockPool(24, policy, rule=rule, lease_budget=6, retention=True)
        self.pool = c.pool(capacity=24, policy=policy.encode(), rule=int(rule == "flat"), **given)
        self.held: list[tuple[int, Any, list[int]]] = []
        self.leases: list[tuple[int, int]] = []
        self.refusals: set[str] = set()
        self.now = 0.0

    def both(self, in_binding: Any, name: str, *arguments: Any) -> Any:
        """What the binding returns; REFUSED where both refuse, which they must do alike."""
        status = self.c.status(f"kvopt_pool_{name}", self.pool, *arguments)
        refusal = None
        result = REFUSED
        try:
            result = in_binding()
        except errors.KvoptError as error:
            refusal = error
        if refusal is None:
            assert status == 0, self.c.message
        else:
            kind = type(refusal).__name__
            assert (status, self.c.message) == (STATUS[kind], str(refusal))
            self.refusals.add(kind)
        return result

    def infos(self) -> tuple[Any, RequestInfo]:
        session, stop, output = (int(x) for x in self.random.integers([5, 5, 900]))
        known = RequestInfo(self.now, session=session, stop=StopReason(stop), output_tokens=output)
        return self.c.info(self.now, session=session, stop=stop, output_tokens=output), known

    def acquire(self) -> None:
        root, length, extra = (int(x) for x in self.random.integers([4, 9, 4]))
        values = [1000 * root + depth for depth in range(length)]
        if length > 3 and self.random.random() < 0.5:
            values = values[:3] + [value + 500 for value in values[3:]]
        most = int(self.random.integers(1, 12))
        reclaim = bool(self.random.integers(2))
        in_c, known = self.infos()
        allocation, hit = c_uint64(), c_size_t()
        made = self.both(
            lambda: self.binding.acquire(
                np.array(values, np.uint64), length + extra, now=known, max_hit=most, reclaim_leases=reclaim
            ),
            *("acquire", *keys(*values), length + extra, most, int(reclaim), in_c, byref(allocation), byref(hit)),
        )
        if made is not REFUSED:
            assert hit.value == made.hit
            self.held.append((allocation.value, made, values))

    def one_held(self) -> tuple[int, Any, list[int]]:
        return self.held[int(self.random.integers(len(self.held)))]

    def commit(self) -> None:
        handle, made, values = self.one_held()
        start = made.committed
        rest = values[start : start + int(self.random.integers(1, 8))]
        in_c, known = self.infos()
        new = np.array(rest, np.uint64)
        self.both(lambda: self.binding.commit(made, new, now=known), "commit", handle, *keys(*rest), in_c)

    def extend(self) -> None:
        handle, made, values = self.one_held()
        n = int(self.random.integers(0, 4))
        values.extend(range(10**6 + len(values), 10**6 + len(values) + n))
        in_c, known = self.infos()
        self.both(lambda: self.binding.extend(made, n, now=known), "extend", handle, n, 0, in_c)

    def release(self) -> None:
        handle, made, values = self.one_held()
        in_c, known = self.infos()
        if self.both(lambda: self.binding.release(made, now=known), "release", handle, in_c) is not REFUSED:
            self.held.remove((handle, made, values))

    def lease(self) -> None:
        handle, made, _ = self.one_held()
        n, until = int(self.random.integers(0, 5)), self.now + float(self.random.integers(0, 30))
        lease = c_uint64()
        in_binding = lambda: self.binding.lease(made, n, deadline=until, now=self.now)  # noqa: E731
        one = self.both(in_binding, "lease", handle, n, until, self.now, byref(lease))
        if one is not REFUSED:
            self.leases.append((lease.value, one))

    def end_lease(self) -> None:
        if self.leases:
            in_c, lease = self.leases.pop(int(self.random.integers(len(self.leases))))
            self.both(lambda: self.binding.end_lease(lease, now=self.now), "end_lease", in_c, self.now)

    def retain(self) -> None:
        handle, made, _ = self.one_held()
        first, n, priority, duration, refresh = (int(x) for x in self.random.integers([4, 5, 101, 40, 2]))
        lifetime = "refresh" if refresh else "fixed"
        options: dict[str, Any] = {"priority": priority, "duration": duration, "lifetime": lifetime, "now": self.now}
        in_c = (handle, first, n, priority, duration, refresh, self.now)
        self.both(lambda: self.binding.retain(made, first, n, **options), "retain", *in_c)

    def evict(self) -> None:
        n = int(self.random.integers(0, 12))
        victims = (c_uint32 * 12)()
        gone = self.both(lambda: self.binding.evict(n, now=self.now), "evict", n, self.now, victims)
        assert gone is REFUSED or list(victims)[:n] == gone.tolist()

    def forget(self) -> None:
        blocks = [int(x) for x in self.random.integers(0, 25, 2)]
        given = np.array(blocks, np.uint32)
        self.both(lambda: self.binding.forget(given), "forget", (c_uint32 * 2)(*blocks), 2)

    def expire(self) -> None:
        ended = c_size_t()
        due = self.both(lambda: self.binding.expire(self.now), "expire", self.now, byref(ended))
        assert due is REFUSED or due == ended.value

    def reset(self) -> None:
        self.both(self.binding.clear, "reset")

    def step(self) -> None:
        self.now += float(self.random.integers(0, 4))
        always = [self.acquire, self.acquire, self.acquire, self.end_lease, self.evict, self.forget, self.expire]
        with_requests = [self.commit, self.commit, self.extend, self.release, self.release, self.lease, self.retain]
        rare = [self.reset] if self.random.random() < 0.2 else []
        choice = always + rare + (2 * with_requests if self.held else [])
        latest = self.now
        self.now -= 10.0 if self.random.random() < 0.02 else 0.0  # refused: time goes back
        choice[int(self.random.integers(len(choice)))]()
        self.now = latest
        self.compare()

    def compare(self) -> None:
        ours: dict[str, int] = self.c.stats(self.pool)
        theirs: dict[str, Any] = dict(self.binding.stats())
        dropped = theirs.pop("dropped_blocks")
        theirs |= {
            "evicted_blocks": dropped["capacity"],
            "explicit_blocks": dropped["explicit"],
            "cleared_blocks": dropped["cleared"],
            "forgotten_blocks": dropped["forgotten"],
        }
        assert {name: ours[name] for name in theirs} == theirs
        for handle, made, _ in self.held:
            blocks = (c_uint32 * 40)()
            self.c.ok("kvopt_pool_blocks", self.pool, handle, blocks, 40)
            assert list(blocks)[: len(made)] == made.blocks.tolist()


@pytest.mark.parametrize("rule", ["prefix", "flat"])
@pytest.mark.parametrize("policy", ["lru", "priority", "cost-aware"])
def test_random_operations_are_answered_as_by_the_binding(policy: str, rule: Literal["prefix", "flat"]) -> None:
    pair = Pair(Caller(), policy, rule, seed=11)
    for _ in range(2500):
        pair.step()
    assert pair.refusals >= {"NotEnoughBlocksError", "PoolError", "LeaseError", "StaleBlockError"}
    assert pair.c.stats(pair.pool)["evicted_blocks"] > 100
    assert pair.c.violations("pool", pair.pool) == (0, "")
    pair.c.ok("kvopt_pool_destroy", pair.pool)
