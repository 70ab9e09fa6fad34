"""Making the requests of a trace: their keys, and what the server knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvopt._core import RequestInfo, StopReason
from kvopt.scheduler import Request, RequestState

if TYPE_CHECKING:
    from kvopt.simulator.threads import Threads
    from kvopt.workload.base import Trace

ANSWERS = ("reused", "private")
"""Whether the blocks of an answer can be hit by the request that follows in the session, or by nobody."""

_PRIVATE = 1 << 63  # keys of blocks that the trace does not name: this, the request, the place in it
_STATES = {
    StopReason.LENGTH: RequestState.FINISHED_LENGTH_CAPPED,
    StopReason.ABORT: RequestState.FINISHED_ABORTED,
}
_REASONS = {value: StopReason(value) for value in range(5)}


class RequestSource:
    """The requests of a trace, each made when it is sent.

    Answers. A trace names the blocks of prompts only. Where the next request of the same session repeats the whole
    prompt and is long enough to hold the answer too, its blocks after the prompt are taken as the answer's, so that it
    hits them, as in a server that keeps what it generated. All other answers get keys of their own.
    """

    def __init__(
        self, trace: Trace, threads: Threads, answers: str = "reused", priorities: NDArray[np.int64] | None = None
    ) -> None:
        self._prefix = trace.prefix
        self._block_tokens = trace.block_tokens
        self._reused = answers == "reused"
        self._prompt: list[int] = np.maximum(trace.input_tokens, 1).tolist()
        self._answer: list[int] = np.maximum(trace.output_tokens, 1).tolist()
        self._follower: list[int] = threads.follower.tolist()
        self._session = threads.session.tolist()
        self._thread = list(range(trace.requests))
        for request, follower in enumerate(self._follower):
            if follower >= 0:
                self._thread[follower] = self._thread[request]
        self._trace_session = trace.session.tolist()
        self._turn = trace.turn.tolist()
        self._tool = trace.tool.tolist()
        self._gap = np.nan_to_num(trace.gap, nan=-1.0).tolist()
        self._stop = trace.stop.tolist()
        self._subagent = trace.subagent.tolist()
        self._steps = trace.steps.tolist()
        self._chance = np.nan_to_num(trace.return_probability, nan=-1.0).tolist()
        self._priority = (trace.subagent.astype(np.int64) if priorities is None else priorities).tolist()

    def make(self, request: int, arrival: float, session_arrival: float) -> Request:
        """The request as it comes to the server at `arrival` (seconds)."""
        keys, named = self._keys(request)
        return Request(
            id=request,
            session=self._session[request],
            turn=self._turn[request],
            prompt_tokens=self._prompt[request],
            output_tokens=self._answer[request],
            arrival=arrival,
            session_arrival=session_arrival,
            keys=keys,
            prompt_keys=named,
            priority=self._priority[request],
            subagent=self._subagent[request],
        )

    def thread(self, request: int) -> int:
        """The first request of its thread, which is a session's main one or a sub-agent's."""
        return self._thread[request]

    def is_last_turn(self, request: int) -> bool:
        """Whether nothing follows in its thread."""
        return self._follower[request] < 0

    def info(self, request: int, now: float) -> RequestInfo:
        """What the server knows while the request runs."""
        return RequestInfo(now, **self._facts(request))

    def info_at_end(self, request: int, now: float, output_tokens: int, aborted: bool) -> RequestInfo:
        """What it knows once the answer has ended."""
        stop = StopReason.ABORT if aborted else _REASONS[self._stop[request]]
        return RequestInfo(
            now, **self._facts(request), tool=self._tool[request], output_tokens=output_tokens, stop=stop
        )

    def final_state(self, request: int) -> RequestState:
        """How the trace says that the answer ended."""
        return _STATES.get(_REASONS[self._stop[request]], RequestState.FINISHED_STOPPED)

    def blocks_needed(self, request: int) -> int:
        """Blocks at the end of the answer; its last token is never computed."""
        return -(-(self._prompt[request] + self._answer[request] - 1) // self._block_tokens)

    def _facts(self, request: int) -> dict[str, Any]:
        return {
            "request": request,
            "session": self._trace_session[request],
            "turn": self._turn[request],
            "gap": self._gap[request],
            "subagent": self._subagent[request],
            "steps": self._steps[request],
            "return_probability": self._chance[request],
        }

    def _keys(self, request: int) -> tuple[NDArray[np.uint64], int]:
        prompt = self._prompt[request] // self._block_tokens
        total = (self._prompt[request] + self._answer[request] - 1) // self._block_tokens
        named = self._prefix.chain(request)[:prompt]
        if total > len(named):
            answered = self._with_answer(request, named, prompt, total)
            if answered is not None:
                return answered.astype(np.uint64), total
        keys = np.empty(total, np.uint64)
        keys[: len(named)] = named[:total]
        if total > len(named):
            keys[len(named) :] = np.arange(len(named), total, dtype=np.uint64) + np.uint64(_PRIVATE + (request << 24))
        return keys, min(len(named), total)

    def _with_answer(
        self, request: int, named: NDArray[np.uint32], prompt: int, total: int
    ) -> NDArray[np.uint32] | None:
        follower = self._follower[request]
        if not self._reused or follower < 0 or len(named) < prompt:
            return None
        if self._prompt[follower] < self._prompt[request] + self._answer[request]:
            return None
        chain = self._prefix.chain(follower)
        if len(chain) < total or (prompt > 0 and chain[prompt - 1] != named[prompt - 1]):
            return None
        return chain[:total]
