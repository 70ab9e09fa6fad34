"""The load of `serve_agents.py` on vLLM's engine core with simulated steps and a virtual clock: the same every time.

    python bench/vllm/simulate_agents.py [--seeds 0 1 2] [--blocks 400] [--k1 0.12]

in an environment that has vLLM and KVopt; no kernels are needed, and a server takes seconds. What a busy machine does
to `serve_agents.py` is left out: a step takes `--k0` + Σ(`--k1`·q + 4e-6·q·s) ms for q tokens behind s others, and HTTP
nothing. vLLM alone is its own pool, hashing and order with KVopt's hooks beside it.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "ERROR"}
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "vllm"))

from agent_load import (
    PREFILL,
    VARIANTS,
    Answered,
    Load,
    Question,
    chats,
    figures,
    load_of,
    options_parser,
    table,
    turns,
)

from engines import Engine
from kvopt.vllm import observation as seen
from kvopt.vllm import pools, runtime
from tiny_model import make_model

ALONE = {"pool": "off", "hashing": "vllm"}


class Clock:
    """Seconds, which go on as simulated steps do."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()
pools.PoolSettings = functools.partial(pools.PoolSettings, clock=CLOCK)  # type: ignore[misc, assignment]
runtime.Hooks = functools.partial(runtime.Hooks, clock=CLOCK)  # type: ignore[misc, assignment]


class Simulation:
    """One engine, its agents and its chats, from event to event."""

    def __init__(self, model: Path, variant: str, load: Load, seed: int, prefill: dict[str, float]) -> None:
        CLOCK.now = 0.0
        more = {"prefill": prefill, "metrics": False, "simulation": {"time": "virtual", "asynchronous": False}}
        arguments = load.arguments
        blocks = arguments.pop("num_gpu_blocks_override")
        arguments |= {"max_num_batched_tokens": 2048}
        self._engine = Engine(model, kvopt=(VARIANTS[variant] or ALONE) | more, blocks=blocks, **arguments)
        self._engine.scheduler.kvopt.hooks.add_observer("cached", self._note)
        self._cached: dict[str, int] = {}
        self._agents: dict[str, Iterator[tuple[Question, float]]] = {}
        self._pauses: dict[str, float] = {}
        self._asked: dict[str, tuple[Question, float]] = {}
        self._first: dict[str, float] = {}
        self._open: set[str] = set()
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Any]] = []
        self._chats = chats(load, seed)
        self._working = load.agents
        for number in range(load.agents):
            self._at(0.0, turns(load, seed, number))
        self._next_chat()

    def run(self) -> list[Answered]:
        """All answers, in the order of asking."""
        executor = self._engine.core.model_executor
        while self._working or self._open:
            while self._due and self._due[0][0] <= CLOCK.now:
                self._go_on(heapq.heappop(self._due)[2])
            if not self._open:
                CLOCK.now = self._due[0][0] if self._due else CLOCK.now
                continue
            before = executor.simulated_seconds
            self._engine.step()
            CLOCK.now += max(executor.simulated_seconds - before, 1e-4)
            self._collect()
        self._engine.shutdown()
        return [
            Answered(asked, self._cached[name], self._first[name] - at) for name, (asked, at) in self._asked.items()
        ]

    def _go_on(self, what: Any) -> None:
        if isinstance(what, Question):
            if self._working:
                self._ask(what)
                self._next_chat()
            return
        turn = next(what, None)
        if turn is None:
            self._working -= 1
            return
        name = self._ask(turn[0])
        self._agents[name], self._pauses[name] = what, turn[1]

    def _ask(self, asked: Question) -> str:
        name = str(next(self._numbers))
        self._engine.add(name, asked.prompt, answer=asked.answer, stop=[asked.answer[-1]])
        self._asked[name] = asked, CLOCK.now
        self._open.add(name)
        return name

    def _collect(self) -> None:
        for name in sorted(self._open, key=int):
            if self._engine.outputs[name]:
                self._first.setdefault(name, CLOCK.now)
            if name in self._engine.reasons:
                self._open.remove(name)
                if name in self._agents:
                    self._at(CLOCK.now + self._pauses[name], self._agents[name])

    def _next_chat(self) -> None:
        gap, asked = next(self._chats)
        self._at(CLOCK.now + gap, asked)

    def _at(self, time: float, what: Any) -> None:
        heapq.heappush(self._due, (time, next(self._numbers), what))

    def _note(self, event: seen.Event) -> None:
        if isinstance(event, seen.Scheduled) and not event.resumed:
            self._cached[event.request.request_id] = event.hit_tokens


def main() -> None:
    """Run all simulations and print the table."""
    parser = options_parser(__doc__)
    parser.add_argument("--k0", type=float, default=PREFILL["k0"], help="ms a step")
    parser.add_argument("--k1", type=float, default=PREFILL["k1"], help="ms a token")
    options = parser.parse_args()
    load = load_of(options)
    prefill = PREFILL | {"k0": options.k0, "k1": options.k1}
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "model")
        results = {
            variant: [figures(Simulation(model, variant, load, seed, prefill).run()) for seed in options.seeds]
            for variant in options.variants
        }
    for variant, rows in results.items():
        print(variant, "of what could be:", ", ".join(f"{row['of what could be']:.1%}" for row in rows))
    print(table(results))


if __name__ == "__main__":
    main()
