"""Program-level first come, first served: a session that came earlier goes before one that came later."""

from __future__ import annotations

from kvopt.scheduler.base import OrderedScheduler
from kvopt.scheduler.request import Request


class ProgramScheduler(OrderedScheduler):
    """By the arrival of the session's first request, then by the request's own.

    The waiting order of Continuum (arXiv 2511.02230) without its pinned group: a later turn does not queue behind
    sessions that began after its own.
    """

    def rank(self, request: Request) -> tuple[float, float, int]:
        """Return the arrivals of session and request, and the id."""
        return request.session_arrival, request.arrival, request.id
