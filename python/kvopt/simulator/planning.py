"""What the next step computes: who runs, who gives way, who is let in."""

from __future__ import annotations

from kvopt._core import RequestInfo
from kvopt.scheduler import Request, RequestState, SchedulerView
from kvopt.simulator.accounts import Accounts
from kvopt.simulator.admission import Admission
from kvopt.simulator.decoding import DecodeBatch
from kvopt.simulator.limits import Limits
from kvopt.simulator.memory import Memory
from kvopt.simulator.preemption import Victim
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.retention import Retention
from kvopt.simulator.step_time import StepTime
from kvopt.simulator.tier import Tier


class StepPlanner:
    """The running requests, and of each step what they do in it.

    Between plans at most one request is in prefill, the last of the running: only a chunk that uses up the token budget
    leaves a prompt incomplete, and then nobody behind it was let in.
    """

    def __init__(
        self,
        source: RequestSource,
        memory: Memory,
        waiting: Admission,
        accounts: Accounts,
        victim: Victim,
        step_time: StepTime,
        limits: Limits,
        block_tokens: int,
        tier: Tier | None,
        retention: Retention,
    ) -> None:
        self._retention = retention
        self._source, self._memory, self._waiting, self._accounts = source, memory, waiting, accounts
        self._victim, self._time, self._limits, self._tier = victim, step_time, limits, tier
        self._block_tokens = block_tokens
        self._now = 0.0
        self.batch = DecodeBatch(block_tokens)
        self.running: dict[int, Request] = {}
        """By id, in the order of admission."""
        self.prefilling: Request | None = None
        """The last of the running, where its prompt is not complete."""
        self.chunks: list[tuple[Request, int]] = []
        """Tokens that this step prefills."""
        self.sitting_out: list[Request] = []
        """Decoding, but not in this step: behind one that had to give way itself."""
        self.preempted = False
        """Somebody, in this step."""

    @property
    def decodes(self) -> int:
        """How many requests decode in this step."""
        return self.batch.count - len(self.sitting_out)

    def plan(self, view: SchedulerView) -> None:
        """Plan the step that begins now."""
        self._now = view.now
        self.chunks.clear()
        self.sitting_out.clear()
        self.preempted = False
        if self._plan_decodes() and self.prefilling is not None:
            self._plan_prefill(self.prefilling)
        if not self.preempted:
            self._admit_waiting(view)

    def leave(self, request: Request, info: RequestInfo) -> None:
        """Take a request that does not decode out of the running, and its blocks from it."""
        if self._tier is not None and request.allocation is not None:
            self._tier.store(request, request.allocation.committed, info.now)
        self._memory.release(request, info)
        self._waiting.unblock()
        del self.running[request.id]
        if request is self.prefilling:
            self.prefilling = None

    def take_back(self, request: Request) -> None:
        """Let a request that lost its blocks wait again."""
        self._accounts.preempted(request, self._now)
        self._retention.preempted(request, self._now)
        request.computed = request.loaded = 0
        request.state = RequestState.PREEMPTED
        self._waiting.take_back(request)
        self.preempted = True

    def _plan_decodes(self) -> bool:
        # False when the line of the running ends before its end.
        batch, memory, whole = self.batch, self._memory, self._block_tokens
        while (request := batch.pop_edge()) is not None:
            position = batch.position(request)
            if position % whole == 0:
                if not self._make_room(request, 1):
                    self._sit_out_behind(request)
                    return False
                memory.extend(request, 1, self._now)
                self._waiting.unblock()
            if (position + 1) % whole == 0:
                memory.commit(request, position + 1, self._source.info(request.id, self._now))
                self._waiting.unblock()
            batch.plan_edge(request)
        return True

    def _plan_prefill(self, request: Request) -> None:
        tokens = min(request.remaining_prefill, self._limits.token_budget - self.batch.count)
        end = request.computed + tokens
        more = self._memory.blocks(end) - request.held_blocks
        if more > 0:
            if not self._make_room(request, more):
                return
            self._memory.extend(request, more, self._now)
        self._memory.commit(request, end, self._source.info(request.id, self._now))
        self._waiting.unblock()
        self.chunks.append((request, tokens))

    def _make_room(self, request: Request, blocks: int) -> bool:
        # False when the request itself had to go.
        while blocks > self._memory.free:
            if self._retention.make_room(blocks, self._now):
                continue
            victim = self._victim(self.running, self._loss)
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        if request.decode_step >= 0:
            self.batch.leave(request)
        self.leave(request, self._source.info(request.id, self._now))
        self.take_back(request)

    def _sit_out_behind(self, request: Request) -> None:
        for other in self.running.values():
            if other.order > request.order and other.decode_step >= 0:
                self.sitting_out.append(other)

    def _loss(self, request: Request) -> float:
        computed = self.batch.position(request) if request.decode_step >= 0 else request.computed
        return self._time.prefill_ms(computed, 0)

    def _admit_waiting(self, view: SchedulerView) -> None:
        budget = self._limits.token_budget - self.batch.count - sum(tokens for _, tokens in self.chunks)
        for request, tokens in self._waiting.admit(view, self.running, budget):
            self.chunks.append((request, tokens))
            if request.computed + tokens < request.tokens:
                self.prefilling = request
