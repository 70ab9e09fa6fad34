"""Continuum's coordinator on a live scheduler: who is protected while idle, and who gives way before anybody waits.

The coordinator hears the life cycle's events; its leases are references on vLLM's blocks, taken while the request that
ends still holds them. They end when the session returns, on abort, on a reset of the cache (sleep and pause with a
cleared cache are resets), at their deadline, which is looked at before each step, and, the least valuable first, when
vLLM finds no blocks: before it preempts or refuses anybody.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from kvopt.continuum import ClientRecord, ContinuumOptions, Coordinator, LossOfTokens, parse_record
from kvopt.cost import PrefillCost
from kvopt.vllm import observation as seen
from kvopt.vllm.config import Config
from kvopt.vllm.hooks import Hooks
from kvopt.vllm.protected_pool import VllmProtectedPool

_ASSUMED = PrefillCost(8.0, 0.03, 0.0, 1e-6, "assumed: about 8 billion parameters on one H100")
"""Where the configuration has none."""

SOME_TOOL = "(some tool)"
"""Stands for the tool of an answer that calls one, where the client does not name it: no text is parsed."""


class Retention:
    """The coordinator of one scheduler; see the module.

    Attributes:
        coordinator: Continuum's.
        pool: the blocks that it protects.
    """

    def __init__(self, config: Config, manager: Any, hooks: Hooks, block_tokens: int) -> None:
        self._manager = manager
        self._hooks = hooks
        self._block_tokens = block_tokens
        self.pool = VllmProtectedPool(manager, config.lease_share, config.policy)
        rule = f"fixed:seconds={config.retention_ttl}" if config.retention == "fixed" else config.retention
        options = ContinuumOptions(
            ttl=rule,
            leases="scarce" if self.pool.lease_budget else "never",
            block_tokens=block_tokens,
            ageing=config.ageing,
        )
        self.coordinator = Coordinator(self.pool, LossOfTokens(config.prefill or _ASSUMED), options)
        self._ordered = config.order != "vllm"
        self._running: set[str] = set()
        self._watch_allocation()

    def observe(self, event: seen.Event) -> None:
        """Pass the event on to the coordinator."""
        if isinstance(event, seen.Arrived):
            view = event.request
            self.coordinator.arrival(view.request_id, event.now, self._record(view), blocks=self._blocks(view))
        elif isinstance(event, seen.Scheduled):
            request_id = event.request.request_id
            hit = event.hit_tokens // self._block_tokens
            if hit:
                handle = self.pool.handle_of(self._manager, request_id)
                self.pool.hit((block for group in handle for block in group[:hit]), event.now)
            self.coordinator.hit(request_id, event.now, hit)
            self.coordinator.scheduled(request_id, event.now)
            self._running.add(request_id)
        elif isinstance(event, seen.Preempted):
            self._running.discard(event.request.request_id)
            self.coordinator.preempted(event.request.request_id, event.now)
        elif isinstance(event, seen.Finished):
            self._ended(event)
        elif isinstance(event, seen.Reset) and event.done:
            self.pool.forget()

    def before_step(self, now: float) -> None:
        """End what is due."""
        self.pool.expire(now)
        self.coordinator.demand(now, self.pool.available())
        self.coordinator.tick(now)

    def before_reset(self, now: float) -> None:
        """End all protection: vLLM clears nothing while blocks are referenced."""
        self.coordinator.clear(now)

    def metrics(self) -> dict[str, Any]:
        """What ``/metrics`` shows of it, by name."""
        retention = self.coordinator.retention
        return {
            "protected_blocks": lambda: retention.charged,
            "leased_blocks": lambda: self.pool.leased,
            "forced_releases": lambda: {
                why: count for why, count in retention.released.items() if why in {"pressure", "displaced", "evicted"}
            },
        }

    def _ended(self, event: seen.Finished) -> None:
        request_id = event.request.request_id
        if isinstance(event, seen.Aborted) or request_id not in self._running:
            self._running.discard(request_id)
            self.coordinator.aborted(request_id, event.now)
            return
        self._running.discard(request_id)
        handle = self.pool.handle_of(self._manager, request_id)
        blocks = max((len(group) for group in handle), default=0)
        tools = (SOME_TOOL,) if event.tool_call else ()
        self.coordinator.finished(request_id, event.now, stop=event.stop, tools=tools, blocks=blocks, handle=handle)

    def _record(self, view: seen.RequestView) -> ClientRecord:
        record = parse_record(view.client, strict=False)
        if record.problems:
            self._hooks.note_bad_record(", ".join(record.problems))
        name = record.session_id or view.session_name or f"#{view.session}"
        return replace(record, session_id=name)

    def _blocks(self, view: seen.RequestView) -> int:
        return max(1, math.ceil(view.prompt_tokens / self._block_tokens))

    def _watch_allocation(self) -> None:
        allocate = self._manager.allocate_slots

        def allocate_slots(request: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = allocate(request, *args, **kwargs)
            waits = self._ordered and request.request_id in self.coordinator.selection
            while blocks is None and self.coordinator.retention.leases:
                with self._hooks.guard("retention under pressure"):
                    waiting = request.request_id if waits else None
                    if not self.coordinator.make_room(self.pool.available() + 1, self._hooks.clock(), waiting=waiting):
                        break
                    blocks = allocate(request, *args, **kwargs)
                    continue
                break
            return blocks

        self._manager.allocate_slots = allocate_slots
