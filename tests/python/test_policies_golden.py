"""Every built-in policy misses exactly what it did before; golden_policies.py writes the numbers anew."""

from __future__ import annotations

import json

import pytest

from golden_policies import CAPACITIES, FILE, RULES, Misses, golden_trace, misses_of
from kvopt import _core
from kvopt.workload import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return golden_trace()


@pytest.fixture(scope="module")
def golden() -> Misses:
    misses: Misses = json.loads(FILE.read_text())
    return misses


@pytest.mark.parametrize("policy", [policy.name for policy in _core.policies()])
def test_misses_are_the_golden_ones(policy: str, trace: Trace, golden: Misses) -> None:
    assert misses_of(policy, trace) == golden[policy], "if this is meant, run tests/python/golden_policies.py"


def test_the_golden_numbers_tell_policies_and_sizes_apart(trace: Trace, golden: Misses) -> None:
    assert set(golden) == {policy.name for policy in _core.policies()}
    assert trace.prefix.longest_request < CAPACITIES[2]
    for rule in RULES:
        assert all(rules[rule][0] > rules[rule][-1] for rules in golden.values())
        assert len({tuple(rules[rule]) for rules in golden.values()}) > 0.8 * len(golden)
