"""The scheduler's life cycle as events: what the mixin calls at vLLM's own turning points, and who is told.

Nothing here raises into the scheduler: an observer that fails is counted, named in one log line, and asked again next
time. Cost: O(1) a request and event; a step makes one event whatever runs in it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kvopt.policies import RequestInfo, StopReason
from kvopt.vllm import observation as seen
from kvopt.vllm.config import Config
from kvopt.vllm.observation import RequestView
from kvopt.vllm.sessions import SessionTable

logger = logging.getLogger("vllm.kvopt")

Observer = Callable[[seen.Event], object]


class Hooks:
    """The observers of one scheduler.

    Attributes:
        errors: what observers raised, counted by observer.
        hint_errors: client records that could not be read.
        requests: what is known of each request that the engine has, by id.
        tool_call_tokens: how many token ids tell a tool call.
        count_blocks: tells, once a step, of the blocks that a pool counted by itself; None without such a pool.
    """

    def __init__(
        self,
        config: Config,
        block_tokens: int,
        tool_call_ids: frozenset[int] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.errors: Counter[str] = Counter()
        self.hint_errors = 0
        self.count_blocks: Callable[[], None] | None = None
        self.requests: dict[str, RequestView] = {}
        self.sessions = SessionTable()
        self._config = config
        self._block_tokens = block_tokens
        self._tool_call_ids = tool_call_ids
        self.tool_call_tokens = len(tool_call_ids)
        self._observers: list[tuple[str, Observer]] = []
        self._last_lookup: dict[str, int] = {}
        self._seconds = 0.0

    def add_observer(self, name: str, observer: Observer) -> None:
        """Tell `observer` of every event from now on; `name` stands in the log and in metrics."""
        self._observers.append((name, observer))

    def emit(self, event: seen.Event) -> None:
        """Tell all observers."""
        for name, observer in self._observers:
            try:
                observer(event)
            except Exception as error:
                self._failed(name, error)

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """Count what the block raises, say so once a name, and go on."""
        try:
            yield
        except Exception as error:
            self._failed(name, error)

    def take_decision_seconds(self) -> float:
        """Time spent in hooks since the last call, in seconds."""
        taken, self._seconds = self._seconds, 0.0
        return taken

    def note_bad_record(self, why: str) -> None:
        """Count a client's record that cannot be read in whole or part, and say so once."""
        self.hint_errors += 1
        if self.hint_errors == 1:
            logger.warning("KVopt: a client's record cannot be read, and is left out: %s", why[:500])

    def arrived(self, request: Any) -> None:
        """A request of vLLM was added; a further part of a streaming one tells nothing new."""
        if request.request_id in self.requests:
            return
        now = self.clock()
        hashes = request.block_hashes
        name = seen.session_name(request)
        place = self.sessions.arrive(name, hashes, now)
        view = RequestView(
            request_id=request.request_id,
            session=place.session,
            session_name=name,
            turn=place.turn,
            arrival=now,
            prompt_tokens=request.num_prompt_tokens,
            gap=place.gap,
            client=self._client(request),
            priority=getattr(request, "priority", 0),
        )
        self.requests[request.request_id] = view
        full = request.num_prompt_tokens // self._block_tokens
        self.emit(seen.Arrived(now, view, hashes[:full], self._block_tokens))
        self._spent(now)

    def looked_up(self, request: Any, hit_tokens: int) -> None:
        """The prefix cache was asked for a waiting request; a blocked one is asked for in every step."""
        request_id = request.request_id
        if self._last_lookup.get(request_id) == hit_tokens or request_id not in self.requests:
            return
        self._last_lookup[request_id] = hit_tokens
        self.emit(seen.LookedUp(self.clock(), self.requests[request_id], hit_tokens))

    def scheduled(self, output: Any, running: int, waiting: int) -> None:
        """A step was scheduled."""
        now = self.clock()
        admitted = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        if resumed := cached.resumed_req_ids:
            computed = zip(cached.req_ids, cached.num_computed_tokens, strict=True)
            admitted |= {request_id: tokens for request_id, tokens in computed if request_id in resumed}
        if admitted:
            for request_id in output.num_scheduled_tokens:  # in the order of admission
                if request_id in admitted:
                    self._admitted(request_id, admitted[request_id], now)
        if self.count_blocks is not None:
            self.count_blocks()
        self.emit(seen.Stepped(now, output.total_num_scheduled_tokens, running, waiting))
        self._spent(now)

    def preempted(self, request: Any) -> None:
        """A running request is about to lose its blocks."""
        view = self.requests.get(request.request_id)
        if view is not None:
            view.preemptions += 1
            self._last_lookup.pop(request.request_id, None)
            self.emit(seen.Preempted(self.clock(), view))

    def finished(self, request: Any) -> None:
        """A request ended, and still holds its blocks."""
        view = self.requests.get(request.request_id)
        if view is None:
            return
        now = self.clock()
        stop = seen.stop_reason(request, self._tool_call_ids)
        kind = seen.Aborted if stop == StopReason.ABORT else seen.Finished
        self.sessions.finish(view.session, request.block_hashes, now)
        self._last_lookup.pop(request.request_id, None)
        view.info = self._new_info(view, stop, request.num_output_tokens)
        self.emit(kind(now, view, stop, request.num_output_tokens))
        self._spent(now)

    def released(self, request: Any) -> None:
        """A finished request's blocks go back to the pool now."""
        view = self.requests.pop(request.request_id, None)
        if view is not None:
            self.emit(seen.Released(self.clock(), view))

    def reset(self, done: bool) -> None:
        """The prefix cache was asked to be cleared."""
        self._last_lookup.clear()
        self.emit(seen.Reset(self.clock(), done))

    def info(self, request: Any) -> RequestInfo:
        """What a policy is told of a request; made anew only when the request has ended."""
        view = self.requests.get(request.request_id)
        if view is None:
            return RequestInfo(0.0)
        if view.info is None:
            view.info = self._new_info(view)
        return view.info

    def _new_info(
        self, view: RequestView, stop: StopReason = StopReason.UNKNOWN, output_tokens: int = 0
    ) -> RequestInfo:
        gap = view.client.get("expected_gap")
        return RequestInfo(
            view.arrival,
            session=view.session,
            turn=view.turn,
            output_tokens=output_tokens,
            gap=-1.0 if view.gap is None else view.gap,
            expected_gap=float(gap) if isinstance(gap, int | float) and 0 <= gap < 1e6 else -1.0,
            stop=stop,
            last_turn=view.client.get("last_turn") is True,
        )

    def _admitted(self, request_id: str, computed: int, now: float) -> None:
        view = self.requests.get(request_id)
        if view is None:
            return
        resumed = view.hit_tokens >= 0
        if not resumed:
            view.hit_tokens = computed
        self._last_lookup.pop(request_id, None)
        self.emit(seen.Scheduled(now, view, computed, resumed))

    def _client(self, request: Any) -> dict[str, Any]:
        if not self._config.hints:
            return {}
        try:
            return seen.client_fields(request)
        except Exception as error:
            self.note_bad_record(str(error))
            return {}

    def _failed(self, name: str, error: Exception) -> None:
        self.errors[name] += 1
        if self.errors[name] == 1:
            logger.error("KVopt: %s failed, and is left out for this event: %s", name, error, exc_info=error)

    def _spent(self, since: float) -> None:
        self._seconds += self.clock() - since
