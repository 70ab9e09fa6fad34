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
from dataclasses import dataclass

from kvopt.errors import ConfigError, SchedulerError, SimulationError
from kvopt.metrics import Collector
from kvopt.scheduler import Request, RequestState, Scheduler
from kvopt.simulator.accounts import Accounts
from kvopt.simulator.clients import Clients
from kvopt.simulator.decoding import DecodeBatch
from kvopt.simulator.memory import Memory
from kvopt.simulator.preemption import Victim
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.step_time import StepTime

_REPORT_ROUNDS = 2048

IDLE_STEPS = 1000
"""So many steps in a row without a token are an error."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a step may hold. The defaults are those of vLLM's server on GPUs of 70 GiB and more. Raises ConfigError."""

    token_budget: int = 8192
    """Tokens a step: vLLM's max_num_batched_tokens."""
    max_sequences: int = 1024
    """Requests that run at once: vLLM's max_num_seqs."""

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_sequences"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}: {value!r} is not a whole number from 1 up")
        if self.max_sequences > self.token_budget:
            raise ConfigError(
                f"max_sequences: {self.max_sequences} is above the token budget {self.token_budget}; every running "
                "request needs a token a step"
            )

    @classmethod
    def of(cls, token_budget: int, max_sequences: int | None = None) -> Limits:
        """Limits with this budget, and by default as many sequences as it allows, up to vLLM's default."""
        if max_sequences is None:
            most: int = cls().max_sequences
            return cls(token_budget, min(most, token_budget) if isinstance(token_budget, int) else most)
        return cls(token_budget, max_sequences)


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
        jump: bool = True,
    ) -> None:
        self.now = 0.0
        self._source, self._clients, self._memory = source, clients, memory
        self._waiting, self._victim = scheduler, victim
        self._time, self._limits = step_time, limits
        self._block_tokens = block_tokens
        self._accounts = Accounts(collector, memory, step_time)
        self._collector = collector
        self._batch = DecodeBatch(block_tokens)
        self._jump = jump
        self._running: dict[int, Request] = {}
        self._requests: dict[int, Request] = {}  # that came and are not finished
        self._prefilling: Request | None = None  # the last of the running, where its prompt is not complete
        self._chunks: list[tuple[Request, int]] = []  # tokens that this step prefills
        self._sitting_out: list[Request] = []  # decoding, but not in this step
        self._preempted = False  # somebody, in this step
        self._blocked = False  # the head of the line, until something changes
        self._admissions = 0
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
            self._plan_step()
            if self._chunks or self._batch.count > len(self._sitting_out):
                self._idle_steps = 0
                self._take_step()
                continue
            upcoming = self._next_event()
            if self._preempted and self._idle_steps < IDLE_STEPS:
                self._idle_steps += 1
            elif upcoming < math.inf and not self._preempted:
                self._pass_time(upcoming)
            elif self._requests:
                raise SimulationError(self._stalled())
            else:
                break
        self._accounts.close(self.now, self._clients.sent, self._clients.requests)

    # Clients.

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
        self._waiting.add(request)
        self._blocked = False
        self._clients.came(number, time)

    def _abort(self, request: Request) -> None:
        if request.state is RequestState.RUNNING:
            info = self._source.info_at_end(request.id, self.now, 0, aborted=True)
            self._memory.release(request, info)
            del self._running[request.id]
            if request is self._prefilling:
                self._prefilling = None
        else:
            self._waiting.remove(request)
        self._blocked = False
        request.state = RequestState.FINISHED_ABORTED
        del self._requests[request.id]
        self._accounts.aborted(request, self.now)
        self._clients.gave_up(request.id, self.now)

    def _answered(self, request: Request) -> None:
        session = self._clients.answered(request.id, self.now)
        if session is not None:
            self._accounts.session_done(self.now - self._clients.session_start[session])

    # Planning a step.

    def _plan_step(self) -> None:
        self._chunks.clear()
        self._sitting_out.clear()
        self._preempted = False
        if self._plan_decodes() and self._prefilling is not None:
            self._plan_prefill(self._prefilling)
        if not self._preempted:
            self._admit_waiting()

    def _plan_decodes(self) -> bool:
        # False when the line of the running ends before its end.
        batch, memory, whole = self._batch, self._memory, self._block_tokens
        while (request := batch.pop_edge()) is not None:
            position = batch.position(request)
            if position % whole == 0:
                if not self._make_room(request, 1):
                    self._sit_out_behind(request)
                    return False
                memory.extend(request, 1, self.now)
                self._blocked = False
            if (position + 1) % whole == 0:
                memory.commit(request, position + 1, self._source.info(request.id, self.now))
                self._blocked = False
            batch.plan_edge(request)
        return True

    def _plan_prefill(self, request: Request) -> None:
        tokens = min(request.remaining_prefill, self._limits.token_budget - self._batch.count)
        end = request.computed + tokens
        more = self._memory.blocks(end) - request.held_blocks
        if more > 0:
            if not self._make_room(request, more):
                return
            self._memory.extend(request, more, self.now)
        self._memory.commit(request, end, self._source.info(request.id, self.now))
        self._blocked = False
        self._chunks.append((request, tokens))

    def _make_room(self, request: Request, blocks: int) -> bool:
        # False when the request itself had to go.
        while blocks > self._memory.free:
            victim = self._victim(self._running, self._loss)
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        del self._running[request.id]
        if request.decode_step >= 0:
            self._batch.leave(request)
        if request is self._prefilling:
            self._prefilling = None
        self._memory.release(request, self._source.info(request.id, self.now))
        self._accounts.preempted(request, self.now)
        request.computed = 0
        request.state = RequestState.PREEMPTED
        self._waiting.prepend(request)
        self._preempted = True
        self._blocked = False

    def _sit_out_behind(self, request: Request) -> None:
        for other in self._running.values():
            if other.order > request.order and other.decode_step >= 0:
                self._sitting_out.append(other)

    def _loss(self, request: Request) -> float:
        computed = self._batch.position(request) if request.decode_step >= 0 else request.computed
        return self._time.prefill_ms(computed, 0)

    def _admit_waiting(self) -> None:
        budget = self._limits.token_budget - self._batch.count - sum(tokens for _, tokens in self._chunks)
        while budget > 0 and len(self._waiting) and len(self._running) < self._limits.max_sequences:
            if self._blocked and self.now < self._waiting.stable_until():
                return
            request = self._waiting.peek(self)
            tokens = self._admit(request, budget)
            if tokens == 0:
                self._blocked = True
                return
            budget -= tokens

    def _admit(self, request: Request, budget: int) -> int:
        # The tokens that this step computes for it; 0 when it does not fit.
        memory = self._memory
        hit = memory.match(request)
        computed = min(hit * self._block_tokens, request.tokens - 1)
        tokens = min(request.tokens - computed, budget)
        if not memory.fits(request, hit):
            return 0
        info = self._source.info(request.id, self.now)
        if not memory.admit(request, hit, computed + tokens, info):
            return 0
        if self._waiting.pop() is not request:
            raise SchedulerError(f"{type(self._waiting).__name__}.pop() gave another request than peek() named")
        request.seen = memory.computed_before(request, hit)
        memory.commit(request, computed + tokens, info)
        request.computed = computed
        request.state = RequestState.RUNNING
        request.order = self._admissions
        self._admissions += 1
        self._running[request.id] = request
        self._accounts.admitted(request, self.now)
        self._chunks.append((request, tokens))
        if computed + tokens < request.tokens:
            self._prefilling = request
        return tokens

    # Taking a step.

    def _take_step(self) -> None:
        batch = self._batch
        decodes, context = batch.count, batch.context
        for request in self._sitting_out:
            decodes -= 1
            context -= batch.position(request)
        begin = self.now
        if self._chunks or self._sitting_out:
            chunks = [(tokens, request.computed) for request, tokens in self._chunks]
            self.now += self._step_seconds(chunks, decodes, context)
            for request in self._sitting_out:
                batch.delay(request)
            steps = 1
        else:
            steps = self._run_uneventful(decodes, context)
        self._accounts.step(begin, self.now, steps, steps * decodes, len(self._running), len(self._waiting))
        batch.advance(steps, len(self._sitting_out))
        while (ended := batch.pop_end()) is not None:
            self._finish(ended)
        for request, tokens in self._chunks:
            self._prefilled(request, tokens)

    def _run_uneventful(self, decodes: int, context: int) -> int:
        # Decoding steps, one after another, until something happens that a plan must know of.
        most = self._batch.uneventful_steps() if self._jump else 1
        horizon = self._next_event()
        if len(self._waiting) and len(self._running) < self._limits.max_sequences:
            # The head of the line is tried again at each step, unless nothing has changed for it.
            horizon = min(horizon, self._waiting.stable_until() if self._blocked else self.now)
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
        if request is self._prefilling:
            self._prefilling = None
        request.generated += 1
        if request.first_token < 0:
            request.first_token = self.now
            self._accounts.first_token(request, self.now)
        if request.generated >= request.output_tokens:
            self._finish(request)
        else:
            self._batch.join(request)

    def _finish(self, request: Request) -> None:
        request.state = self._source.final_state(request.id)
        aborted = request.state is RequestState.FINISHED_ABORTED
        info = self._source.info_at_end(request.id, self.now, request.output_tokens, aborted)
        self._memory.release(request, info)
        del self._running[request.id], self._requests[request.id]
        self._blocked = False
        self._accounts.finished(request, self.now)
        self._answered(request)

    def _next_event(self) -> float:
        return self._clients.next_time()

    def _pass_time(self, until: float) -> None:
        if until > self.now:
            self._accounts.idle(self.now, until, len(self._waiting))
            self.now = until

    def _stalled(self) -> str:
        memory = self._memory
        state = (
            f"at {self.now:.3f} s: {len(self._running)} running, {len(self._waiting)} waiting, {memory.held} of "
            f"{memory.usable} blocks held, {memory.free} free"
        )
        if not len(self._waiting):
            return f"the simulation stalls {state}"
        head = self._waiting.peek(self)
        return (
            f"the simulation stalls {state}; the next request, {head.id}, needs "
            f"{memory.blocks(head.tokens)} blocks for {head.tokens} tokens"
        )
