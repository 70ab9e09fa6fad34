"""Features of vLLM that move blocks in ways of their own: LRU decides as vLLM does, other policies stay sound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delayed_frees import DelayedFrees
from kvopt.vllm.install import unsupported
from managers import full_attention, mamba, sliding_window
from programs import Program, random_program
from schedulers import Decisions, SchedulerBench, preemptions, victims

MODES = {"sync": False, "async": True}


@pytest.fixture(scope="module", params=MODES)
def bench(request: pytest.FixtureRequest, tiny_model: Path) -> Iterator[SchedulerBench]:
    made = SchedulerBench(tiny_model, asynchronous=MODES[request.param])
    yield made
    made.shutdown()


@dataclass
class Feature:
    """Changes of vLLM's configuration, by the path of a field, and the KV groups."""

    changes: dict[str, Any] = field(default_factory=dict)
    specs: Any = None
    aligned_tokens: int | None = None
    programs: dict[str, Any] = field(default_factory=dict)
    policies: tuple[str, ...] = ("lru", "cost-aware")
    """Those that our pool covers; with others vLLM's pool stays."""


FEATURES = {
    "windows beside full attention": Feature(
        specs=[full_attention(), sliding_window(10)], programs={"groups": 2, "least_blocks": 20}
    ),
    "four groups": Feature(
        specs=[full_attention(), sliding_window(6), full_attention(), sliding_window(14)],
        programs={"groups": 4, "least_blocks": 40},
    ),
    "priorities": Feature({"scheduler_config.policy": "priority"}, programs={"priorities": True}),
    "watermark": Feature({"scheduler_config.watermark": 0.15}),
    "no reservation for whole prompts": Feature({"scheduler_config.scheduler_reserve_full_isl": False}),
    "a threshold for long prompts": Feature({"scheduler_config.long_prefill_token_threshold": 8}),
    "Mamba align": Feature(
        {"cache_config.mamba_cache_mode": "align"},
        specs=[full_attention(), mamba()],
        programs={"groups": 2, "least_blocks": 20},
        policies=("lru",),
    ),
    "partial hits": Feature(
        {"cache_config.mamba_cache_mode": "align"},
        specs=[full_attention(), mamba(8)],
        aligned_tokens=8,
        programs={"groups": 2, "least_blocks": 20},
        policies=("lru",),
    ),
    "prefix caching off": Feature({"cache_config.enable_prefix_caching": False}, policies=()),
}


def run(bench: SchedulerBench, feature: Feature, program: Program, kvopt: dict[str, Any] | None) -> Decisions:
    with pytest.MonkeyPatch.context() as patch:
        for path, value in feature.changes.items():
            part, name = path.split(".")
            patch.setattr(getattr(bench.config, part), name, value)
        return bench.run_program(program, kvopt, feature.specs, feature.aligned_tokens)


def check(bench: SchedulerBench, feature: Feature, seeds: range) -> int:
    """Run programs on our pool beside untouched vLLM. The victims of all seeds; some request is preempted in them."""
    evicted = preempted = 0
    for seed in seeds:
        program = random_program(seed, **feature.programs)
        # Alignment asks for chunks of whole blocks.
        program = replace(program, budget=max(program.budget, 2 * (feature.aligned_tokens or 0)))
        untouched = run(bench, feature, program, None)
        for policy in ("lru", "cost-aware"):
            ours = run(bench, feature, program, {"policy": policy})
            runtime, pool = bench.scheduler.kvopt, bench.scheduler.kv_cache_manager.block_pool
            assert runtime.hooks.errors == {}
            assert runtime.pool.kind == ("native" if policy in feature.policies else "vllm")
            assert bool(runtime.pool.reasons) is (policy not in feature.policies)
            if policy == "lru" or policy not in feature.policies:
                assert ours == untouched, seed
            if policy in feature.policies:
                assert pool.native.verify() == []
                assert pool.native.failure == ""
            assert ours[-2]["free"] == program.blocks - 1
        evicted += len(victims(untouched))
        preempted += preemptions(untouched)
    assert preempted > 0
    return evicted


@pytest.mark.parametrize("name", FEATURES)
def test_feature(bench: SchedulerBench, name: str) -> None:
    evicted = check(bench, FEATURES[name], range(300, 304))
    assert (evicted > 0) is (name != "prefix caching off")


class Sending:
    """Adds to an executor's answers what the connector's workers would say."""

    def __init__(self, executor: Any, connector: DelayedFrees) -> None:
        self._execute, self._sample, self._connector = executor.execute_model, executor.sample_tokens, connector
        self._pending: Any = None

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        said = self._connector.take_sent()
        answer = self._execute(scheduled, non_block=True)
        if answer.result() is None:
            self._pending = said
        else:
            answer.result().kv_connector_output = said
        return answer if non_block else answer.result()

    def sample_tokens(self, grammar: Any, non_block: bool = False) -> Any:
        answer = self._sample(grammar, non_block=True)
        answer.result().kv_connector_output = self._pending
        return answer if non_block else answer.result()


def test_delayed_frees_of_a_kv_connector(bench: SchedulerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.config import KVTransferConfig

    transfer = KVTransferConfig(
        kv_connector="DelayedFrees", kv_connector_module_path="delayed_frees", kv_role="kv_both"
    )
    executor = bench.core.model_executor
    begin = bench.begin

    def begin_with_connector(*arguments: Any, **keywords: Any) -> None:
        begin(*arguments, **keywords)
        monkeypatch.undo()
        monkeypatch.setattr(bench, "begin", begin_with_connector)
        monkeypatch.setattr(bench.config, "kv_transfer_config", transfer)
        sending = Sending(executor, bench.scheduler.connector)
        monkeypatch.setattr(executor, "execute_model", sending.execute_model)
        monkeypatch.setattr(executor, "sample_tokens", sending.sample_tokens)

    monkeypatch.setattr(bench, "begin", begin_with_connector)
    monkeypatch.setattr(bench.config, "kv_transfer_config", transfer)
    evicted = check(bench, Feature(programs={"reset_running": False}), range(320, 324))
    assert evicted > 0
    assert bench.scheduler.connector.delayed > 0


@pytest.fixture(scope="module")
def drafting(tiny_model: Path) -> Iterator[SchedulerBench]:
    """An engine that decodes speculatively: three drafts a token, all of them refused."""
    made = SchedulerBench(tiny_model, speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    yield made
    made.shutdown()


@pytest.mark.parametrize("method", ["ngram", "eagle"])
def test_speculative_decoding(drafting: SchedulerBench, method: str) -> None:
    """Drafts take blocks before they are known; "eagle" looks ahead and computes the last hit block again."""
    feature = Feature({"speculative_config.method": method}, programs={"groups": 1})
    evicted = check(drafting, feature, range(340, 344))
    assert evicted > 0


def test_layouts_that_share_blocks_with_the_host_keep_vllms_pool() -> None:
    class HiSparseSpec:
        """Named as vLLM's specs of this layout."""

    layout = SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=HiSparseSpec())])
    assert unsupported(layout, policy="lru") == ["HiSparseSpec: blocks are shared with a host pool of its own"]
    plain = SimpleNamespace(kv_cache_groups=[SimpleNamespace(kv_cache_spec=full_attention())])
    assert unsupported(plain, policy="lru", offload_walks_queue=True) == []
    reasons = unsupported(plain, policy="cost-aware", offload_walks_queue=True)
    assert len(reasons) == 1
    assert "walks the free queue" in reasons[0]
