"""Making the requests of a trace: their keys, and what the server knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvopt import _core

if TYPE_CHECKING:
    from kvopt.simulator.threads import Threads
    from kvopt.workload.base import Trace

ANSWERS = ("reused", "private")
"""Whether the blocks of an answer can be hit by the request that follows in the session, or by nobody."""


class RequestSource:
    """The requests of a trace, each made when it is sent; `native` makes them.

    Answers. A trace names the blocks of prompts only. Where the next request of the same session repeats the whole
    prompt and is long enough to hold the answer too, its blocks after the prompt are taken as the answer's, so that it
    hits them, as in a server that keeps what it generated. All other answers get keys of their own.
    """

    def __init__(
        self, trace: Trace, threads: Threads, answers: str = "reused", priorities: NDArray[np.int64] | None = None
    ) -> None:
        self._follower: list[int] = threads.follower.tolist()
        self._thread = list(range(trace.requests))
        for request, follower in enumerate(self._follower):
            if follower >= 0:
                self._thread[follower] = self._thread[request]
        columns = {
            "prompt_tokens": np.maximum(trace.input_tokens, 1),
            "output_tokens": np.maximum(trace.output_tokens, 1),
            "follower": threads.follower,
            "session": threads.session,
            "priority": trace.subagent.astype(np.int64) if priorities is None else priorities,
            "trace_session": trace.session,
            "turn": trace.turn,
            "tool": trace.tool,
            "steps": trace.steps,
            "gap": np.nan_to_num(trace.gap, nan=-1.0),
            "return_probability": np.nan_to_num(trace.return_probability, nan=-1.0),
            "stop": trace.stop,
            "subagent": trace.subagent,
        }
        self.native = _core.RequestSource(
            trace.prefix, columns, block_tokens=trace.block_tokens, answers_reused=answers == "reused"
        )

    def make(self, request: int, arrival: float, session_arrival: float) -> _core.Request:
        """The request as it comes to the server at `arrival` (seconds)."""
        return self.native.make(request, arrival, session_arrival)

    def thread(self, request: int) -> int:
        """The first request of its thread, which is a session's main one or a sub-agent's."""
        return self._thread[request]

    def is_last_turn(self, request: int) -> bool:
        """Whether nothing follows in its thread."""
        return self._follower[request] < 0
