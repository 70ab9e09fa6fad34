"""A request on its way through the server, and the plain queue of those that wait."""

from __future__ import annotations

import enum

from kvopt._core import Request, RequestQueue

__all__ = ["Request", "RequestQueue", "RequestState"]


class RequestState(enum.Enum):
    """Where a request stands; the names are those of vLLM's RequestStatus. The core has them in this order."""

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
