"""Collecting requests one at a time in compact columns, as readers and generators produce them."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvopt.workload.base import StopReason

_NAN = float("nan")


class RequestColumns:
    """Growing columns of a :class:`~kvopt.workload.base.Trace`, about 50 bytes a request."""

    def __init__(self) -> None:
        self._time = array("d")
        self._numbers = {
            "input_tokens": array("q"),
            "output_tokens": array("q"),
            "session": array("q"),
            "turn": array("q"),
            "stop": array("B"),
            "tool": array("i"),
            "subagent": array("B"),
        }
        self._seconds = {"gap": array("f"), "api_time": array("f")}

    def __len__(self) -> int:
        return len(self._time)

    def append(
        self,
        time: float,
        input_tokens: int,
        output_tokens: int,
        *,
        session: int = -1,
        turn: int = -1,
        stop: StopReason = StopReason.UNKNOWN,
        tool: int = -1,
        gap: float | None = None,
        subagent: bool = False,
        api_time: float | None = None,
    ) -> None:
        """Add one request; the values are checked when the trace is made."""
        self._time.append(time)
        numbers = self._numbers
        numbers["input_tokens"].append(input_tokens)
        numbers["output_tokens"].append(output_tokens)
        numbers["session"].append(session)
        numbers["turn"].append(turn)
        numbers["stop"].append(stop)
        numbers["tool"].append(tool)
        numbers["subagent"].append(subagent)
        self._seconds["gap"].append(_NAN if gap is None else gap)
        self._seconds["api_time"].append(_NAN if api_time is None else api_time)

    def column(self, name: str) -> NDArray[Any]:
        """One column in the order of appending, in its wider working type."""
        if name == "time":
            return np.array(self._time, dtype=np.float64)
        if name in self._seconds:
            return np.array(self._seconds[name], dtype=np.float32)
        return np.array(self._numbers[name])

    def finish(self, order: NDArray[np.int64] | None = None) -> dict[str, NDArray[Any]]:
        """All columns by name but the hints, in the order of appending or in ``order`` (a permutation, int64[R])."""
        columns = {name: self.column(name) for name in ("time", *self._numbers, *self._seconds)}
        columns["subagent"] = columns["subagent"].astype(np.bool_)
        if order is not None:
            columns = {name: values[order] for name, values in columns.items()}
        return columns
