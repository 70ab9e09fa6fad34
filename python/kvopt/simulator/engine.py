"""The timed engine: continuous batching with chunked prefill over the native pool, step by step as vLLM's scheduler.

A step. Running requests come first, in the order of admission: each that decodes computes one token, the one in prefill
(the last) as much of its prompt as the token budget leaves. Who needs a block when none can be had preempts another.
If nobody was preempted, waiting requests are admitted while budget, sequences and memory last; the first that does not
fit blocks those behind it. The step takes its time; then answers grow, and those that are complete give up their
blocks.

Steps between which nothing can happen are taken without looking at requests; the result is the same (`jump` turns it
off, for tests). Nothing is random here, and nothing depends on the machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from kvopt.errors import SimulationError
from kvopt.metrics import Collector
from kvopt.scheduler import Request, RequestState, Scheduler
from kvopt.simulator.accounts import Accounts
from kvopt.simulator.admission import Admission
from kvopt.simulator.clients import Clients
from kvopt.simulator.limits import Limits
from kvopt.simulator.memory import Memory
from kvopt.simulator.planning import StepPlanner
from kvopt.simulator.preemption import Victim
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.retention import Retention
from kvopt.simulator.step_time import StepTime
from kvopt.simulator.tier import Tier

_REPORT_ROUNDS = 2048

IDLE_STEPS = 1000
"""So many steps in a row without a token are an error."""


class Engine:
    """One server and one run; see the module's text. It is the view that schedulers have."""

    def __init__(
        self,
        source: RequestSource,
        clients: Clients,
        memory: Memory,
        scheduler: Scheduler,
        victim: Victim,
        step_time: StepTime,
        limits: Limits,
        collector: Collector,
        *,
        block_tokens: int,
        tier: Tier | None = None,
        jump: bool = True,
        retention: Retention | None = None,
    ) -> None:
        self.now = 0.0
        self._retention = retention = Retention() if retention is None else retention
        self._source, self._clients, self._memory, self._time = source, clients, memory, step_time
        self._block_tokens = block_tokens
        self._jump = jump
        self._accounts = Accounts(collector, memory, step_time)
        self._waiting = Admission(scheduler, memory, source, self._accounts, limits, block_tokens, tier, retention)
        self._plan = StepPlanner(
            source, memory, self._waiting, self._accounts, victim, step_time, limits, block_tokens, tier, retention
        )
        self._requests: dict[int, Request] = {}  # that came and are not finished
        self._idle_steps = 0

    @property
    def version(self) -> int:
        """See SchedulerView."""
        return self._memory.version

    def cached_tokens(self, request: Request) -> int:
        """See SchedulerView."""
        return self._memory.match(request) * self._block_tokens

    def run(self, report: Callable[[int], None] | None = None) -> None:
        """Serve until no client sends anything; `report` is told now and then how many requests are done with.

        Raises SimulationError when it cannot go on or a check fails.
        """
        for round_ in itertools.count():
            if report is not None and round_ % _REPORT_ROUNDS == 0:
                report(self._clients.sent - len(self._requests))
            self._hear_clients()
            self._waiting.finish_loads(self.now)
            if self._retention.before_step(self.now):
                self._waiting.unblock()
            self._plan.plan(self)
            if self._plan.chunks or self._plan.decodes:
                self._idle_steps = 0
                self._take_step()
                continue
            upcoming = self._next_event()
            if self._plan.preempted and self._idle_steps < IDLE_STEPS:
                self._idle_steps += 1
            elif upcoming < math.inf and not self._plan.preempted:
                self._pass_time(upcoming)
            elif (request := self._waiting.give_way(self.now)) is not None:
                request.computed = request.loaded = 0  # loaded, but not counted as cached yet
                self._plan.take_back(request)
            elif self._requests:
                raise SimulationError(self._stalled())
            else:
                break
        self._retention.close(self.now)
        self._accounts.close(self.now, self._clients.sent, self._clients.requests)

    def _hear_clients(self) -> None:
        while (event := self._clients.take(self.now)) is not None:
            what, request, time = event
            if what == Clients.ARRIVE:
                self._arrive(request, time)
            elif request in self._requests and self._requests[request].first_token < 0:
                self._abort(self._requests[request])

    def _arrive(self, number: int, time: float) -> None:
        start = self._clients.session_start[self._clients.session_of(number)]
        request = self._source.make(number, time, start)
        self._accounts.arrived(request)
        need = self._source.blocks_needed(number)
        if need > self._memory.usable:
            request.state = RequestState.FINISHED_IGNORED
            self._accounts.refused(request, need)
            self._clients.came(number, time)
            self._answered(request)
            return
        self._requests[number] = request
        self._retention.arrived(request, self.now)
        self._waiting.add(request)
        self._clients.came(number, time)

    def _abort(self, request: Request) -> None:
        self._retention.aborted(request, self.now)
        if request.state is RequestState.RUNNING:
            self._plan.leave(request, self._source.info_at_end(request.id, self.now, 0, aborted=True))
        else:
            self._waiting.remove(request, self.now)
        request.state = RequestState.FINISHED_ABORTED
        del self._requests[request.id]
        self._accounts.aborted(request, self.now)
        self._clients.gave_up(request.id, self.now)

    def _answered(self, request: Request) -> None:
        session = self._clients.answered(request.id, self.now)
        if session is not None:
            self._accounts.session_done(self.now - self._clients.session_start[session])

    def _take_step(self) -> None:
        plan, batch = self._plan, self._plan.batch
        decodes = plan.decodes
        context = batch.context - sum(map(batch.position, plan.sitting_out))
        begin = self.now
        if plan.chunks or plan.sitting_out:
            chunks = [(tokens, request.computed) for request, tokens in plan.chunks]
            self.now += self._step_seconds(chunks, decodes, context)
            for request in plan.sitting_out:
                batch.delay(request)
            steps = 1
        else:
            steps = self._run_uneventful(decodes, context)
        self._accounts.step(begin, self.now, steps, steps * decodes, len(plan.running), len(self._waiting))
        batch.advance(steps, len(plan.sitting_out))
        while (ended := batch.pop_end()) is not None:
            self._finish(ended)
        for request, tokens in plan.chunks:
            self._prefilled(request, tokens)

    def _run_uneventful(self, decodes: int, context: int) -> int:
        # Decoding steps, one after another, until something happens that a plan must know of.
        most = self._plan.batch.uneventful_steps() if self._jump else 1
        horizon = min(self._next_event(), self._retention.next_due, self._waiting.idle_until(len(self._plan.running)))
        now, steps = self.now, 0
        step_seconds = self._step_seconds
        while True:
            now += step_seconds((), decodes, context)
            context += decodes
            steps += 1
            if steps >= most or now >= horizon:
                break
        self.now = now
        return steps

    def _step_seconds(self, chunks: list[tuple[int, int]] | tuple[()], decodes: int, context: int) -> float:
        ms = self._time.step_ms(chunks, decodes, context)
        if not 0.0 <= ms < math.inf:
            raise SimulationError(
                f"step_ms gave {ms!r} ms for chunks {list(chunks)}, {decodes} decodes and {context} cached tokens"
            )
        return ms / 1000.0

    def _prefilled(self, request: Request, tokens: int) -> None:
        self._accounts.prefilled(request, tokens, self.now)
        request.computed += tokens
        if request.computed < request.tokens:
            return
        if request is self._plan.prefilling:
            self._plan.prefilling = None
        request.generated += 1
        if request.first_token < 0:
            request.first_token = self.now
            self._accounts.first_token(request, self.now)
        if request.generated >= request.output_tokens:
            self._finish(request)
        else:
            self._plan.batch.join(request)

    def _finish(self, request: Request) -> None:
        request.state = self._source.final_state(request.id)
        aborted = request.state is RequestState.FINISHED_ABORTED
        info = self._source.info_at_end(request.id, self.now, request.output_tokens, aborted)
        if aborted:
            self._retention.aborted(request, self.now)
        else:
            self._retention.finished(request, info, self.now)
        self._plan.leave(request, info)
        del self._requests[request.id]
        self._accounts.finished(request, self.now)
        self._answered(request)

    def _next_event(self) -> float:
        return min(self._clients.next_time(), self._waiting.next_load())

    def _pass_time(self, until: float) -> None:
        if until > self.now:
            self._accounts.idle(self.now, until, len(self._waiting))
            self.now = until

    def _stalled(self) -> str:
        memory = self._memory
        state = (
            f"at {self.now:.3f} s: {len(self._plan.running)} running, {len(self._waiting)} waiting, {memory.held} of "
            f"{memory.usable} blocks held, {memory.free} free"
        )
        head = self._waiting.head(self)
        if head is None:
            return f"the simulation stalls {state}"
        return (
            f"the simulation stalls {state}; the next request, {head.id}, needs "
            f"{memory.blocks(head.tokens)} blocks for {head.tokens} tokens"
        )
