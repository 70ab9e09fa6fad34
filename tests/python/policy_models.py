"""Textbook policies as plain Python over single keys, to compare the native ones with, reference by reference.

Written from the papers, without the native code's tricks: every order is an OrderedDict or a list, oldest first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

Keys = Iterable[int]
Model = Callable[..., list[bool]]
Order = OrderedDict[int, None]


def oldest(order: Order) -> int:
    return next(iter(order))


def fifo(keys: Keys, capacity: int) -> list[bool]:
    queue: Order = OrderedDict()
    hits = []
    for key in keys:
        hits.append(key in queue)
        if key not in queue:
            if len(queue) == capacity:
                del queue[oldest(queue)]
            queue[key] = None
    return hits


def lfu(keys: Keys, capacity: int) -> list[bool]:
    uses: Counter[int] = Counter()
    last: dict[int, int] = {}
    hits = []
    for now, key in enumerate(keys):
        hits.append(key in last)
        if key not in last and len(last) == capacity:
            victim = min(last, key=lambda k: (uses[k], last[k]))
            del last[victim], uses[victim]
        uses[key] += 1
        last[key] = now
    return hits


def clock(keys: Keys, capacity: int, bits: int = 1) -> list[bool]:
    chances: OrderedDict[int, int] = OrderedDict()
    hits = []
    for key in keys:
        hits.append(key in chances)
        if key in chances:
            chances[key] = min(chances[key] + 1, 2**bits - 1)
            continue
        if len(chances) == capacity:
            while (left := chances.popitem(last=False))[1] > 0:
                chances[left[0]] = left[1] - 1
        chances[key] = 0
    return hits


def sieve(keys: Keys, capacity: int) -> list[bool]:
    queue: list[int] = []  # oldest first
    visited: set[int] = set()
    hand = 0
    hits = []
    for key in keys:
        hits.append(key in queue)
        if key in queue:
            visited.add(key)
            continue
        if len(queue) == capacity:
            while queue[hand] in visited:
                visited.remove(queue[hand])
                hand = (hand + 1) % capacity
            del queue[hand]
            hand %= capacity if hand < len(queue) else 1  # behind the newest it begins anew
        queue.append(key)
    return hits


def slru(keys: Keys, capacity: int, segments: int = 4) -> list[bool]:
    segments = min(segments, capacity)
    parts: list[Order] = [OrderedDict() for _ in range(segments)]
    share = [capacity - capacity // segments * (segments - 1)] + [capacity // segments] * (segments - 1)
    hits = []
    for key in keys:
        at = next((s for s in range(segments) if key in parts[s]), None)
        hits.append(at is not None)
        if at is not None:
            del parts[at][key]
            up = min(at + 1, segments - 1)
            parts[up][key] = None
            for s in range(up, 0, -1):
                while len(parts[s]) > share[s]:
                    cooled = oldest(parts[s])
                    del parts[s][cooled]
                    parts[s - 1][cooled] = None
            continue
        if sum(map(len, parts)) == capacity:
            lowest = next(part for part in parts if part)
            del lowest[oldest(lowest)]
        parts[next((s for s in range(segments) if len(parts[s]) < share[s]), 0)][key] = None
    return hits


def two_q(keys: Keys, capacity: int, share_in: float = 0.25, out: float = 0.5) -> list[bool]:
    a1in: Order = OrderedDict()
    a1out: Order = OrderedDict()
    am: Order = OrderedDict()
    hits = []
    for key in keys:
        hits.append(key in a1in or key in am)
        if key in am:
            am.move_to_end(key)
        if hits[-1]:
            continue
        returned = a1out.pop(key, 0) is None
        if len(a1in) + len(am) == capacity:
            if len(a1in) > int(share_in * capacity) or not am:
                victim = oldest(a1in)
                del a1in[victim]
                a1out[victim] = None
                while len(a1out) > int(out * capacity):
                    del a1out[oldest(a1out)]
            else:
                del am[oldest(am)]
        (am if returned else a1in)[key] = None
    return hits


def mq(keys: Keys, capacity: int, queues: int = 8, lifetime: int = 10_000, history: float = 4) -> list[bool]:
    parts: list[Order] = [OrderedDict() for _ in range(queues)]
    uses: dict[int, int] = {}
    expires: dict[int, int] = {}
    out: OrderedDict[int, int] = OrderedDict()
    hits = []
    for now, key in enumerate(keys):
        at = next((part for part in parts if key in part), None)
        hits.append(at is not None)
        if at is not None:
            del at[key]
            uses[key] += 1
        else:
            uses[key] = out.pop(key, 0) + 1
            if sum(map(len, parts)) == capacity:
                lowest = next(part for part in parts if part)
                victim = oldest(lowest)
                del lowest[victim]
                out[victim] = uses.pop(victim)
                while len(out) > int(history * capacity):
                    out.popitem(last=False)
        parts[min(uses[key].bit_length() - 1, queues - 1)][key] = None
        expires[key] = now + lifetime
        for q in range(1, queues):
            if parts[q] and expires[oldest(parts[q])] < now + 1:
                demoted = oldest(parts[q])
                del parts[q][demoted]
                parts[q - 1][demoted] = None
                expires[demoted] = now + 1 + lifetime
    return hits


def arc(keys: Keys, capacity: int) -> list[bool]:
    t1: Order = OrderedDict()
    t2: Order = OrderedDict()
    b1: Order = OrderedDict()
    b2: Order = OrderedDict()
    p = 0.0
    hits = []

    def replace(in_b2: bool) -> None:
        if (t1 and (len(t1) > p or (in_b2 and len(t1) == p))) or not t2:
            b1[t1.popitem(last=False)[0]] = None
        else:
            b2[t2.popitem(last=False)[0]] = None

    for key in keys:
        hits.append(key in t1 or key in t2)
        if hits[-1]:
            (t1 if key in t1 else t2).pop(key)
            t2[key] = None
        elif key in b1 or key in b2:
            in_b2 = key in b2
            p = max(p - max(len(b1) / len(b2), 1), 0) if in_b2 else min(p + max(len(b2) / len(b1), 1), capacity)
            (b2 if in_b2 else b1).pop(key)
            replace(in_b2)
            t2[key] = None
        else:
            if len(t1) + len(b1) == capacity:
                if len(t1) < capacity:
                    b1.popitem(last=False)
                    replace(False)
                else:
                    t1.popitem(last=False)
            elif len(t1) + len(t2) + len(b1) + len(b2) >= capacity:
                if len(t1) + len(t2) + len(b1) + len(b2) == 2 * capacity:
                    b2.popitem(last=False)
                replace(False)
            t1[key] = None
    return hits


def s3_fifo(keys: Keys, capacity: int, small: float = 0.1, ghost: float = 0.9, promote: int = 2) -> list[bool]:
    most_small = int(small * capacity)
    first: OrderedDict[int, int] = OrderedDict()  # the small queue, with the hits of each
    main: OrderedDict[int, int] = OrderedDict()
    ghosts: Order = OrderedDict()
    evicted_any = False
    hits = []

    def evict_small() -> bool:
        while first:
            key, count = first.popitem(last=False)
            if count < promote:
                ghosts[key] = None
                while len(ghosts) > int(ghost * capacity):
                    ghosts.popitem(last=False)
                return True
            main[key] = 0
        return False

    def evict_main() -> bool:
        while main:
            key, count = main.popitem(last=False)
            if count == 0:
                return True
            main[key] = count - 1
        return False

    for key in keys:
        hits.append(key in first or key in main)
        if hits[-1]:
            queue = first if key in first else main
            queue[key] = min(queue[key] + 1, 3)
            continue
        returned = ghosts.pop(key, 0) is None
        while len(first) + len(main) == capacity:
            evicted_any = True
            if len(main) > capacity - most_small or not first:
                evict_main()
            else:
                evict_small()
        filling = not evicted_any and len(first) >= most_small
        (main if returned or filling else first)[key] = 0
    return hits


def lirs(keys: Keys, capacity: int, hir: float = 0.01, stack: float = 2) -> list[bool]:
    most_lir = capacity - max(1, int(hir * capacity))
    s: OrderedDict[int, str] = OrderedDict()  # "lir", "hir", or "gone"
    q: Order = OrderedDict()
    gone: Order = OrderedDict()  # in the order in which they were evicted
    hits = []

    def prune() -> None:
        while s and s[next(iter(s))] != "lir":
            gone.pop(s.popitem(last=False)[0], None)

    def become_lir(key: int) -> None:
        s[key] = "lir"
        while sum(state == "lir" for state in s.values()) > most_lir:
            demoted, _ = s.popitem(last=False)
            q[demoted] = None
            prune()

    for key in keys:
        state = s.get(key)
        hits.append(key in q or state == "lir")
        if not hits[-1] and len(q) + sum(state == "lir" for state in s.values()) == capacity:
            gone.pop(key, None)
            victim = oldest(q)
            del q[victim]
            if victim in s:
                s[victim] = "gone"
                gone[victim] = None
        gone.pop(key, None)
        s.pop(key, None)
        q.pop(key, None)
        if state is not None or (not hits[-1] and sum(state == "lir" for state in s.values()) < most_lir):
            s[key] = "lir"
            prune()
            become_lir(key)
        else:
            s[key] = "hir"
            q[key] = None
            prune()
        while len(s) > stack * capacity and gone:
            dropped = oldest(gone)
            del gone[dropped], s[dropped]
    return hits
