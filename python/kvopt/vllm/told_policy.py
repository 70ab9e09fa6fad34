"""What vLLM's pools tell the policy that chooses their victims, whichever pool holds the blocks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kvopt._core import EnginePool, RequestInfo

logger = logging.getLogger("vllm.kvopt")


class ToldPolicy:
    """Mixed into a block pool: passes on what is known of a request, and says once when the policy failed.

    Attributes:
        info_of: what is known of a request of vLLM; None: nothing is. It must not raise.
    """

    info_of: Callable[[Any], RequestInfo] | None

    def _tell(self, order: EnginePool) -> None:
        self.info_of = None
        self._order = order
        self._decides = order.runs is not None
        self._missed: bytes | None = None
        self._told_failure = False

    @property
    def request_info(self) -> RequestInfo:
        """What is known of the request that the next calls are for: set it before a request is scheduled or freed."""
        return self._order.request_info

    @request_info.setter
    def request_info(self, info: RequestInfo) -> None:
        self._order.request_info = info

    def works_for(self, request: Any) -> None:
        """Tell the policy which request of vLLM the next calls are for."""
        if self._decides and self.info_of is not None:
            self._order.request_info = self.info_of(request)

    @property
    def learns(self) -> bool:
        """Whether what the policy learns can be saved and loaded."""
        return self._order.learns

    def save_learned(self) -> bytes:
        """What the policy has learned. Raises PolicyStateError when it learns nothing or has failed."""
        return self._order.save_state()

    def load_learned(self, state: bytes) -> None:
        """Go on from what was learned elsewhere, before the first request. Raises PolicyStateError."""
        self._order.load_state(state)

    def expect_miss(self, key: bytes | None) -> None:
        """Note what a request looked up and did not find; the policy hears of it when room is made for the request."""
        self._missed = key

    @property
    def failure(self) -> str:
        """What went wrong in the policy; from then on LRU decides. Empty: nothing did."""
        return self._order.failure

    @property
    def saved_and_lru(self) -> tuple[float, float, bool] | None:
        """Prefill saved by hits, what LRU's would have, in tokens, and whether LRU's order is used; None: not known."""
        return self._order.saved_and_lru

    @property
    def decision_seconds(self) -> float:
        """Time spent on the policy so far, in seconds."""
        return self._order.decision_seconds

    def _tell_miss(self) -> None:
        if self._missed is not None:
            self._order.note_miss(self._missed)
            self._missed = None

    def _say_failure(self) -> None:
        if not self._told_failure and self._order.failure:
            self._told_failure = True
            logger.error("KVopt: the policy failed, LRU decides from now on: %s", self._order.failure)
