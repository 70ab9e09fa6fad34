"""The same requests through vLLM's own scheduler and through `kvopt simulate`: what happens, and in which step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvopt._core import PrefixTraceBuilder
from kvopt.simulator import ClientOptions, Limits, LinearStepTime, SimulationOptions, simulate
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.threads import find_threads
from kvopt.workload.base import Trace
from programs import BLOCK, Program, Sent
from schedulers import SchedulerBench

Event = tuple[float, str, int, int]
COMPARED = ("admitted", "evicted", "preempted", "finished")
STEP = LinearStepTime(k0=1000.0)
"""A step takes a second whatever it computes, so that a time is the number of a step."""


@dataclass(frozen=True)
class Served:
    """Requests with the step in front of which each comes, and a server's limits."""

    trace: Trace
    requests: Sequence[Sent]
    blocks: int
    budget: int
    sequences: int

    @property
    def steps(self) -> list[int]:
        """Of each request."""
        return [round(time - self.trace.time[0]) for time in self.trace.time.tolist()]


def served_program(program: Program) -> Served:
    """The requests of a program as a trace: blocks that hold the same behind the same are one block."""
    numbers: dict[tuple[int, ...], int] = {}
    builder = PrefixTraceBuilder()
    columns: dict[str, list[Any]] = {"time": [], "input_tokens": [], "output_tokens": [], "session": []}
    for step, turn in enumerate(program.turns):
        for request in turn.sent:
            full = len(request.prompt) // BLOCK
            heads = [tuple(request.prompt[: BLOCK * (block + 1)]) for block in range(full)]
            builder.append(np.array([numbers.setdefault(head, len(numbers)) for head in heads], dtype=np.uint64))
            columns["time"].append(float(step))
            columns["input_tokens"].append(len(request.prompt))
            columns["output_tokens"].append(len(request.answer))
            columns["session"].append(request.session)
    arrays = {name: np.array(values) for name, values in columns.items()}
    trace = Trace.from_columns(builder.finish(), arrays, name="program", block_tokens=BLOCK)
    return Served(trace, program.sent, program.blocks, program.budget, program.sequences)


def served_trace(trace: Trace, blocks: int, budget: int, sequences: int) -> Served:
    """The requests of a trace with tokens of which no two blocks share any; its times are taken as steps."""
    source = RequestSource(trace, find_threads(trace))
    size, made = trace.block_tokens, []
    names: dict[int, int] = {}
    for number in range(trace.requests):
        request = source.make(number, 0.0, 0.0)
        firsts = [names.setdefault(key, len(names)) * size for key in request.keys.tolist()]
        tokens = [first + place for first in firsts for place in range(size)]
        rest = request.prompt_tokens + request.output_tokens - len(tokens)
        tokens += [-1 - number * size - place for place in range(rest)]
        prompt, answer = tokens[: request.prompt_tokens], tokens[request.prompt_tokens :]
        made.append(Sent(f"r{number}", prompt, answer, request.session))
    return Served(trace, made, blocks, budget, sequences)


def simulated_events(served: Served) -> list[Event]:
    """What `kvopt simulate` says happens under LRU."""
    run = simulate(
        served.trace,
        "lru",
        served.blocks,
        profile=STEP,
        clients=ClientOptions(mode="open"),
        options=SimulationOptions(limits=Limits(served.budget, served.sequences)),
        events=True,
    ).runs[0]
    assert run.log is not None
    return [event for event in run.log.rows() if event[1] in COMPARED]


def vllm_events(bench: SchedulerBench, served: Served) -> list[Event]:
    """What happens under vLLM's own scheduler and block pool."""
    limits = Program(0, served.blocks, served.budget, served.sequences, [])
    bench.begin(limits, None, block_tokens=served.trace.block_tokens)
    events: list[Event] = []
    number = {request.name: place for place, request in enumerate(served.requests)}
    steps, to_come, now = served.steps, 0, 0
    scheduled = _watch(
        bench.scheduler, lambda kind, name, amount: events.append((float(now), kind, number[name], amount))
    )
    while to_come < len(steps) or bench.scheduler.has_requests():
        if not bench.scheduler.has_unfinished_requests() and to_come < len(steps):
            now = max(now, steps[to_come])
        while to_come < len(steps) and steps[to_come] <= now:
            sent = served.requests[to_come]
            bench.add(sent.name, sent.prompt, answer=sent.answer)
            to_come += 1
        finished = len(bench.reasons)
        bench.step()
        now += scheduled.pop() > 0
        for name in list(bench.reasons)[finished:]:
            events.append((float(now), "finished", number[name], len(bench.outputs[name])))
    bench.scheduler.shutdown()
    return events


def _watch(scheduler: Any, happened: Any) -> list[int]:
    """Tell of each admission, eviction and preemption; the tokens of each step are put into the list."""
    manager, pool, tokens = scheduler.kv_cache_manager, scheduler.kv_cache_manager.block_pool, [0]
    allocate, take = manager.allocate_slots, pool.get_new_blocks
    schedule, preempt = scheduler.schedule, scheduler._preempt_request
    served_now = ""

    def watched_allocate(request: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal served_now
        served_now = request.request_id
        waits = request not in scheduler.running
        given = allocate(request, *arguments, **keywords)
        if waits and given is not None:
            happened("admitted", served_now, keywords["num_new_computed_tokens"])
        return given

    def watched_take(count: int) -> Any:
        queue = pool.free_block_queue.get_all_free_blocks()[:count]
        gone = sum(block.block_hash is not None for block in queue)
        if gone:
            happened("evicted", served_now, gone)
        return take(count)

    def watched_preempt(request: Any, *arguments: Any, **keywords: Any) -> Any:
        happened("preempted", request.request_id, request.num_computed_tokens)
        return preempt(request, *arguments, **keywords)

    def watched_schedule(*arguments: Any, **keywords: Any) -> Any:
        output = schedule(*arguments, **keywords)
        tokens[:] = [output.total_num_scheduled_tokens]
        return output

    manager.allocate_slots, pool.get_new_blocks = watched_allocate, watched_take
    scheduler.schedule, scheduler._preempt_request = watched_schedule, watched_preempt
    return tokens
