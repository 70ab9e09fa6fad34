"""Reading back what `kvopt simulate --json` wrote, and joining results of one scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from kvopt.errors import TraceError
from kvopt.metrics import confidence
from kvopt.simulator.simulation_result import SimulationSummary

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Series = list[float | None]


class TraceFacts(msgspec.Struct, frozen=True):
    """What of the trace's summary the report shows."""

    name: str
    block_tokens: Annotated[int, msgspec.Meta(ge=1)]
    requests: _Count = 0
    unique_blocks: _Count = 0


class Histogram(msgspec.Struct, frozen=True):
    """n + 1 edges in seconds, n counts between them."""

    edge: list[float] = []
    count: list[float] = []

    def __post_init__(self) -> None:
        if self.count and len(self.edge) != len(self.count) + 1:
            raise ValueError(f"{len(self.count)} counts need one edge more, not {len(self.edge)}")


class Series(msgspec.Struct, frozen=True):
    """Means and counts of each bucket of time."""

    bucket_s: float
    begin_s: list[float]
    held_blocks: _Series
    cached_blocks: _Series
    prompt_tokens: _Series
    hit_tokens: _Series

    def __post_init__(self) -> None:
        for name in ("held_blocks", "cached_blocks", "prompt_tokens", "hit_tokens"):
            if len(getattr(self, name)) != len(self.begin_s):
                raise ValueError(f"{name} has not as many values as begin_s")


class Prefill(msgspec.Struct, frozen=True):
    """What was prefilled for one cause."""

    tokens: float
    seconds: float


class Run(msgspec.Struct, frozen=True):
    """One policy under one scheduler at one capacity with one seed."""

    policy: _Name
    scheduler: _Name
    capacity: Annotated[int, msgspec.Meta(ge=1)]
    seed: int | None
    duration_s: float
    figures: dict[str, float | None]
    totals: dict[str, float | None]
    prefill: dict[str, Prefill]
    latency_histogram: dict[str, Histogram]
    series: Series


class _Document(msgspec.Struct, frozen=True):
    kind: Literal["kvopt-simulation"]
    format_version: Literal[1]
    trace: TraceFacts
    setup: dict[str, Any]
    runs: Annotated[list[Run], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """All runs of one trace and one setup, from whichever files."""

    trace: TraceFacts
    setup: dict[str, Any]
    runs: tuple[Run, ...]

    def summaries(self) -> tuple[SimulationSummary, ...]:
        """Mean and 95 % interval over seeds of each policy, scheduler and capacity, in the order of the runs."""
        groups: dict[tuple[str, str, int], list[Run]] = {}
        for run in self.runs:
            groups.setdefault((run.policy, run.scheduler, run.capacity), []).append(run)
        return tuple(
            SimulationSummary(
                *key, {name: confidence([_number(run, name) for run in runs]) for name in runs[0].figures}
            )
            for key, runs in groups.items()
        )


def read_scenarios(paths: Sequence[Path]) -> list[Scenario]:
    """The scenarios of some result files: results of one trace and setup are joined, so that their policies compare.

    Where two files hold the same policy, scheduler, capacity and seed of one scenario, the later is named after its
    file. Raises OSError when a file cannot be read, TraceError when it is corrupt or foreign.
    """
    found: dict[str, tuple[TraceFacts, dict[str, Any], list[Run]]] = {}
    for path in paths:
        document = _read(path)
        common = {key: value for key, value in document.setup.items() if key not in ("policies", "seeds")}
        key = json.dumps([msgspec.to_builtins(document.trace), common], sort_keys=True)
        _, _, runs = found.setdefault(key, (document.trace, document.setup, []))
        taken = {_cell(run) for run in runs}
        doubled = {run.policy for run in document.runs if _cell(run) in taken}
        for run in document.runs:
            named = msgspec.structs.replace(run, policy=f"{run.policy} ({path.stem})") if run.policy in doubled else run
            if _cell(named) in {_cell(each) for each in runs}:
                raise TraceError(f"{path}: {' / '.join(map(str, _cell(run)))} comes twice")
            runs.append(named)
    return [Scenario(trace, setup, _ordered(runs)) for trace, setup, runs in found.values()]


def _ordered(runs: list[Run]) -> tuple[Run, ...]:
    # By capacity, then as they came, each policy's seeds together.
    places: dict[tuple[str, str], int] = {}
    for run in runs:
        places.setdefault((run.scheduler, ""), len(places))
        places.setdefault(("", run.policy), len(places))
    return tuple(
        sorted(runs, key=lambda run: (run.capacity, places[run.scheduler, ""], places["", run.policy], run.seed or 0))
    )


def _read(path: Path) -> _Document:
    content = path.read_bytes()
    try:
        return msgspec.json.decode(content, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: not a JSON result of kvopt simulate: {error}") from None


def _cell(run: Run) -> tuple[str, str, int, int]:
    return run.policy, run.scheduler, run.capacity, run.seed or 0


def _number(run: Run, name: str) -> float:
    value = run.figures.get(name)
    return math.nan if value is None else value
