"""The requests that decode: one token each and step, counted without touching each of them at each step.

All that a decoding request does is known when it begins: the steps in which it fills a block, needs another, and ends.
So a step costs the requests to which one of these happens, and steps in which nothing happens can be taken at once.
"""

from __future__ import annotations

import heapq

from kvopt.scheduler import Request


class DecodeBatch:
    """Decoding requests by engine step.

    At step d + i of a request that began at step d with N tokens known and N - 1 of them cached, token N - 1 + i is
    computed: there must be a block for it, and it may be the last in it.
    """

    def __init__(self, block_tokens: int) -> None:
        self.step = 0
        """The step to be taken next."""
        self.count = 0
        """Requests that decode."""
        self.context = 0
        """Their cached tokens before this step, added up."""
        self._block_tokens = block_tokens
        self._edges: list[tuple[int, int, int, Request]] = []
        self._ends: list[tuple[int, int, int, Request]] = []

    def join(self, request: Request) -> None:
        """Take in a request whose prefill is complete and whose answer has tokens to come."""
        request.decode_step = self.step
        self.count += 1
        self.context += request.tokens - 1
        self._plan(request, self.step)

    def leave(self, request: Request) -> None:
        """Take out a request before its end, and set its `computed` and `generated` to what they are by now."""
        computed = self.position(request)
        request.generated += self.step - request.decode_step
        request.computed = computed
        request.decode_step = -1
        request.epoch += 1
        self.count -= 1
        self.context -= computed

    def position(self, request: Request) -> int:
        """The token that a request computes in this step: how many it has cached."""
        return request.prompt_tokens + request.generated - 1 + self.step - request.decode_step

    def delay(self, request: Request) -> None:
        """Let a request sit out this step; `advance` must be told."""
        request.decode_step += 1
        request.epoch += 1
        self._plan(request, self.step + 1)

    def pop_edge(self) -> Request | None:
        """The next request, in the order of admission, that fills a block or needs another in this step."""
        edges = self._edges
        while edges and edges[0][0] <= self.step:
            _, _, epoch, request = heapq.heappop(edges)
            if request.epoch == epoch:
                return request
        return None

    def plan_edge(self, request: Request) -> None:
        """Plan the next edge of a request after that of this step."""
        position = self.position(request)
        whole = self._block_tokens
        ahead = whole - 1 - position % whole or 1
        if self.step + ahead <= self._last_step(request):
            heapq.heappush(self._edges, (self.step + ahead, request.order, request.epoch, request))

    def uneventful_steps(self) -> int:
        """Steps from this one on up to the first that ends a request, or that is before one with an edge; 1 up."""
        self._drop_stale(self._edges)
        self._drop_stale(self._ends)
        steps = self._ends[0][0] - self.step + 1 if self._ends else 1
        if self._edges:
            steps = min(steps, self._edges[0][0] - self.step)
        return max(steps, 1)

    def advance(self, steps: int, delayed: int = 0) -> None:
        """Go on by some steps; in a single one, some requests may have been delayed."""
        self.step += steps
        self.context += steps * (self.count - delayed)

    def pop_end(self) -> Request | None:
        """The next request, in the order of admission, whose answer was completed by the last step; it is taken out."""
        ends = self._ends
        while ends and ends[0][0] < self.step:
            _, _, epoch, request = heapq.heappop(ends)
            if request.epoch == epoch:
                self.leave(request)
                return request
        return None

    def _last_step(self, request: Request) -> int:
        return request.decode_step + request.output_tokens - request.generated - 1

    def _plan(self, request: Request, step: int) -> None:
        # Its end, and its first edge from a step on.
        last = self._last_step(request)
        heapq.heappush(self._ends, (last, request.order, request.epoch, request))
        whole = self._block_tokens
        position = request.prompt_tokens + request.generated - 1 + step - request.decode_step
        first = step + (0 if position % whole == 0 else whole - 1 - position % whole)
        if first <= last:
            heapq.heappush(self._edges, (first, request.order, request.epoch, request))

    @staticmethod
    def _drop_stale(heap: list[tuple[int, int, int, Request]]) -> None:
        while heap and heap[0][3].epoch != heap[0][2]:
            heapq.heappop(heap)
