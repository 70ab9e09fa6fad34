"""What a policy needs to know of requests, and whether a trace knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvopt import _core
from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from kvopt.simulator.policy_source import PolicyLike
    from kvopt.workload.base import Trace


def check_needs(trace: Trace, policies: Iterable[PolicyLike]) -> None:
    """ConfigError where a policy is nothing without a hint that no request of the trace carries."""
    needs = {policy.name: policy.needs for policy in _core.policies()}
    for policy in policies:
        if not isinstance(policy, str):
            continue
        name, _ = _core.parse_policy(policy)
        for hint in needs[name]:
            if not trace.knows(hint):
                raise ConfigError(
                    f"policies: {policy} needs the hint {hint!r}, which no request of {trace.name} carries"
                )
