"""Schedulers of vLLM, one after another under one engine core, and what each of them decides, step by step.

To make an engine takes longer than to run a small program on it. So the core, its step functions and the simulated
executor stay, and each program gets a scheduler and a KV cache of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engines import Engine
from managers import full_attention, hasher
from programs import BLOCK, Program

Options = dict[str, Any]
Decisions = list[dict[str, Any]]


class SchedulerBench(Engine):
    """One engine core for many schedulers; its keyword arguments are EngineArgs'."""

    def __init__(self, model: Path, *, asynchronous: bool = False, **arguments: Any) -> None:
        self.asynchronous = asynchronous
        simulation = {"time": "virtual", "asynchronous": asynchronous}
        kvopt = {"pool": "off", "hashing": "vllm", "metrics": False, "simulation": simulation}
        super().__init__(model, kvopt=kvopt, **arguments)
        self.scheduler.shutdown()

    def begin(
        self,
        program: Program,
        kvopt: Options | None,
        specs: Sequence[Any] | None = None,
        block_tokens: int = BLOCK,
        aligned_tokens: int | None = None,
    ) -> None:
        """Put a new scheduler under the core; `kvopt` None: untouched vLLM. `specs` are those of the KV groups.

        Content is hashed by `block_tokens`; `aligned_tokens` is the least common multiple of all groups' blocks.
        """
        from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

        config = self.config
        config.additional_config = {} if kvopt is None else {"kvopt": {"hashing": "vllm", "metrics": False, **kvopt}}
        config.cache_config.num_gpu_blocks = program.blocks
        config.scheduler_config.max_num_seqs = program.sequences
        config.scheduler_config.max_num_batched_tokens = program.budget
        config.scheduler_config.max_num_scheduled_tokens = program.budget
        groups = [
            KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs or [full_attention(block_tokens)])
        ]
        self.core.request_block_hasher = hasher(block_tokens)
        self.outputs, self.reasons = {}, {}
        self.scheduler = self.core.scheduler = config.scheduler_config.get_scheduler_cls()(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(num_blocks=program.blocks, kv_cache_tensors=[], kv_cache_groups=groups),
            structured_output_manager=self.core.structured_output_manager,
            block_size=aligned_tokens or block_tokens,
            hash_block_size=block_tokens,
            log_stats=True,
        )

    def run_program(
        self,
        program: Program,
        kvopt: Options | None = None,
        specs: Sequence[Any] | None = None,
        aligned_tokens: int | None = None,
    ) -> Decisions:
        """Run a program to its end on a new scheduler. What was decided in each step, and the answers, last."""
        self.begin(program, kvopt, specs, aligned_tokens=aligned_tokens)
        decisions = watch(self.scheduler)
        for turn in program.turns:
            for sent in turn.sent:
                self.add(sent.name, sent.prompt, answer=sent.answer, priority=sent.priority, cache_salt=sent.salt)
            self.core.abort_requests(turn.aborted)
            if turn.dropped:
                self.scheduler.kv_cache_manager.evict_blocks(set(turn.dropped))
            if turn.reset:
                decisions.append({"reset": self.core.reset_prefix_cache(turn.reset_running)})
            if self._has_work():
                self.step()
            decisions.append(state(self.scheduler))
        self.run()
        decisions += [state(self.scheduler), {"answers": self.outputs, "reasons": self.reasons}]
        self.scheduler.shutdown()
        return decisions

    def _has_work(self) -> bool:
        return bool(self.scheduler.has_requests() or self.core.batch_queue)


def watch(scheduler: Any) -> Decisions:
    """From now on, what each step of a scheduler decides: hits, blocks, preemptions, and victims in their order."""
    decisions: Decisions = []
    pool = scheduler.kv_cache_manager.block_pool
    schedule, get_new_blocks = scheduler.schedule, pool.get_new_blocks
    taken: list[tuple[int, bytes | None]] = []

    def watched_blocks(count: int) -> Any:
        known = {block.block_id: block.block_hash for block in pool.free_block_queue.get_all_free_blocks()}
        blocks = get_new_blocks(count)
        taken.extend((block.block_id, known[block.block_id]) for block in blocks)
        return blocks

    def watched(*arguments: Any, **keywords: Any) -> Any:
        taken.clear()
        output = schedule(*arguments, **keywords)
        cached = output.scheduled_cached_reqs
        decisions.append(
            {
                "admitted": [(new.req_id, new.num_computed_tokens, new.block_ids) for new in output.scheduled_new_reqs],
                "running": list(zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True)),
                "resumed": sorted(cached.resumed_req_ids),
                "tokens": list(output.num_scheduled_tokens.items()),
                "preempted": sorted(output.preempted_req_ids or ()),
                "taken": list(taken),
            }
        )
        return output

    scheduler.schedule, pool.get_new_blocks = watched, watched_blocks
    return decisions


def state(scheduler: Any) -> dict[str, Any]:
    """Free blocks in the order in which they go, with their content, and who runs and waits."""
    manager = scheduler.kv_cache_manager
    free = [(block.block_id, block.block_hash) for block in manager.block_pool.free_block_queue.get_all_free_blocks()]
    return {
        "free": manager.block_pool.get_num_free_blocks(),
        "order": free,
        "running": [request.request_id for request in scheduler.running],
        "waiting": [request.request_id for request in scheduler.waiting],
    }


def victims(decisions: Decisions) -> list[tuple[int, bytes]]:
    """The cached blocks that lost their content to a new use, in order."""
    return [(block, key) for step in decisions for block, key in step.get("taken", ()) if key is not None]


def preemptions(decisions: Decisions) -> int:
    """How often a running request lost its blocks."""
    return sum(len(step.get("preempted", ())) for step in decisions)
