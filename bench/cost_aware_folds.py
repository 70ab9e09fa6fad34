"""Whether cost-aware's defaults are fitted to the recorded sessions: tuned on four fifths, measured on the rest.

    python bench/cost_aware_folds.py [--folds 5]

The 400 agent sessions are dealt into folds. For each fold settings are chosen for the mean share of prefill cost saved
on the other folds, one parameter after the other among a few values, and then measured on the fold, beside the
defaults. Capacities shrink with the share of the sessions, and so a request may fit none: those are skipped.
"""

from __future__ import annotations

import argparse
import sys
from statistics import fmean

import numpy as np
import pytest
from cost_aware_ablations import POLICY, parameters
from report import table
from traces import load

from kvopt.simulator import replay
from kvopt.workload import Trace, take_sessions

CAPACITIES = (10_000, 30_000, 60_000, 120_000)
VALUES = {
    "shrinkage": (5, 15, 45, 135),
    "forgetting": (0.9, 0.97, 0.99),
    "ghosts": (0, 1, 4),
    "cost": (0, 1, 2),
    "horizon": (0, 1),
}
"""What is tried of each parameter; those that the policy lacks are left out."""


def spec(settings: dict[str, float]) -> str:
    chosen = ",".join(f"{name}={value:g}" for name, value in settings.items())
    return f"{POLICY}:{chosen}" if chosen else POLICY


def tuned(trace: Trace, capacities: list[int]) -> tuple[dict[str, float], int]:
    """Settings by coordinate search from the defaults, and how many were tried."""
    defaults = {parameter.name: parameter.default for parameter in parameters()}
    best: dict[str, float] = {name: defaults[name] for name in VALUES if name in defaults}
    known: dict[str, float] = {}
    for name in best:
        tried = [best | {name: value} for value in VALUES[name]]
        missing = [spec(settings) for settings in (best, *tried) if spec(settings) not in known]
        if missing:
            result = replay(trace, missing, capacities)
            for policy in missing:
                known[policy] = fmean(result.row(policy, capacity).cost_saved for capacity in capacities)
        best = max((best, *tried), key=lambda settings: known[spec(settings)])
    return {name: value for name, value in best.items() if value != defaults[name]}, len(known)


def fold_table(trace: Trace, folds: int) -> tuple[str, str]:
    sessions = np.random.default_rng(1).permutation(np.unique(trace.session))
    rows: list[tuple[str, ...]] = []
    chosen: list[tuple[str, ...]] = []
    gains: dict[str, list[float]] = {"default": [], "tuned": []}
    for number, fold in enumerate(np.array_split(sessions, folds), start=1):
        share = len(fold) / len(sessions)
        rest = take_sessions(trace, np.setdiff1d(sessions, fold), name=f"all but fold {number}")
        settings, tried = tuned(rest, [round(capacity * (1 - share)) for capacity in CAPACITIES])
        chosen.append((str(number), spec(settings).partition(":")[2] or "the defaults", str(tried)))
        policies = {"lru": "lru", "default": POLICY, "tuned": spec(settings), "min": "min"}
        capacities = [round(capacity * share) for capacity in CAPACITIES]
        result = replay(take_sessions(trace, fold), list(dict.fromkeys(policies.values())), capacities)
        for capacity in capacities:
            row = {what: result.row(policy, capacity) for what, policy in policies.items()}
            saved = {what: 100 * each.cost_saved for what, each in row.items()}
            for what, kept in gains.items():
                kept.append(saved[what] - saved["lru"])
            skipped = f"{row['lru'].skipped / row['lru'].requests:.0%}"
            rows.append(
                (
                    str(number),
                    f"{capacity:,}",
                    skipped,
                    *(f"{saved[what]:.2f}%" for what in policies),
                    f"{saved['tuned'] - saved['default']:+.2f}",
                )
            )
    mean = {what: f"+{fmean(kept):.2f}" for what, kept in gains.items()}
    rows.append(
        (
            "mean over lru",
            "",
            "",
            "",
            mean["default"],
            mean["tuned"],
            "",
            f"{fmean(gains['tuned']) - fmean(gains['default']):+.2f}",
        )
    )
    head = ("fold", "blocks", "skipped", "lru", "default", "tuned", "min", "tuned − default")
    return table(("fold", "chosen on the other folds", "tried"), chosen), table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folds", type=int, default=5, choices=range(2, 11), metavar="2..10")
    folds: int = parser.parse_args().folds
    for text in fold_table(load("agentic-400"), folds):
        print(text)


if __name__ == "__main__":
    try:
        main()
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
