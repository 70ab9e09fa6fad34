"""The figures of docs/cost-aware.md: writes its tables and draws its plot anew.

python bench/cost_aware_document.py           # all of it, some minutes
python bench/cost_aware_document.py results   # one part: results, folds, ablations or plot
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cost_aware_ablations import CAPACITIES, POLICY, ablation_table
from cost_aware_folds import fold_table
from cost_aware_plot import draw
from report import table
from traces import load

from kvopt import _core
from kvopt.simulator import ReplayResult, ReplayRow, replay, upper_bound
from kvopt.simulator.upper_bound import Metric

DOCS = Path(__file__).resolve().parents[1] / "docs"
METRICS: dict[str, Metric] = {"agentic-400": "cost_saved", "mooncake-conversation": "block_hit"}
"""What the floors of each trace are set in."""


def other_policies(trace: str) -> list[str]:
    """Every online policy but this one, as far as the trace knows what it needs."""
    workload = load(trace)
    return [
        policy.name
        for policy in _core.policies()
        if not policy.offline and policy.name not in (POLICY, "dummy") and all(map(workload.knows, policy.needs))
    ]


def best_of(result: ReplayResult, policies: list[str], capacity: int, metric: Metric) -> ReplayRow:
    return max((result.row(policy, capacity) for policy in policies), key=lambda row: float(getattr(row, metric)))


def results_of(trace: str) -> str:
    metric, capacities = METRICS[trace], CAPACITIES[trace]
    others = other_policies(trace)
    result = replay(load(trace), [*others, POLICY, f"{POLICY}:hints=0", "min"], capacities)
    bounds = upper_bound(load(trace), capacities, metric)
    rows = []
    for capacity in capacities:
        best = best_of(result, others, capacity, metric)
        shown = [result.row(policy, capacity) for policy in ("lru", f"{POLICY}:hints=0", POLICY, "min")]
        lru, *rest = (f"{100 * float(getattr(row, metric)):.1f}%" for row in shown)
        other = f"{100 * float(getattr(best, metric)):.1f}% ({best.policy})"
        rows.append((f"{capacity:,}", lru, other, *rest, f"{100 * bounds.row(metric, capacity).bound:.1f}%"))
    title = f"{trace}, {metric.replace('_', ' ')}"
    return table((title, "lru", "best other online policy", f"{POLICY}, hints=0", POLICY, "min", "bound"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "results": lambda: "\n".join(results_of(trace) for trace in METRICS),
    "folds": lambda: "\n".join(fold_table(load("agentic-400"), 5)),
    "ablations": lambda: "\n".join(ablation_table(trace) for trace in METRICS),
}


def rewritten(text: str, part: str, content: str) -> str:
    """The page with this part between its two comments."""
    pattern = re.compile(rf"(<!-- {part}: begin -->\n).*?(<!-- {part}: end -->)", re.DOTALL)
    new, found = pattern.subn(lambda match: f"{match[1]}\n{content}\n{match[2]}", text)
    if found != 1:
        sys.exit(f"docs/cost-aware.md has {found} places for {part}")
    return new


def main(asked: list[str]) -> None:
    unknown = set(asked) - PARTS.keys() - {"plot"}
    if unknown:
        sys.exit(f"unknown part {min(unknown)!r}: {', '.join(PARTS)} or plot")
    page = DOCS / "cost-aware.md"
    for part, content in PARTS.items():
        if not asked or part in asked:
            page.write_text(rewritten(page.read_text(encoding="utf-8"), part, content()), encoding="utf-8")
            print(f"wrote the {part}")
    if not asked or "plot" in asked:
        draw(load("agentic-400"), DOCS / "cost-aware.svg")
        print("drew the plot")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
