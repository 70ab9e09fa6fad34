"""A request on its way through the server, and the plain queue of those that wait."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvopt._core import Allocation


class RequestState(enum.Enum):
    """Where a request stands; the names are those of vLLM's RequestStatus."""

    WAITING = "waiting"
    WAITING_FOR_REMOTE_KVS = "waiting for remote kvs"
    """Its blocks are on their way from another tier."""
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED_STOPPED = "stopped"
    FINISHED_LENGTH_CAPPED = "length"
    FINISHED_ABORTED = "aborted"
    FINISHED_IGNORED = "ignored"
    """Refused at once: it is larger than the cache."""

    @property
    def finished(self) -> bool:
        """Whether nothing more happens to the request."""
        return self in _FINISHED


_FINISHED = frozenset(state for state in RequestState if state.name.startswith("FINISHED"))


@dataclass(slots=True, eq=False)
class Request:
    """One request. The simulator owns the fields below `state`; a scheduler reads all and changes none."""

    id: int
    """Its place in the trace."""
    session: int
    """Number of the session; the simulator numbers requests without one by themselves."""
    turn: int
    prompt_tokens: int
    output_tokens: int
    """How many tokens the answer will have (a scheduler that looks at it knows the future)."""
    arrival: float
    """When it came to the server, in seconds."""
    session_arrival: float
    """When the first request of its session came."""
    keys: NDArray[np.uint64]
    """Keys of the full blocks of prompt and answer, root first."""
    prompt_keys: int = 0
    """How many leading keys are of blocks that the trace names; the rest stand for the answer alone."""
    priority: int = 0
    """The lowest goes first, as in vLLM."""
    subagent: bool = False

    state: RequestState = RequestState.WAITING
    computed: int = 0
    """Tokens in the cache when it was last scheduled, hits included."""
    generated: int = 0
    """Tokens of the answer so far (of a decoding request: when its decoding began)."""
    preemptions: int = 0
    allocation: Allocation | None = None
    order: int = -1
    """Rises with each admission: running requests are served in this order."""
    decode_step: int = -1
    """The engine step that computes its next token, when it began to decode; -1 in prefill."""
    epoch: int = 0
    held_blocks: int = 0
    loaded: int = 0
    """Of these, tokens that came from another tier."""
    lost: int = 0
    """The most tokens that it had computed when it was preempted."""
    seen: int = 0
    """Tokens of its prefix that had been computed before, by anyone, when it was admitted."""
    first_admitted: float = -1.0
    first_token: float = -1.0
    ledger: list[int] = field(default_factory=lambda: [0] * 4)
    """Tokens: hit, prefilled, decoded, thrown away by preemption."""

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values the next prefill must provide: the prompt and the answer so far."""
        return self.prompt_tokens + self.generated

    @property
    def remaining_prefill(self) -> int:
        """Tokens of its prompt and of its answer so far that are not computed."""
        return self.tokens - self.computed


class RequestQueue:
    """First come, first served, as vLLM's FCFSRequestQueue: preempted requests come back to the front."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def add(self, request: Request) -> None:
        """Put a request at the end."""
        self._requests.append(request)

    def prepend(self, request: Request) -> None:
        """Put a request at the front."""
        self._requests.appendleft(request)

    def peek(self) -> Request:
        """The request at the front. Raises IndexError when there is none."""
        return self._requests[0]

    def pop(self) -> Request:
        """Take the request at the front. Raises IndexError when there is none."""
        return self._requests.popleft()

    def remove(self, request: Request) -> None:
        """Take out a request, wherever it stands. Raises ValueError when it is not here."""
        self._requests.remove(request)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)
