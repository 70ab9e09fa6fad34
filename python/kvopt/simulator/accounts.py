"""The books of a run: what the engine does, as entries of the collector, and whether they balance."""

from __future__ import annotations

from kvopt.errors import SimulationError
from kvopt.metrics import Collector, EventKind
from kvopt.scheduler import Request
from kvopt.simulator.memory import Memory
from kvopt.simulator.step_time import StepTime

HIT, PREFILLED, DECODED, THROWN_AWAY = range(4)
"""Places in a request's ledger."""


class Accounts:
    """Entries for each thing that happens. Conservation is checked a request when it ends, and a run when it closes."""

    def __init__(self, collector: Collector, memory: Memory, step_time: StepTime) -> None:
        self._collector, self._memory, self._time = collector, memory, step_time
        self._totals = collector.totals
        self._planned = [0, 0]  # tokens that steps prefilled and decoded
        self._booked = [0, 0]  # the same by requests

    def arrived(self, request: Request) -> None:
        """A request came."""
        self._totals.requests += 1
        self._collector.series.count(request.arrival, "arrivals")
        self._collector.event(request.arrival, EventKind.ARRIVED, request.id, request.prompt_tokens)

    def refused(self, request: Request, blocks: int) -> None:
        """It needs more blocks than there are."""
        self._totals.refused += 1
        self._collector.event(request.arrival, EventKind.REFUSED, request.id, blocks)

    def loading(self, request: Request, now: float) -> None:
        """Blocks that hold `loaded` of its tokens are on their way from another tier."""
        self._collector.event(now, EventKind.LOADING, request.id, request.loaded)

    def admitted(self, request: Request, now: float) -> None:
        """It runs; `computed` of its tokens were cached, `loaded` of these in another tier."""
        totals, collector = self._totals, self._collector
        hit = request.computed - request.loaded
        request.ledger[HIT] += request.computed
        totals.loaded_tokens += request.loaded
        if request.first_admitted < 0:
            request.first_admitted = now
            totals.prompt_tokens += request.prompt_tokens
            totals.hit_tokens += hit
            collector.latency["queueing"].add(now - request.arrival)
            collector.series.count(now, "prompt_tokens", request.prompt_tokens)
            collector.series.count(now, "hit_tokens", hit)
        else:
            totals.reread_tokens += hit
        collector.event(now, EventKind.ADMITTED, request.id, hit)

    def prefilled(self, request: Request, tokens: int, now: float) -> None:
        """A step computed the next `tokens` of a prompt; say why each had to be computed."""
        request.ledger[PREFILLED] += tokens
        self._planned[0] += tokens
        self._collector.series.count(now, "prefilled_tokens", tokens)
        begin, end = request.computed, request.computed + tokens
        tail = self._memory.reach(request) * self._memory.block_tokens
        for cause, until in (
            ("preempted", request.lost),
            ("evicted", request.seen),
            ("cold", tail),
            ("tail", request.tokens),
        ):
            stop = min(end, until)
            if stop > begin:
                self._collector.prefilled(cause, stop - begin, self._time.prefill_ms(stop - begin, begin))
                begin = stop

    def first_token(self, request: Request, now: float) -> None:
        """Its answer began."""
        self._collector.latency["ttft"].add(now - request.arrival)
        self._collector.event(now, EventKind.FIRST_TOKEN, request.id, request.generated)

    def preempted(self, request: Request, now: float) -> None:
        """It lost its blocks, with `computed` tokens in them."""
        request.preemptions += 1
        request.lost = max(request.lost, request.computed)
        request.ledger[THROWN_AWAY] += request.computed
        self._totals.preemptions += 1
        self._collector.series.count(now, "preemptions")
        self._collector.event(now, EventKind.PREEMPTED, request.id, request.computed)

    def finished(self, request: Request, now: float) -> None:
        """Its answer is complete. Raises SimulationError when its tokens do not add up."""
        self._totals.finished += 1
        self._totals.output_tokens += request.generated
        latency = self._collector.latency
        latency["end_to_end"].add(now - request.arrival)
        if request.generated > 1:
            latency["time_per_token"].add((now - request.first_token) / (request.generated - 1))
        hit, prefilled, _, thrown = request.ledger
        # All but the last token of the answer are computed, the first token after each prefill by that prefill.
        decoded = request.prompt_tokens + request.generated - 1 + thrown - hit - prefilled
        self._booked[0] += prefilled
        self._booked[1] += decoded
        request.ledger[DECODED] = decoded
        if request.preemptions == 0 and (hit + prefilled != request.prompt_tokens or decoded != request.generated - 1):
            raise SimulationError(
                f"request {request.id}: {hit} tokens hit and {prefilled} prefilled of a prompt of "
                f"{request.prompt_tokens}; {decoded} decoded of an answer of {request.generated}"
            )
        self._collector.event(now, EventKind.FINISHED, request.id, request.generated)

    def aborted(self, request: Request, now: float) -> None:
        """Its client gave up."""
        self._totals.aborted += 1
        self._booked[0] += request.ledger[PREFILLED]
        self._collector.event(now, EventKind.ABORTED, request.id, request.generated)

    def session_done(self, seconds: float) -> None:
        """All requests of a session were answered."""
        self._totals.sessions += 1
        self._collector.latency["job_completion"].add(seconds)

    def step(self, begin: float, end: float, steps: int, decoded: int, running: int, waiting: int) -> None:
        """Some steps were taken, in which so many tokens were decoded."""
        self._totals.steps += steps
        self._totals.busy_s += end - begin
        self._planned[1] += decoded
        self.idle(begin, end, waiting, running)

    def idle(self, begin: float, end: float, waiting: int, running: int = 0) -> None:
        """Time passed with these blocks held and cached."""
        held, cached = self._memory.held, self._memory.cached
        self._totals.held_block_s += held * (end - begin)
        self._totals.cached_block_s += cached * (end - begin)
        self._collector.series.hold(begin, end, held, cached, running, waiting)

    def close(self, now: float, sent: int, requests: int) -> None:
        """The run is over. Raises SimulationError when tokens, blocks or requests do not add up."""
        totals = self._totals
        totals.unsent = requests - sent
        totals.unresolved_block_s = self._memory.idle_block_seconds(now)
        totals.useful_block_s = max(0.0, totals.cached_block_s - totals.wasted_block_s - totals.unresolved_block_s)
        wrong = self._memory.check()
        if self._planned != self._booked:
            wrong.append(f"steps prefilled and decoded {self._planned} tokens, requests account for {self._booked}")
        if sum(self._collector.prefill.tokens.values()) != self._planned[0]:
            wrong.append(f"prefill by cause {self._collector.prefill.tokens} is not {self._planned[0]} tokens")
        if totals.finished + totals.refused + totals.aborted != totals.requests or totals.requests != sent:
            wrong.append(
                f"{totals.finished} finished, {totals.refused} refused and {totals.aborted} aborted of "
                f"{totals.requests} requests, {sent} sent"
            )
        if wrong:
            raise SimulationError("the books do not balance: " + "; ".join(wrong))
