"""The same requests through vLLM's own scheduler and through `kvopt simulate`: what happens, and in which step."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvopt._core import PrefixTrace, PrefixTraceBuilder
from kvopt.simulator import ClientOptions, Limits, LinearStepTime, SimulationOptions, simulate
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.threads import find_threads
from kvopt.workload import read_trace
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


def first_sessions(archive: Path, folder: Path, sessions: int, requests: int, step_seconds: float) -> Trace:
    """The first requests of the first sessions of a recorded archive, each in front of the step that its time falls in.

    The archive is read no further than these sessions.
    """
    with tarfile.open(archive) as recorded:
        members = (member for member in recorded if member.isfile())
        for member in itertools.islice(members, sessions):
            content = recorded.extractfile(member)
            assert content is not None
            (folder / Path(member.name).name).write_bytes(content.read())
    trace = read_trace(folder)
    prefix, kept = trace.prefix, slice(0, requests)
    columns = {name: values[kept] for name, values in trace.columns().items()}
    columns["time"] = np.floor(columns["time"] / step_seconds)
    cut = PrefixTrace(prefix.parent[kept], prefix.shared_blocks[kept], prefix.new_blocks[kept])
    return Trace.from_columns(cut, columns, name=trace.name, block_tokens=trace.block_tokens)


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


def vllm_events(bench: SchedulerBench, served: Served) -> tuple[list[Event], int]:
    """What happens under vLLM's own scheduler and block pool, and how many blocks stored what was cached already."""
    limits = Program(0, served.blocks, served.budget, served.sequences, [])
    bench.begin(limits, None, block_tokens=served.trace.block_tokens)
    events: list[Event] = []
    number = {request.name: place for place, request in enumerate(served.requests)}
    steps, to_come, now = served.steps, 0, 0
    watched = _Watch(
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
        now += watched.tokens > 0
        for name in list(bench.reasons)[finished:]:
            events.append((float(now), "finished", number[name], len(bench.outputs[name])))
    bench.scheduler.shutdown()
    return events, watched.stored_twice


class _Watch:
    """Tells of each admission, eviction and preemption of a scheduler."""

    def __init__(self, scheduler: Any, happened: Callable[[str, str, int], None]) -> None:
        self.tokens = 0
        """Of the last step."""
        self.stored_twice = 0
        self._scheduler, self._happened = scheduler, happened
        manager = scheduler.kv_cache_manager
        self._pool = manager.block_pool
        self._keys = self._pool.cached_block_hash_to_block
        self._allocate, self._take, self._insert = manager.allocate_slots, self._pool.get_new_blocks, self._keys.insert
        self._schedule, self._preempt = scheduler.schedule, scheduler._preempt_request
        self._served = ""
        manager.allocate_slots, self._pool.get_new_blocks, self._keys.insert = self.allocate, self.take, self.insert
        scheduler.schedule, scheduler._preempt_request = self.schedule, self.preempt

    def allocate(self, request: Any, *arguments: Any, **keywords: Any) -> Any:
        self._served = request.request_id
        waits = request not in self._scheduler.running
        given = self._allocate(request, *arguments, **keywords)
        if waits and given is not None:
            self._happened("admitted", self._served, keywords["num_new_computed_tokens"])
        return given

    def take(self, count: int) -> Any:
        queue = self._pool.free_block_queue.get_all_free_blocks()[:count]
        evicted = sum(block.block_hash is not None for block in queue)
        if evicted:
            self._happened("evicted", self._served, evicted)
        return self._take(count)

    def insert(self, key: Any, block: Any) -> Any:
        self.stored_twice += self._keys.get_one_block(key) is not None
        return self._insert(key, block)

    def preempt(self, request: Any, *arguments: Any, **keywords: Any) -> Any:
        self._happened("preempted", request.request_id, request.num_computed_tokens)
        return self._preempt(request, *arguments, **keywords)

    def schedule(self, *arguments: Any, **keywords: Any) -> Any:
        output = self._schedule(*arguments, **keywords)
        self.tokens = output.total_num_scheduled_tokens
        return output
