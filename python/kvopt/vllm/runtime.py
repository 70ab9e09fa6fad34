"""What KVopt runs beside one scheduler: hooks and their observers, and the seams to pool, retention and order."""

from __future__ import annotations

from typing import Any

from kvopt.vllm.config import Config
from kvopt.vllm.hooks import Hooks
from kvopt.vllm.metrics import EngineMetrics
from kvopt.vllm.observation import tool_call_ids
from kvopt.vllm.pool_watch import watch_pool
from kvopt.vllm.pools import PoolChoice, hash_natively
from kvopt.vllm.publisher import SnapshotPublisher
from kvopt.vllm.told_policy import ToldPolicy


class Runtime:
    """One scheduler's KVopt.

    Attributes:
        hooks: the events and their observers.
        metrics: counts of this engine.
        recorder: the trace that is written, or None.
        retention: who protects idle sessions, or None.
        learned: the file that keeps what the policy learns, or None.
        pool: which pool the engine got.
        hashing: who computes block hashes, "native" or "vllm".
    """

    def __init__(self, config: Config, vllm_config: Any, scheduler: Any, pool: PoolChoice) -> None:
        self.config = config
        self.pool = pool
        self._scheduler = scheduler
        self.hashing = (
            "native" if config.hashing == "native" and config.pool == "native" and hash_natively() else "vllm"
        )
        manager = scheduler.kv_cache_manager
        given = config.tool_call_token_ids
        ids = tool_call_ids(vllm_config) if given is None else frozenset(given)
        block_tokens = int(getattr(scheduler, "hash_block_size", None) or scheduler.block_size)
        self.hooks = Hooks(config, block_tokens, ids)
        self.metrics = EngineMetrics(self.hooks, config, vllm_config, manager)
        self.hooks.add_observer("metrics", self.metrics.observe)
        self.recorder = self._recorder(block_tokens)
        self.learned = self._learned(manager.block_pool)
        self.retention = self._retention(block_tokens)
        self._order = self._waiting_order()
        if manager.enable_caching:
            watch_pool(manager, self.hooks)
        self._publisher = SnapshotPublisher.from_environment(self.metrics) if config.metrics else None

    def describe(self) -> str:
        """What is active, in one line."""
        why = f" (vLLM's: {'; '.join(self.pool.reasons)})" if self.pool.reasons else ""
        parts = [
            self.config.describe() + why,
            f"hashing={self.hashing}",
            f"tool-call tokens={self.hooks.tool_call_tokens}",
        ]
        if self.metrics.info["hooks"] == "patched":
            parts.append("patched into vLLM")
        if self.learned is not None:
            parts.append(self.learned.describe())
        if self.recorder is not None:
            parts.append(f"recording to {self.recorder.path}")
        return ", ".join(parts)

    def arrived(self, request: Any) -> None:
        """A request is about to be queued."""
        self.hooks.arrived(request)

    def before_step(self) -> None:
        """A step is about to be scheduled: what is due ends, and the waiting order is fixed for it."""
        now = self.hooks.clock()
        if self.retention is not None:
            self.retention.before_step(now)
        if self._order is not None:
            self._order.before_step(now)
        if self.learned is not None:
            with self.hooks.guard("policy state"):
                self.learned.before_step(now)

    def scheduled(self, output: Any) -> None:
        """A step was scheduled."""
        running, waiting = self._scheduler.get_request_counts()
        self.hooks.scheduled(output, running, waiting)

    def stepped(self) -> None:
        """A step's tokens were taken in."""
        self.metrics.take_decision(self.hooks.take_decision_seconds())

    def preempted(self, request: Any) -> None:
        """A running request is about to lose its blocks."""
        self._tell_pool(request)
        self.hooks.preempted(request)

    def finished(self, request: Any) -> None:
        """A request ended; its blocks are still its own."""
        self.hooks.finished(request)

    def released(self, request: Any) -> None:
        """A finished request's blocks are about to go back."""
        self._tell_pool(request)
        self.hooks.released(request)

    def before_reset(self) -> None:
        """The prefix cache is about to be cleared; what is pinned must go first."""
        if self.retention is not None:
            self.retention.before_reset(self.hooks.clock())

    def reset(self, done: bool) -> None:
        """The prefix cache was cleared, or not."""
        self.hooks.reset(done)

    def shutdown(self) -> None:
        """End what writes."""
        if self.learned is not None:
            with self.hooks.guard("policy state"):
                self.learned.save()
        if self.recorder is not None:
            self.recorder.close()
        if self._publisher is not None:
            self._publisher.close()

    def _tell_pool(self, request: Any) -> None:
        pool = self._scheduler.kv_cache_manager.block_pool
        if isinstance(pool, ToldPolicy):
            pool.works_for(request)

    def _recorder(self, block_tokens: int) -> Any:
        if self.config.record is None:
            return None
        from kvopt.vllm.recorder import TraceRecorder

        recorder = TraceRecorder(self.config.record, block_tokens, limit=self.config.record_limit)
        self.hooks.add_observer("record", recorder.observe)
        self.metrics.extra |= {"recorded_requests": lambda: recorder.recorded, "recorded_bytes": lambda: recorder.size}
        return recorder

    def _learned(self, block_pool: Any) -> Any:
        if self.config.policy_state is None or self.pool.kind == "vllm":
            return None
        from kvopt.vllm.learned_state import LearnedState

        return LearnedState(
            self.config.policy_state,
            block_pool,
            minutes=self.config.policy_state_minutes,
            now=self.hooks.clock(),
            engine=int(self.metrics.labels["engine"]),
            strict=self.config.strict,
        )

    def _retention(self, block_tokens: int) -> Any:
        if self.config.retention == "off" or not self._scheduler.kv_cache_manager.enable_caching:
            return None
        from kvopt.vllm.retention import Retention

        retention = Retention(self.config, self._scheduler.kv_cache_manager, self.hooks, block_tokens)
        self.hooks.add_observer("retention", retention.observe)
        self.metrics.extra |= retention.metrics()
        return retention

    def _waiting_order(self) -> Any:
        if self.config.order == "vllm":
            return None
        from kvopt.vllm.session_order import SessionOrder

        known = None if self.retention is None else self.retention.coordinator.selection
        order = SessionOrder(self._scheduler, known, ageing=self.config.ageing)
        self.hooks.add_observer("waiting order", order.observe)
        return order
