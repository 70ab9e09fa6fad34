"""What one engine counts for ``/metrics``: plain numbers, cheap to add to, and a snapshot of them as JSON values.

The metrics themselves, with their meaning, are in :data:`METRICS`; :mod:`kvopt.vllm.exporter` gives them to Prometheus.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import Any

from kvopt.vllm import observation as seen
from kvopt.vllm.config import Config
from kvopt.vllm.hooks import Hooks
from kvopt.vllm.step_time import step_time
from kvopt.vllm.told_policy import ToldPolicy
from kvopt.vllm.versions import is_patched

DECISION_BUCKETS = (5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2, 1e-1)
"""Upper edges of the decision-time histogram, in seconds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's kind ("counter", "gauge" or "histogram"), meaning, and the label that its values are told apart by."""

    kind: str
    meaning: str
    label: str = ""


METRICS: dict[str, Metric] = {
    "requests": Metric("counter", "Requests that ended, by why their answer ended.", "stop"),
    "preemptions": Metric("counter", "Requests that lost their blocks while running."),
    "prompt_tokens": Metric("counter", "Prompt tokens of admitted requests, at their first admission."),
    "hit_tokens": Metric("counter", "Of these, tokens found in the prefix cache."),
    "saved_prefill_seconds": Metric("counter", "Prefill time that hits saved, by the configured prefill profile."),
    "saved_tokens": Metric("counter", "Prefill that hits saved, in tokens at a prompt's beginning."),
    "shadow_lru_saved_tokens": Metric("counter", "What hits of LRU would have saved on the same requests."),
    "hit_blocks": Metric("counter", "Cached blocks that requests took."),
    "stored_blocks": Metric("counter", "Blocks that became hittable."),
    "evicted_blocks": Metric("counter", "Cached blocks that lost their content, by reason.", "reason"),
    "resets": Metric("counter", "Times that the prefix cache was cleared."),
    "forced_releases": Metric("counter", "Protections that ended before their time, by reason.", "reason"),
    "slow_steps": Metric("counter", "Steps that KVopt held up for more than 50 ms."),
    "observer_errors": Metric("counter", "Events that an observer or a policy failed at.", "observer"),
    "hint_errors": Metric("counter", "Client records that could not be read."),
    "recorded_requests": Metric("counter", "Requests written to the trace."),
    "protected_blocks": Metric("gauge", "Blocks that retention protects."),
    "leased_blocks": Metric("gauge", "Blocks that leases pin."),
    "free_blocks": Metric("gauge", "Blocks that a request could get now."),
    "sessions": Metric("gauge", "Sessions remembered."),
    "lru_decides": Metric("gauge", "1 while the policy uses LRU's order, since that saves more."),
    "recorded_bytes": Metric("gauge", "Size of the trace written so far."),
    "decision_seconds": Metric("histogram", "Time that a step spends in KVopt, its policy included."),
}
"""Every metric, by its name without the prefix ``kvopt:``."""

SLOW_STEP = 0.05
"""Seconds of a step that KVopt may take before it says so: about what a step of a large model takes."""

logger = logging.getLogger("vllm.kvopt")


class EngineMetrics:
    """The counts of one engine; see :data:`METRICS`."""

    def __init__(self, hooks: Hooks, config: Config, vllm_config: Any, manager: Any) -> None:
        self._hooks = hooks
        self._manager = manager
        self._time = step_time(config.prefill)
        self._counts: Counter[str] = Counter()
        self._stops: Counter[str] = Counter()
        self._evicted: Counter[str] = Counter()
        self._buckets = [0] * (len(DECISION_BUCKETS) + 1)
        self._decision_sum = 0.0
        self._policy_sum = 0.0
        self.extra: dict[str, Any] = {}
        """Values of metrics that others keep, by name: numbers, or functions that give one."""
        self.labels = {
            "model_name": str(vllm_config.model_config.served_model_name or vllm_config.model_config.model),
            "engine": str(getattr(vllm_config.parallel_config, "data_parallel_index", 0)),
        }
        self.info = {"policy": config.policy, "pool": config.pool, "retention": config.retention}
        self.info["hooks"] = "patched" if is_patched() else "plugin"

    def observe(self, event: seen.Event) -> None:
        """Count an event."""
        if isinstance(event, seen.Scheduled):
            if not event.resumed:
                self._counts["prompt_tokens"] += event.request.prompt_tokens
                self._counts["hit_tokens"] += event.hit_tokens
                self._counts["saved_prefill_seconds"] += self._time.saved_ms(event.hit_tokens) / 1000.0  # type: ignore[assignment]
        elif isinstance(event, seen.BlocksStored):
            self._counts["stored_blocks"] += event.blocks
        elif isinstance(event, seen.BlocksHit):
            self._counts["hit_blocks"] += event.blocks
        elif isinstance(event, seen.BlocksEvicted):
            self._evicted[event.reason] += event.blocks
        elif isinstance(event, seen.Finished):
            self._stops[event.stop.name.lower()] += 1
        elif isinstance(event, seen.Preempted):
            self._counts["preemptions"] += 1
        elif isinstance(event, seen.Reset) and event.done:
            self._counts["resets"] += 1

    def _policy_errors(self) -> dict[str, int]:
        pool = self._manager.block_pool
        return {"policy": 1} if isinstance(pool, ToldPolicy) and pool.failure else {}

    def _beside_lru(self) -> dict[str, float]:
        pool = self._manager.block_pool
        compared = pool.saved_and_lru if isinstance(pool, ToldPolicy) else None
        if compared is None:
            return {}
        saved, lru, lru_decides = compared
        return {"saved_tokens": saved, "shadow_lru_saved_tokens": lru, "lru_decides": float(lru_decides)}

    def take_decision(self, seconds: float) -> None:
        """Add to the histogram the time of one step: `seconds`, and what the policy took since the last call."""
        pool = self._manager.block_pool
        policy = 0.0
        if isinstance(pool, ToldPolicy):
            policy = pool.decision_seconds - self._policy_sum
            self._policy_sum += policy
        seconds += policy
        self._buckets[bisect_left(DECISION_BUCKETS, seconds)] += 1
        self._decision_sum += seconds
        if seconds > SLOW_STEP:
            self._counts["slow_steps"] += 1
            if self._counts["slow_steps"] == 1:
                logger.warning(
                    "KVopt held a step up for %.0f ms, of which the policy %s took %.0f ms; kvopt:slow_steps_total "
                    "goes on counting",
                    seconds * 1e3,
                    self.info["policy"],
                    policy * 1e3,
                )

    def snapshot(self) -> dict[str, Any]:
        """All values as JSON: a number, a table by label, or a histogram's counts by bucket and sum."""
        values: dict[str, Any] = {
            name: self._counts[name] for name in ("preemptions", "prompt_tokens", "hit_tokens", "saved_prefill_seconds")
        }
        values |= {name: self._counts[name] for name in ("hit_blocks", "stored_blocks", "resets", "slow_steps")}
        values["requests"] = dict(self._stops)
        values["evicted_blocks"] = dict(self._evicted)
        values["observer_errors"] = dict(self._hooks.errors) | self._policy_errors()
        values["hint_errors"] = self._hooks.hint_errors
        values["sessions"] = len(self._hooks.sessions)
        values["free_blocks"] = self._manager.block_pool.get_num_free_blocks()
        values["decision_seconds"] = {"buckets": list(self._buckets), "sum": self._decision_sum}
        values |= self._beside_lru()
        values |= {name: value() if callable(value) else value for name, value in self.extra.items()}
        return {"labels": self.labels, "info": self.info, "values": values}
