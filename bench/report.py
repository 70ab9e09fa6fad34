"""Print the figures of a benchmark run as Markdown tables: ``python bench/report.py build/bench.json``.

Several files are taken as parts of one run. Ratios compare medians. "spread" is how far the median lies above the
fastest round: what the machine was busy with besides.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

FROM_IDS = "kvopt, tree built too"


@dataclass(frozen=True, slots=True)
class Speed:
    """One row of the replay table: seconds for all references."""

    engine: str
    rule: str
    references: int
    fastest: float
    median: float

    @property
    def millions(self) -> str:
        return f"{self.references / self.median / 1e6:,.1f}"

    @property
    def spread(self) -> str:
        return f"{self.median / self.fastest - 1:.0%}"


def replay_tables(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    groups: dict[tuple[str, str, int], list[Speed]] = {}
    for info, stats in of_question(benchmarks, "replay"):
        rows = groups.setdefault((info["trace"], info["policy"], info["capacity"]), [])
        alone = info.get("alone_seconds")
        engine = info["engine"] + (", whole program" if alone else "")
        rows.append(Speed(engine, info["rule"], info["references"], stats["min"], stats["median"]))
        if alone and min(alone) > 0:  # else it took less than two runs of the program differ by
            name = f"{info['engine']}, replay alone"
            rows.append(Speed(name, info["rule"], info["references"], min(alone), median(alone)))
    for (trace, policy, capacity), rows in groups.items():
        ours = {row.engine: row for row in rows if row.engine.startswith("kvopt")}
        yield f"### {policy} on {trace}, {capacity:,} blocks: CPU time on one thread\n"
        yield table(
            ("engine", "KVopt is faster by", "M references/s", "spread", "rule"),
            ((row.engine, ratio(row, ours), row.millions, row.spread, row.rule) for row in ordered(rows)),
        )


def ordered(rows: list[Speed]) -> list[Speed]:
    return sorted(rows, key=lambda row: (not row.engine.startswith("kvopt"), row.median))


def ratio(row: Speed, ours: dict[str, Speed]) -> str:
    """Like with like: a program that builds its tree from ids against KVopt doing so."""
    if row.engine in ours or "kvopt" not in ours:
        return ""
    like = ours.get(FROM_IDS, ours["kvopt"]) if row.engine.endswith("whole program") else ours["kvopt"]
    return f"{row.median / like.median:,.1f} ×"


def capacity_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    cells: dict[str, dict[int, tuple[float, float]]] = {}
    for info, stats in of_question(benchmarks, "capacity"):
        speed = info["references"] / 1e6
        alone = speed / (stats["min"] - info["pool_seconds"])
        cells.setdefault(info["trace"], {})[info["capacity"]] = (alone, speed / stats["min"])
    if not cells:
        return
    capacities = sorted({capacity for row in cells.values() for capacity in row})
    yield "### LRU by capacity, M references/s, fastest round: the replay alone (with making the pool)\n"
    yield table(
        ("trace", *(f"{capacity:,}" for capacity in capacities), "fastest / slowest"),
        (
            (trace, *(f"{row[c][0]:,.0f} ({row[c][1]:,.0f})" for c in capacities), spread_of(row.values()))
            for trace, row in cells.items()
        ),
    )


def spread_of(speeds: Iterable[tuple[float, float]]) -> str:
    alone, whole = zip(*speeds, strict=True)
    return f"{max(alone) / min(alone):.2f} × ({max(whole) / min(whole):.2f} ×)"


def pool_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    rows = []
    preempted = 0
    for info, _ in of_question(benchmarks, "pool"):
        blocks = info["blocks"]
        preempted += info["preempted"]
        for call, t in info["calls"].items():
            each = (
                tuple(f"{t[key] / blocks:,.1f}" for key in ("p50", "p99", "max"))
                if call != "match nothing"
                else ("",) * 3
            )
            rows.append(
                (
                    info["policy"],
                    f"{info['pool']:,}",
                    f"{blocks:,}",
                    call,
                    *each,
                    *(f"{t[k] / 1e3:,.1f}" for k in ("p50", "p99", "max")),
                )
            )
    if rows:
        yield f"### Single calls of the pool through Python ({preempted} preempted calls left out)\n"
        head = ("policy", "pool", "request", "call", "ns/block p50", "p99", "max", "µs/call p50", "p99", "max")
        yield table(head, rows)


def interface_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    """Of the core itself by the block, and what the C interface and the Python binding add to a call, at the median."""
    rows = []
    for info, _ in of_question(benchmarks, "interfaces"):
        core = info["calls"]["C++"]
        for call in (name for name in info["calls"]["Python"] if name != "match nothing"):
            alone = core[call]
            added = (info["calls"][interface][call]["p50"] - alone["p50"] for interface in ("C", "Python"))
            rows.append(
                (
                    f"{info['pool']:,}",
                    f"{info['blocks']:,}",
                    call,
                    *(f"{alone[key] / info['blocks']:,.2f}" for key in ("p50", "p99")),
                    *(f"{extra:+,.0f}" for extra in added),
                )
            )
    if rows:
        yield "### Single calls of the pool without Python, and what other interfaces add\n"
        head = ("pool", "request", "call", "C++, ns/block p50", "p99", "C adds, ns/call", "Python adds, ns/call")
        yield table(head, rows)


def stall_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (info["trace"], info["policy"], hook, *(f"{t[key] / 1e3:,.2f}" for key in ("p50", "p999", "max")))
        for info, _ in of_question(benchmarks, "stalls")
        for hook, t in info["calls"].items()
    ]
    if rows:
        yield "### Single hooks of a policy over a replay, µs of CPU time\n"
        yield table(("trace", "policy", "hook", "p50", "p99.9", "max"), rows)


def memory_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    rows = []
    for info, _ in of_question(benchmarks, "replay memory"):
        what = f"peak of reading and replaying {info['trace']}, {info['form']}"
        rows.append((what, f"{info['peak'] / 1e6:.0f} MB", f"{info['before'] / 1e6:.0f} MB with nothing but imports"))
    for info, _ in of_question(benchmarks, "pool memory"):
        content = {"agents": "agents’ chains", "scattered": "prompts of one block"}[info["load"]]
        what = f"pool of {info['pool']:,} blocks full of {content}"
        size = f"{info['full_pool'] / info['pool']:.1f} bytes/block"
        rows.append((what, size, f"{info['stated_bytes'] / info['pool']:.1f} by its own account, at worst"))
    for info, stats in of_question(benchmarks, "load"):
        what = f"loading {info['trace']}, {info['form']} ({info['file_bytes'] / 1e6:.2f} MB)"
        speed = f"{info['references'] / stats['median'] / 1e6:,.1f} M references/s"
        rows.append((what, f"{stats['median'] * 1e3:,.0f} ms", speed))
    if rows:
        yield "### Memory and loading\n"
        yield table(("what", "figure", "note"), rows)


def simulate_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    rows = []
    for info, stats in of_question(benchmarks, "simulate"):
        beside = ""
        if peer := info.get("mocker_seconds"):
            ratios = [theirs / ours for theirs, ours in zip(peer, info["ours_seconds"], strict=True)]
            beside = f"{median(ratios):.1f} × Dynamo's mocker ({min(ratios):.1f} to {max(ratios):.1f})"
        speed = f"{info['requests'] / stats['median']:,.0f}"
        rows.append((info["trace"], f"{stats['median']:.2f} s", speed, beside))
    if rows:
        yield "### The timed simulator\n"
        yield table(("trace", "run", "requests/s", "beside"), rows)


def scoring_table(benchmarks: list[dict[str, Any]]) -> Iterator[str]:
    engines: dict[str, dict[str, float]] = {}
    size: dict[str, tuple[int, int]] = {}
    for info, stats in of_question(benchmarks, "scoring"):
        engines.setdefault(info["score"], {})[info["engine"]] = stats["min"]
        size[info["score"]] = (info["blocks"], info["bytes"])
    if not engines:
        return
    yield "### Scoring blocks, one thread, CPU time of the fastest round; peers: how many times KVopt's time\n"
    peers = ("numpy", "numpy float32", "torch", "torch float32")
    head = (
        "score",
        "blocks",
        "ns/block",
        "GB/s read",
        "of a plain read",
        "with what it writes",
        "out= not given",
        "fused choice",
        "fused, of a plain read",
        "fused choice of 1%",
        *peers,
    )
    rows = []
    for score, seconds in engines.items():
        blocks, read = size[score]
        ours, fused = seconds["kvopt"], seconds["fused"]
        beside = (f"{seconds[peer] / ours:,.1f} ×" if peer in seconds else "–" for peer in peers)
        of_read = seconds["read"] / ours
        speed = (f"{ours / blocks * 1e9:,.2f}", f"{read / ours / 1e9:,.1f}", f"{of_read:.0%}")
        moved = (f"{of_read * (read + 4 * blocks) / read:.0%}", f"{seconds['unallocated'] / ours:.2f} ×")
        choice = (f"{fused / ours:.2f} ×", f"{seconds['read'] / fused:.0%}", f"{seconds['fused 1%'] / ours:.2f} ×")
        row = (score, f"{blocks:,}", *speed, *moved, *choice, *beside)
        rows.append(row)
    yield table(head, rows)


def of_question(benchmarks: list[dict[str, Any]], question: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for benchmark in benchmarks:
        if benchmark["extra_info"].get("question") == question:
            yield benchmark["extra_info"], benchmark["stats"]


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) + ("---:",) * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(paths: list[str]) -> None:
    benchmarks = [benchmark for path in paths for benchmark in json.loads(Path(path).read_text())["benchmarks"]]
    sections: list[Callable[[list[dict[str, Any]]], Iterator[str]]] = [
        replay_tables,
        capacity_table,
        pool_table,
        interface_table,
        stall_table,
        memory_table,
        simulate_table,
        scoring_table,
    ]
    for section in sections:
        for text in section(benchmarks):
            print(text)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python bench/report.py FILE.json ... (from pytest --benchmark-json)")
    main(sys.argv[1:])
