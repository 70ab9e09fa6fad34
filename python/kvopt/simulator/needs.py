"""What a policy needs to know of requests, and whether a trace knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvopt import _core

if TYPE_CHECKING:
    from kvopt.simulator.policy_source import PolicyLike
    from kvopt.workload.base import Trace


def unmet_needs(trace: Trace, policy: PolicyLike) -> list[str]:
    """What `policy` is nothing without and `trace` knows of no request, as names of PolicyInfo.needs."""
    if not isinstance(policy, str):
        return []
    name, _ = _core.parse_policy(policy)
    needs = next(info.needs for info in _core.policies() if info.name == name)
    return [need for need in needs if not _is_known(getattr(trace, need, None))]


def _is_known(column: NDArray[Any] | None) -> bool:
    if not isinstance(column, np.ndarray):
        return False
    if column.dtype.kind == "f":
        return bool(np.isfinite(column).any())
    return bool((column > 0).any() or (column.dtype.kind == "i" and (column == 0).any()))
