"""From waiting to running: whose turn it is, whether it fits, and loads from another tier before it runs."""

from __future__ import annotations

import heapq
import math
from collections import deque

from kvopt.errors import SchedulerError
from kvopt.scheduler import Request, RequestState, Scheduler, SchedulerView
from kvopt.simulator.accounts import Accounts
from kvopt.simulator.limits import Limits
from kvopt.simulator.memory import Memory
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.retention import Retention
from kvopt.simulator.tier import Tier


class Admission:
    """All requests that have come and do not run. Those whose blocks were loaded go first, as in vLLM."""

    def __init__(
        self,
        scheduler: Scheduler,
        memory: Memory,
        source: RequestSource,
        accounts: Accounts,
        limits: Limits,
        block_tokens: int,
        tier: Tier | None,
        retention: Retention,
    ) -> None:
        self._retention = retention
        self._scheduler, self._memory, self._source = scheduler, memory, source
        self._accounts, self._limits, self._tier = accounts, limits, tier
        self._block_tokens = block_tokens
        self._loads: list[tuple[float, int, Request]] = []
        self._loaded: deque[Request] = deque()
        self._admissions = 0
        self._blocked = False

    def __len__(self) -> int:
        return len(self._scheduler) + len(self._loads) + len(self._loaded)

    def add(self, request: Request) -> None:
        """Take in a request that has arrived."""
        self._scheduler.add(request)
        self._blocked = False

    def take_back(self, request: Request) -> None:
        """Take in a request that was preempted."""
        self._scheduler.prepend(request)
        self._blocked = False

    def remove(self, request: Request, now: float) -> None:
        """Drop a request that was aborted, with what it holds."""
        if request.allocation is None:
            self._scheduler.remove(request)
        else:
            self._loads = [load for load in self._loads if load[2] is not request]
            heapq.heapify(self._loads)
            if request in self._loaded:
                self._loaded.remove(request)
            self._memory.release(request, self._source.info_at_end(request.id, now, 0, aborted=True))
        self._blocked = False

    def unblock(self) -> None:
        """Note that something changed for the head of the line: memory, the cache, or who runs."""
        self._blocked = False

    def next_load(self) -> float:
        """When the next load is complete; infinite when there is none."""
        return self._loads[0][0] if self._loads else math.inf

    def idle_until(self, running: int) -> float:
        """Until when trying to admit would change nothing, if nothing happens; -inf when it might now."""
        if running >= self._limits.max_sequences or not (len(self._scheduler) or self._loaded):
            return math.inf
        return self._scheduler.stable_until() if self._blocked else -math.inf

    def finish_loads(self, now: float) -> None:
        """Let those run whose loads are complete."""
        while self._loads and self._loads[0][0] <= now:
            _, _, request = heapq.heappop(self._loads)
            self._memory.commit(request, request.computed, self._source.info(request.id, now))
            self._loaded.append(request)
            self._blocked = False

    def give_way(self, now: float) -> Request | None:
        """Take its blocks from the one loaded last, where several hold what the first of them needs; it waits anew."""
        if len(self._loaded) < 2:
            return None
        request = self._loaded.pop()
        self._memory.release(request, self._source.info(request.id, now))
        return request

    def admit(self, view: SchedulerView, running: dict[int, Request], budget: int) -> list[tuple[Request, int]]:
        """Move requests into `running` while budget, sequences and memory last; each with its tokens in this step."""
        admitted: list[tuple[Request, int]] = []
        while budget > 0 and len(running) < self._limits.max_sequences:
            if self._loaded:
                request = self._loaded[0]
                tokens = self._continue(request, budget, view.now)
            elif len(self._scheduler):
                if self._blocked and view.now < self._scheduler.stable_until():
                    break
                request = self._scheduler.peek(view)
                tokens = self._begin(request, budget, view.now)
            else:
                break
            if tokens == 0:
                self._blocked = True
                break
            if request.state is RequestState.WAITING_FOR_REMOTE_KVS:
                continue
            running[request.id] = request
            admitted.append((request, tokens))
            budget -= tokens
        return admitted

    def head(self, view: SchedulerView) -> Request | None:
        """Whose turn it is."""
        if self._loaded:
            return self._loaded[0]
        return self._scheduler.peek(view) if len(self._scheduler) else None

    def _begin(self, request: Request, budget: int, now: float) -> int:
        # The tokens that this step computes for it (of one that is to be loaded, some number); 0 when it does not fit.
        memory = self._memory
        hit = memory.match(request)
        while not memory.fits(request, hit):
            if not self._retention.make_room(memory.blocks(request.tokens), now):
                return 0
        info = self._source.info(request.id, now)
        if self._tier is not None:
            stored = self._tier.match(request, memory.reach(request))
            if stored > hit:
                if not memory.admit(request, hit, stored * self._block_tokens, info):
                    return 0
                self._pop(request)
                request.loaded = (stored - hit) * self._block_tokens
                request.computed = stored * self._block_tokens
                request.state = RequestState.WAITING_FOR_REMOTE_KVS
                request.order = self._next_order()
                self._retention.scheduled(request, hit, now)
                heapq.heappush(self._loads, (self._tier.load(stored - hit, now), request.order, request))
                self._accounts.loading(request, now)
                return 1
        computed = min(hit * self._block_tokens, request.tokens - 1)
        tokens = min(request.tokens - computed, budget)
        if not memory.admit(request, hit, computed + tokens, info):
            return 0
        self._pop(request)
        request.computed = computed
        request.seen = memory.computed_before(request, hit)
        memory.commit(request, computed + tokens, info)
        self._retention.scheduled(request, hit, now)
        self._start(request, now)
        return tokens

    def _continue(self, request: Request, budget: int, now: float) -> int:
        memory = self._memory
        tokens = min(request.tokens - request.computed, budget)
        while (more := memory.blocks(request.tokens) - request.held_blocks) > memory.free:
            if not self._retention.make_room(more, now):
                return 0
        self._loaded.popleft()
        memory.extend(request, memory.blocks(request.computed + tokens) - request.held_blocks, now)
        request.seen = memory.computed_before(request, request.computed // self._block_tokens)
        memory.commit(request, request.computed + tokens, self._source.info(request.id, now))
        self._start(request, now)
        return tokens

    def _start(self, request: Request, now: float) -> None:
        request.state = RequestState.RUNNING
        request.order = self._next_order()
        self._blocked = False
        self._accounts.admitted(request, now)

    def _next_order(self) -> int:
        self._admissions += 1
        return self._admissions

    def _pop(self, request: Request) -> None:
        if self._scheduler.pop() is not request:
            raise SchedulerError(f"{type(self._scheduler).__name__}.pop() gave another request than peek() named")
