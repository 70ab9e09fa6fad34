"""The experiments of docs/continuum.md: who finishes when, by ways to retain and to order. Writes its tables anew.

    python bench/continuum_experiments.py [--seeds 5] [--jobs 2]
    python bench/continuum_experiments.py --seeds 0    # the tables of the runs that there are

Two workloads in a closed loop, on two models, at three sizes of memory, with arrivals drawn by seeds that all methods
share: 24 of the recorded agent sessions, and 24 generated ones with quick tools. Runs that are in the results file are
not made again; delete it after a change. The simulator itself asserts that each run's tokens, blocks and requests add
up.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
from report import table

from kvopt.metrics import Confidence, confidence
from kvopt.simulator import RetentionOptions, SimulationOptions, load_profile
from kvopt.simulator.sweep.cell import Cell, CellRunner, Job, ServerSetup
from kvopt.workload import CodingAgents, Trace, read_trace, take_sessions

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT.parent / "shared" / "traces" / "agentic-400.tar.xz"
PAGE = ROOT / "docs" / "continuum.md"
ROWS = ROOT / "build" / "continuum_experiments.jsonl"

UNBOUNDED = "continuum:bound=1e9,ageing=0"
"""Retained sessions first, then program-level first come, first served, as Continuum has it."""
METHODS: dict[str, tuple[str, str, str | None]] = {
    "lru, fifo": ("lru", "fifo", None),
    "lru, program": ("lru", "program", None),
    "lru, fixed 2 s": ("lru", UNBOUNDED, "fixed:seconds=2,leases=always,lease_share=0.9"),
    "lru, paper": ("lru", UNBOUNDED, "paper:leases=always,lease_share=0.9"),
    "lru, index": ("lru", "continuum", "index"),
    "cost-aware, index": ("cost-aware", "continuum", "index"),
    "cost-aware, index, unbounded": ("cost-aware", UNBOUNDED, "index"),
}
"""Policy, scheduler and retention of each method."""
BASE, OURS = "lru, fifo", "cost-aware, index"
PROFILES = {"8B": "llama-3.1-8b@h100", "70B": "llama-3.1-70b@4xh100"}
LEVELS = {
    "tools": {"slack": 40_000, "tight": 16_000, "scarce": 10_000},
    "agentic": {"slack": 60_000, "tight": 30_000, "scarce": 15_000},
}
"""Blocks of 64 tokens."""
START_GAP = 10.0
"""Mean seconds between the starts of two sessions."""

Key = tuple[str, str, str, str, int]
"""Workload, profile, level, method and seed."""
Row = dict[str, float]


@cache
def workload(name: str) -> Trace:
    if name == "tools":
        quick = CodingAgents(
            sessions=24, arrival_gap=START_GAP, requests_median=24, tool_gap_median=2, user_gap_median=20
        )
        return quick.load()
    trace = read_trace(TRACE)
    numbers, counts = np.unique(trace.session, return_counts=True)
    fit = numbers[(counts >= 10) & (counts <= 60)]
    return take_sessions(trace, np.random.default_rng(1).permutation(fit)[:24], name="agentic-24")


@cache
def runner(name: str, profile: str, retention: str | None) -> tuple[CellRunner, float]:
    trace = workload(name)
    starts = trace.time[np.unique(trace.session, return_index=True)[1]]
    options = SimulationOptions(retention=None if retention is None else RetentionOptions.parse(retention))
    job = Job(ServerSetup(load_profile(PROFILES[profile]), options=options))
    return CellRunner(trace, job), float(np.ptp(starts)) / (len(starts) - 1) / START_GAP


def run(key: Key) -> tuple[Key, Row]:
    name, profile, level, method, seed = key
    policy, scheduler, retention = METHODS[method]
    cells, rate = runner(name, profile, retention)
    row = cells.run(Cell(policy, scheduler, LEVELS[name][level], rate, seed))
    figures = {figure: float(row[f"job_completion_{figure}"]) for figure in ("mean", "p90", "max")}
    return key, figures | {
        "fairness": float(row["job_completion_max"]) / float(row["job_completion_p50"]),
        "ttft": float(row["ttft_max"]),
        "preemptions": float(row["preemptions"]),
        "hit": float(row["token_hit"]),
    }


def results(seeds: int, jobs: int) -> dict[Key, Row]:
    """All runs that there are, the missing ones of these seeds made."""
    rows: dict[Key, Row] = {}
    if ROWS.is_file():
        for key, row in map(json.loads, ROWS.read_text().splitlines()):
            rows[tuple(key)] = row
    wanted = [
        (name, profile, level, method, seed)
        for profile, seed, level, name, method in product(
            PROFILES, range(1, seeds + 1), ("tight", "scarce", "slack"), LEVELS, METHODS
        )
    ]
    missing = [key for key in wanted if key not in rows]
    ROWS.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(jobs) as pool, ROWS.open("a") as file:
        for key, row in pool.map(run, missing):
            rows[key] = row
            file.write(json.dumps([key, row]) + "\n")
            file.flush()
    return rows


def shown(value: Confidence, places: int = 0) -> str:
    return f"{value.mean:,.{places}f}" + (f" ± {value.half_width:,.{places}f}" if value.runs > 1 else "")


def cells_of(rows: dict[Key, Row], name: str, profile: str, level: str) -> Iterator[tuple[str, ...]]:
    seeds = [
        seed
        for seed in range(1, 1 + max(key[-1] for key in rows))
        if all((name, profile, level, method, seed) in rows for method in METHODS)
    ]
    if not seeds:
        return

    def values(method: str, figure: str) -> list[float]:
        return [rows[name, profile, level, method, seed][figure] for seed in seeds]

    for method in METHODS:
        pairs = zip(values(method, "mean"), values(BASE, "mean"), strict=True)
        change = confidence([100 * (ours / base - 1) for ours, base in pairs])
        yield (
            f"{name}, {profile}, {level} ({len(seeds)})",
            method,
            shown(confidence(values(method, "mean"))),
            "" if method == BASE else f"{shown(change, 1)} %",
            shown(confidence(values(method, "p90"))),
            f"{fmean(values(method, 'max')):,.0f}",
            f"{fmean(values(method, 'fairness')):.1f}",
            f"{fmean(values(method, 'ttft')):,.0f} ({fmean(values(method, 'ttft')) / fmean(values(BASE, 'ttft')):.2f})",
            f"{fmean(values(method, 'preemptions')):.1f}",
            f"{100 * fmean(values(method, 'hit')):.0f} %",
        )


def tables(rows: dict[Key, Row]) -> str:
    head = (
        "workload, model, memory (seeds)", "method", "job completion, s", "of lru, fifo", "p90, s", "max, s",
        "max ÷ median",
        "TTFT max, s (of lru, fifo)", "preemptions", "token hit",
    )  # fmt: skip
    cells = product(LEVELS, PROFILES, ("slack", "tight", "scarce"))
    return table(head, [row for cell in cells for row in cells_of(rows, *cell)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    text = tables(results(asked.seeds, asked.jobs))
    marked = re.compile(r"(<!-- experiments -->\n).*?(<!-- end of experiments -->)", re.DOTALL)
    PAGE.write_text(marked.sub(lambda match: f"{match[1]}{text}\n{match[2]}", PAGE.read_text()))
    print(text)


if __name__ == "__main__":
    main()
