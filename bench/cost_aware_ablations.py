"""What each part of cost-aware is worth: every setting changed by itself, on the real traces, as markdown tables.

    python bench/cost_aware_ablations.py

Every parameter that the policy has when this runs is tried: all other values of a switch, the lowest of a range, and
the highest where that is 1. Figures are points of prefill cost saved against the default, whose own row is in percent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

import pytest
from report import table
from traces import REAL, load

from kvopt import _core
from kvopt.simulator import replay

POLICY = "cost-aware"
CAPACITIES = {
    "agentic-400": (10_000, 30_000, 60_000, 120_000, 250_000),
    "mooncake-conversation": (1_000, 5_000, 10_000, 30_000, 50_000),
}


@cache
def parameters() -> tuple[_core.PolicyParameter, ...]:
    """Those of the policy as it is now."""
    (policy,) = (policy for policy in _core.policies() if policy.name == POLICY)
    return tuple(policy.parameters)


def other_values(parameter: _core.PolicyParameter) -> Iterator[float]:
    """Values that switch a part off, or turn it as far down or up as it goes."""
    low, high = parameter.lowest, parameter.highest
    if low.is_integer() and parameter.default.is_integer() and high - low <= 2:
        values = {low + step for step in range(int(high - low) + 1)}
    else:
        values = {low} | ({high} if high <= 1 else set())
    yield from sorted(values - {parameter.default})


def specs() -> list[str]:
    changed = [f"{each.name}={value:g}" for each in parameters() for value in other_values(each)]
    return [POLICY, *(f"{POLICY}:{change}" for change in changed)]


def ablation_table(trace: str) -> str:
    capacities = CAPACITIES[trace]
    result = replay(load(trace), ["lru", "min", *specs()], capacities)
    saved = {(row.policy, row.capacity): 100 * row.cost_saved for row in result.rows}

    def difference(policy: str) -> tuple[str, ...]:
        return tuple(f"{saved[policy, capacity] - saved[POLICY, capacity]:+.2f}" for capacity in capacities)

    rows = [(f"{POLICY}, cost saved", *(f"{saved[POLICY, capacity]:.2f}%" for capacity in capacities))]
    rows += [(policy.removeprefix(f"{POLICY}:"), *difference(policy)) for policy in (*specs()[1:], "lru", "min")]
    return table((trace, *(f"{capacity:,}" for capacity in capacities)), rows)


def main() -> None:
    for trace in reversed(REAL):
        print(ablation_table(trace))


if __name__ == "__main__":
    try:
        main()
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
