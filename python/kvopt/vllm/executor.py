"""A vLLM executor without kernels: the real engine, scheduler, KV manager and HTTP server, with simulated steps.

``distributed_executor_backend="kvopt.vllm.SimulatedExecutor"``. A step answers one made-up token for each request whose
prompt is complete, after the time that the prefill profile says, so that policies, settings and load can be tried
without a GPU. No weights are loaded. A request may script its answer: ``vllm_xargs={"simulated_answer": [ids]}``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from vllm.v1.executor.abstract import Executor
from vllm.v1.outputs import ModelRunnerOutput

from kvopt.errors import ConfigError
from kvopt.vllm.config import Config, read_config
from kvopt.vllm.simulated_model import kv_cache_specs
from kvopt.vllm.step_time import step_time

ANSWER = "simulated_answer"


class SimulatedExecutor(Executor):  # type: ignore[misc]
    """Steps that compute nothing; see the module.

    Attributes:
        simulated_seconds: time that all steps so far would have taken.
        steps: steps that had any token to compute.
    """

    supports_pp = False

    def _init_executor(self) -> None:
        if self.model_config.runner_type != "generate":
            raise ConfigError(
                f"SimulatedExecutor: a {self.model_config.runner_type} model; only generation is simulated"
            )
        config = read_config(self.vllm_config) or Config()
        self._options = config.simulation
        self._time = step_time(config.prefill, self._options.decode_ms)
        self._prompts: dict[str, tuple[int, list[int]]] = {}
        self._pending: ModelRunnerOutput | None = None
        self._drafts: dict[str, int] = {}
        self._device = ThreadPoolExecutor(1, "kvopt-device") if self._options.time == "real" else None
        self._free_at = 0.0
        self.simulated_seconds = 0.0
        self.steps = 0
        if self._options.asynchronous is not None:
            # vLLM's CPU platform switches this off; nothing here is a CPU's.
            self.scheduler_config.async_scheduling = self._options.asynchronous

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        """Whether a step may be scheduled before the last one's answer."""
        return True

    def collective_rpc(  # noqa: D102
        self,
        method: str | Callable[..., Any],
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        non_block: bool = False,
    ) -> Any:
        name = method if isinstance(method, str) else getattr(method, "__name__", "")
        answer = getattr(self, f"_answer_{name}", lambda *args, **kwargs: None)(*args, **(kwargs or {}))
        return _done([answer]) if non_block else [answer]

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Simulate a step; its tokens come from :meth:`sample_tokens`, or at once when there was nothing to compute."""
        for request in scheduler_output.finished_req_ids:
            self._prompts.pop(request, None)
        output, parts = self._answers(scheduler_output)
        if not parts:
            return _done(output) if non_block else output
        seconds = self._time.step_ms(parts) / 1000.0
        self.simulated_seconds += seconds
        self.steps += 1
        self._free_at = max(self._free_at, time.monotonic()) + seconds / self._options.speed
        self._pending = output
        return _done(None) if non_block else None

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        """The tokens of the last step, as soon as its simulated time is over."""
        output, self._pending = self._pending, None
        if self._device is None:
            return _done(output) if non_block else output
        future = self._device.submit(_after, self._free_at, output)
        return future if non_block else future.result()

    def take_draft_token_ids(self) -> Any:
        """Made-up drafts for the requests of the last step, where the server decodes speculatively."""
        if not self.speculative_config or not self._drafts:
            return None
        from vllm.v1.outputs import DraftTokenIds

        drafts = [[self._options.token] * self.speculative_config.num_speculative_tokens for _ in self._drafts]
        return DraftTokenIds(list(self._drafts), drafts)

    def check_health(self) -> None:
        """Nothing can break."""

    def shutdown(self) -> None:
        """End the thread that sleeps."""
        if device := getattr(self, "_device", None):
            device.shutdown(wait=False, cancel_futures=True)

    def _answers(self, scheduled: Any) -> tuple[ModelRunnerOutput, list[tuple[int, int]]]:
        """A step's output, and (new tokens, tokens before them) of each of its requests."""
        before: dict[str, tuple[int, int]] = {}  # computed tokens, and answered ones
        for new in scheduled.scheduled_new_reqs:
            script = ((new.sampling_params and new.sampling_params.extra_args) or {}).get(ANSWER, [])
            self._prompts[new.req_id] = (new.prompt_len, script if isinstance(script, list) else [])
            known = len(new.prefill_token_ids) if new.prefill_token_ids is not None else new.prompt_len
            before[new.req_id] = (new.num_computed_tokens, known - new.prompt_len)
        cached = scheduled.scheduled_cached_reqs
        for request, computed, answered in zip(
            cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens, strict=True
        ):
            before[request] = (computed, answered)
        tokens = scheduled.num_scheduled_tokens
        sampled: list[list[int]] = []
        for request, count in tokens.items():
            prompt, script = self._prompts[request]
            computed, answered = before[request]
            drafts = len(scheduled.scheduled_spec_decode_tokens.get(request, ()))
            complete = computed + count - drafts >= prompt + answered
            script_token = script[answered] if answered < len(script) else self._options.token
            sampled.append([script_token] if complete else [])
        self._drafts = {request: 1 for request, answer in zip(tokens, sampled, strict=True) if answer}
        output = ModelRunnerOutput(
            req_ids=list(tokens),
            req_id_to_index={request: index for index, request in enumerate(tokens)},
            sampled_token_ids=sampled,
        )
        return output, [(count, before[request][0]) for request, count in tokens.items()]

    def _answer_get_kv_cache_spec(self) -> dict[str, Any]:
        return kv_cache_specs(self.vllm_config)

    def _answer_determine_available_memory(self) -> int:
        return int(self.cache_config.kv_cache_memory_bytes or self._options.memory)

    def _answer_get_supported_kv_cache_layouts(self) -> list[str]:
        from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts

        return [layout.name for layout in get_supported_kv_cache_layouts([])]

    def _answer_set_kv_cache_layout(self, layout: str, interleave: int = 1) -> None:
        self.cache_config.kv_cache_layout = layout

    def _answer_compile_or_warm_up_model(self) -> Any:
        from vllm.v1.worker.worker_base import CompilationTimes

        return CompilationTimes(language_model=0.0, encoder=0.0)

    def _answer_get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _after(deadline: float, output: Any) -> Any:
    time.sleep(max(0.0, deadline - time.monotonic()))
    return output
