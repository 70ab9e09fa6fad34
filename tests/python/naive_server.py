"""A server as vLLM's scheduler and block pool have it, one request, one token and one block at a time, for comparison.

Written from the description of vLLM 0.33's behaviour: running requests first, then waiting ones; least recently freed
block first, blocks without content before those; no sharing of a block between requests that computed the same content
at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class NaiveRequest:
    id: int
    arrival: float
    prompt: int
    output: int
    keys: list[int]
    priority: int = 0
    generated: int = 0
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    cached: int = 0
    in_prefill: bool = True

    @property
    def tokens(self) -> int:
        return self.prompt + self.generated


class NaivePool:
    def __init__(self, blocks: int) -> None:
        self.free = deque(range(blocks))
        self.references = [0] * blocks
        self.key: list[int | None] = [None] * blocks
        self.found: dict[int, dict[int, None]] = {}
        self.duplicates = 0

    def match(self, keys: Sequence[int]) -> list[int]:
        blocks = []
        for key in keys:
            if not self.found.get(key):
                break
            blocks.append(next(iter(self.found[key])))
        return blocks

    def touch(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            if self.references[block] == 0:
                self.free.remove(block)
            self.references[block] += 1

    def take(self, count: int) -> tuple[list[int], int]:
        """New blocks, and how many of them lost content."""
        blocks = [self.free.popleft() for _ in range(count)]
        evicted = 0
        for block in blocks:
            key = self.key[block]
            if key is not None:
                del self.found[key][block]
                self.key[block] = None
                evicted += 1
            self.references[block] = 1
        return blocks, evicted

    def store(self, block: int, key: int) -> None:
        self.key[block] = key
        self.duplicates += bool(self.found.get(key))
        self.found.setdefault(key, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """The first is evicted first."""
        empty = []
        for block in blocks:
            self.references[block] -= 1
            if self.references[block] == 0:
                if self.key[block] is None:
                    empty.append(block)
                else:
                    self.free.append(block)
        self.free.extendleft(reversed(empty))


Event = tuple[float, str, int, int]


class NaiveServer:
    """Serves requests in an open loop; `events` are what happened."""

    def __init__(
        self,
        blocks: int,
        block_tokens: int,
        budget: int,
        sequences: int,
        step_ms: Callable[[list[tuple[int, int]], int, int], float],
        by_priority: bool = False,
    ) -> None:
        self.pool = NaivePool(blocks)
        self.block_tokens, self.budget, self.sequences = block_tokens, budget, sequences
        self.step_ms, self.by_priority = step_ms, by_priority
        self.running: list[NaiveRequest] = []
        self.waiting: list[NaiveRequest] = []
        self.events: list[Event] = []
        self.now = 0.0
        self.steps = 0

    def serve(self, requests: Sequence[NaiveRequest]) -> list[Event]:
        to_come = deque(sorted(requests, key=lambda request: (request.arrival, request.id)))
        while to_come or self.waiting or self.running:
            while to_come and to_come[0].arrival <= self.now:
                request = to_come.popleft()
                self.events.append((request.arrival, "arrived", request.id, request.prompt))
                need = -(-(request.prompt + request.output - 1) // self.block_tokens)
                if need > len(self.pool.key):
                    self.events.append((request.arrival, "refused", request.id, need))
                else:
                    self.waiting.append(request)
                    self._sort_waiting()
            scheduled, preempted = self._schedule()
            if scheduled:
                self._execute(scheduled)
            elif not preempted:
                assert to_come or not (self.waiting or self.running), "stalled"
                if to_come:
                    self.now = max(self.now, to_come[0].arrival)
        return self.events

    def _sort_waiting(self) -> None:
        if self.by_priority:
            self.waiting.sort(key=lambda request: (request.priority, request.arrival, request.id))

    def _schedule(self) -> tuple[list[tuple[NaiveRequest, int]], bool]:
        scheduled: list[tuple[NaiveRequest, int]] = []
        budget, preempted, index = self.budget, False, 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            new = min(request.tokens - request.computed, budget)
            placed = False
            while not placed:
                placed = self._allocate(request, [], new)
                if placed:
                    break
                victim = self._victim()
                self.running.remove(victim)
                for entry in [entry for entry in scheduled if entry[0] is victim]:
                    scheduled.remove(entry)
                    budget += entry[1]
                    index -= 1
                self._preempt(victim)
                preempted = True
                if victim is request:
                    break
            if not placed:
                break
            scheduled.append((request, new))
            budget -= new
            index += 1
        while not preempted and self.waiting and budget > 0 and len(self.running) < self.sequences:
            request = self.waiting[0]
            hit = self.pool.match(request.keys[: (request.tokens - 1) // self.block_tokens])
            computed = len(hit) * self.block_tokens
            new = min(request.tokens - computed, budget)
            idle = sum(self.pool.references[block] == 0 for block in hit)
            if -(-request.tokens // self.block_tokens) - len(hit) + idle > len(self.pool.free):
                break
            request.computed = computed
            if not self._allocate(request, hit, new):
                request.computed = 0
                break
            self.waiting.pop(0)
            self.running.append(request)
            self.events.append((self.now, "admitted", request.id, computed))
            scheduled.append((request, new))
            budget -= new
        return scheduled, preempted

    def _victim(self) -> NaiveRequest:
        if self.by_priority:
            return max(self.running, key=lambda request: (request.priority, request.arrival))
        return self.running[-1]

    def _allocate(self, request: NaiveRequest, hit: list[int], new: int) -> bool:
        have = len(request.blocks) + len(hit)
        need = -(-(request.computed + new) // self.block_tokens) - have
        idle = sum(self.pool.references[block] == 0 for block in hit)
        if max(need, 0) + idle > len(self.pool.free):
            return False
        self.pool.touch(hit)
        request.blocks += hit
        request.cached += len(hit)
        if need > 0:
            blocks, evicted = self.pool.take(need)
            request.blocks += blocks
            if evicted:
                self.events.append((self.now, "evicted", request.id, evicted))
        full = (request.computed + new) // self.block_tokens
        for index in range(request.cached, full):
            self.pool.store(request.blocks[index], request.keys[index])
        request.cached = max(request.cached, full)
        return True

    def _free(self, request: NaiveRequest) -> None:
        self.pool.release(request.blocks[::-1])
        request.blocks, request.cached = [], 0

    def _preempt(self, request: NaiveRequest) -> None:
        self.events.append((self.now, "preempted", request.id, request.computed))
        self._free(request)
        request.computed = 0
        request.in_prefill = True
        self.waiting.insert(0, request)
        self._sort_waiting()

    def _execute(self, scheduled: list[tuple[NaiveRequest, int]]) -> None:
        decoding = [request for request, _ in scheduled if not request.in_prefill]
        chunks = [(new, request.computed) for request, new in scheduled if request.in_prefill]
        self.now += self.step_ms(chunks, len(decoding), sum(request.computed for request in decoding)) / 1000.0
        self.steps += 1
        for request, new in scheduled:
            request.computed += new
            if request.computed < request.tokens:
                continue
            request.in_prefill = False
            request.generated += 1
            if request.generated == 1:
                self.events.append((self.now, "first_token", request.id, 1))
            if request.generated == request.output:
                self._free(request)
                self.running.remove(request)
                self.events.append((self.now, "finished", request.id, request.output))
