"""simulate() as a whole: grids, seeds, results, conservation, options, errors, preemption by cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvopt.cache import BlockPool
from kvopt.cost import CHIPS, MODELS, chip_cost
from kvopt.errors import ConfigError, SimulationError, UnknownPolicyError, UnknownSchedulerError
from kvopt.metrics import CAUSES, Collector
from kvopt.policies import DummyPolicy
from kvopt.scheduler import FifoScheduler
from kvopt.simulator import (
    ClientOptions,
    Limits,
    LinearStepTime,
    SimulationOptions,
    SimulationResult,
    load_profile,
    simulate,
)
from kvopt.simulator.engine import simulation
from kvopt.simulator.preemption import PREEMPTION
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.threads import find_threads
from kvopt.workload import CodingAgents
from kvopt.workload.base import Trace
from served_traces import Sent, events, serve, serve_all, served_trace

TIME = LinearStepTime(k0=10, k1=1, d1=2)


@pytest.fixture(scope="module")
def agents() -> Trace:
    return CodingAgents(sessions=16, seed=2, requests_median=6).load()


@pytest.fixture(scope="module")
def grid(agents: Trace) -> SimulationResult:
    return simulate(agents, ["lru", "cost-aware"], [4000, 12000], schedulers=["fifo", "program"], seeds=2)


def test_a_grid_has_a_run_for_each_combination_in_order(grid: SimulationResult) -> None:
    assert [(run.capacity, run.scheduler, run.policy, run.seed) for run in grid.runs] == [
        (capacity, scheduler, policy, seed)
        for capacity in (4000, 12000)
        for scheduler in ("fifo", "program")
        for policy in ("lru", "cost-aware")
        for seed in (1, 2)
    ]
    assert grid.run("cost-aware", "program", 12000).seed == 1
    with pytest.raises(ConfigError, match="there are lru / fifo / 4000"):
        grid.run("min")


def test_summaries_and_differences(grid: SimulationResult) -> None:
    first = grid.summaries()[0]
    hits = [run.figures()["token_hit"] for run in grid.runs[:2]]
    assert (first.policy, first.scheduler, first.capacity) == ("lru", "fifo", 4000)
    assert first.figures["token_hit"].mean == pytest.approx(sum(hits) / 2)
    assert first.figures["token_hit"].half_width == pytest.approx(12.706 * abs(hits[0] - hits[1]) / 2)
    better = grid.differences()[0]
    pairs = [grid.runs[index + 2].figures()["ttft_mean"] - grid.runs[index].figures()["ttft_mean"] for index in (0, 1)]
    assert better.policy == "cost-aware"
    assert better.figures["ttft_mean"].mean == pytest.approx(sum(pairs) / 2)
    with pytest.raises(ConfigError, match="no run of fifo"):
        grid.differences("fifo")


def test_every_token_is_accounted_for(agents: Trace, grid: SimulationResult) -> None:
    for run in grid.runs:
        totals = run.totals
        prefilled = sum(run.prefill[cause]["tokens"] for cause in CAUSES)
        assert totals.finished + totals.refused == totals.requests == agents.requests
        if totals.preemptions == 0:
            assert totals.hit_tokens + prefilled == totals.prompt_tokens
        assert totals.cached_block_s == pytest.approx(
            totals.useful_block_s + totals.wasted_block_s + totals.unresolved_block_s
        )
        assert run.dropped_blocks["capacity"] == totals.evictions == sum(run.series["evictions"])
        assert sum(run.series["hit_tokens"]) == totals.hit_tokens
        assert run.eviction_age_s.count == totals.evictions
        assert all(value is None or 0 <= value < run.capacity for value in run.series["held_blocks"])


def test_the_same_bytes_every_time(agents: Trace, tmp_path: Path) -> None:
    for name in ("a", "b"):
        simulate(agents, "cost-aware", 4000, seeds=2).write_json(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    document = json.loads((tmp_path / "a").read_text())
    assert (document["kind"], document["format_version"]) == ("kvopt-simulation", 1)
    assert [run["seed"] for run in document["runs"]] == [1, 2]


def test_the_bounded_mode_is_within_a_percent(agents: Trace) -> None:
    exact, bounded = (
        simulate(agents, "lru", 4000, options=SimulationOptions(exact=exact)).runs[0] for exact in (True, False)
    )
    assert exact.totals == bounded.totals
    for name, found in bounded.latency_s.items():
        true = exact.latency_s[name]
        assert (found.count, found.max) == (true.count, true.max)
        assert found.mean == pytest.approx(true.mean)
        if true.count > 500:
            assert found.p90 == pytest.approx(true.p90, rel=0.05)


def test_more_memory_hits_more(agents: Trace) -> None:
    longest = int(agents.prefix.longest_request)
    small, large = (simulate(agents, "lru", capacity).runs[0] for capacity in (2 * longest, 60000))
    assert small.totals.refused == large.totals.refused == 0
    assert small.totals.hit_tokens < large.totals.hit_tokens
    assert small.figures()["recomputed_s"] > large.figures()["recomputed_s"] == 0.0
    assert large.totals.evictions == 0


def test_answers_are_hit_unless_private(agents: Trace) -> None:
    reused, private = (
        simulate(agents, "lru", 60000, options=SimulationOptions(answers=answers)).runs[0].totals.hit_tokens
        for answers in ("reused", "private")
    )
    assert reused > private


def test_a_python_policy(agents: Trace) -> None:
    run = simulate(agents, DummyPolicy, 4000).runs[0]
    assert run.policy == "DummyPolicy"
    assert run.totals.evictions > 0
    assert run.totals.finished + run.totals.refused == agents.requests


def preempted(requests: Sequence[Sent], blocks: int, **options: Any) -> list[int]:
    run = serve(served_trace(requests), blocks, LinearStepTime(k0=10, k1=1, d1=2), **options)
    assert run.totals.finished == len(requests)
    return [request for _, kind, request, _ in events(run) if kind == "preempted"]


def test_preemption_takes_the_last_or_the_cheapest() -> None:
    # The second holds the most, the first the least, when the third needs its second block.
    requests = [Sent(0, 5, 20), Sent(0, 30, 6), Sent(0, 8, 20)]
    assert preempted(requests, 12, preemption="last")[0] == 2
    assert preempted(requests, 12, preemption="cost")[0] == 0


def test_runs_under_pressure_finish_under_every_way() -> None:
    random = np.random.default_rng(7)
    requests = [
        Sent(float(index) * 0.02, int(random.integers(1, 30)), int(random.integers(1, 30))) for index in range(60)
    ]
    for way in PREEMPTION:
        assert preempted(requests, 16, preemption=way, token_budget=16)


class Instant:
    """Takes no time at all; not linear, and no dataclass."""

    def step_ms(self, chunks: Sequence[tuple[int, int]], decodes: int, decode_context: int) -> float:
        return 0.0

    def prefill_ms(self, tokens: int, context: int) -> float:
        return 0.0


class Broken(Instant):
    def step_ms(self, chunks: Sequence[tuple[int, int]], decodes: int, decode_context: int) -> float:
        return float("nan")


def test_any_model_of_time_will_do() -> None:
    trace = served_trace([Sent(0, 9, 5), Sent(0, 9, 5)])
    result = serve_all(trace, 10, Instant())
    assert result.setup["profile"]["name"] == "Instant"
    assert result.runs[0].latency_s["end_to_end"].max == 0.0
    with pytest.raises(SimulationError, match="step_ms gave nan"):
        serve_all(trace, 10, Broken())


def run_on(pool: BlockPool, trace: Trace) -> Collector:
    """Serve a trace from a pool, whose blocks others may hold."""
    threads, collector = find_threads(trace), Collector()
    simulation(
        pool,
        RequestSource(trace, threads),
        threads.table(),
        trace.time,
        collector,
        FifoScheduler(),
        TIME,
        limits=Limits(),
        clients=ClientOptions("open"),
    ).run()
    collector.read()
    return collector


def test_a_stall_says_why() -> None:
    pool = BlockPool(10, "lru")
    held = pool.acquire(np.empty(0, np.uint64), 8, now=0.0)
    message = (
        "the simulation stalls at 0.000 s: 0 running, 1 waiting, 8 of 10 blocks held, 2 free; "
        "the next request, 0, needs 3 blocks for 9 tokens"
    )
    with pytest.raises(SimulationError, match=message):
        run_on(pool, served_trace([Sent(0, 9, 5)]))
    assert held.live


def test_books_that_do_not_balance_are_an_error() -> None:
    trace = served_trace([Sent(0, 9, 5)])
    assert run_on(BlockPool(10, "lru"), trace).totals.finished == 1
    pool = BlockPool(10, "lru")
    held = pool.acquire(np.empty(0, np.uint64), 2, now=0.0)
    with pytest.raises(SimulationError, match="the books do not balance: 2 blocks are held by nobody's request"):
        run_on(pool, trace)
    assert held.live


def test_profiles(tmp_path: Path) -> None:
    assert load_profile("k0=5,k1=0.5").step_time == LinearStepTime(k0=5, k1=0.5, d1=0.5)
    file = tmp_path / "mine.json"
    file.write_text('{"name": "mine", "source": "measured", "k0": 5, "k1": 0.5, "d1": 1}')
    profile = load_profile(str(file))
    assert (profile.name, profile.source, profile.step_time) == ("mine", "measured", LinearStepTime(5, 0.5, d1=1))
    # T(q, s) of Preble's fit: 18.67 + 0.0799 · 100 + 0.00269 · 1000 + 7.44e-7 · 100 · 1000. Decoding reads 327,680
    # bytes a token over two chips.
    preble = load_profile("preble-llama-70b-h100-tp2@h100").step_time
    assert preble.step_ms([(100, 1000)], 0, 0) == pytest.approx(18.67 + 7.99 + 2.69 + 0.0744)
    h100 = CHIPS["h100"].memory_gb_s * 1e6
    assert preble.step_ms((), 0, 10**6) - preble.step_ms((), 0, 0) == pytest.approx(327_680 / 2 / h100 * 1e6)
    # A model on a chip has the cost that kvopt.cost computes, and half the work a GPU on two.
    one, two = (load_profile(f"llama-3.1-8b@{gpus}h100").step_time for gpus in ("", "2x"))
    cost = chip_cost(MODELS["llama-3.1-8b"], CHIPS["h100"])
    assert one.step_ms([(512, 4096)], 0, 0) == pytest.approx(cost.step_ms(512, 4096))
    assert two.prefill_ms(512, 4096) == pytest.approx(one.prefill_ms(512, 4096) / 2)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("llama-3.1-8b", "write a model and a chip, such as llama-3.1-8b@h100"),
        ("llama-3.1-8c@h100", "did you mean 'llama-3.1-8b'"),
        ("llama-3.1-8b@h10", "h100"),
        ("preble-llama-70b-h100-tp2@4xh100", "was measured on 2 GPUs"),
        ("k9=3", "no coefficient 'k9'; there are k0, k1"),
        ("k0=x", "k0 is 'x'"),
        ("k0=1,k0=2", "k0 is given twice"),
        ("k0=-1", "k0 is -1.0"),
        ("k0=inf", "k0 is inf"),
        ("{file}", "not JSON"),
        ("{list}", "not a JSON object"),
        ("{text}", "k0 is 'a'"),
    ],
)
def test_bad_profiles(tmp_path: Path, spec: str, message: str) -> None:
    for name, content in (("file", "{"), ("list", "[]"), ("text", '{"k0": "a"}')):
        (tmp_path / f"{name}.json").write_text(content)
        spec = spec.replace(f"{{{name}}}", str(tmp_path / f"{name}.json"))
    with pytest.raises(ConfigError, match=message):
        load_profile(spec)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"policies": "lruu"}, UnknownPolicyError, "lru"),
        ({"policies": "min"}, ConfigError, "min knows the future"),
        ({"policies": []}, ConfigError, "at least one"),
        ({"policies": "kvflow"}, ConfigError, "needs the hint 'steps'"),
        ({"policies": DummyPolicy(), "seeds": 2}, ConfigError, "serves one pool"),
        ({"capacities": 1}, ConfigError, "at least 2"),
        ({"capacities": 0}, ConfigError, "capacity: 0"),
        ({"schedulers": "fifoo"}, UnknownSchedulerError, "fifo"),
        ({"seeds": 0}, ConfigError, "seeds: 0"),
        ({"priorities": [1.5] * 3}, ConfigError, "integers of shape"),
        ({"priorities": [1]}, ConfigError, r"shape \(1,\)"),
        ({"p_star": 0}, ConfigError, "p_star"),
        ({"profile": 3}, ConfigError, "profile: 3"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    trace = served_trace([Sent(0, 4, 1)] * 3)
    given: dict[str, Any] = {"policies": "lru", "capacities": 10, **arguments}
    with pytest.raises(error, match=message):
        simulate(trace, **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(0), "token_budget: 0"),
        (lambda: Limits(8, 9), "max_sequences: 9 is above the token budget 8"),
        (lambda: Limits(8, True), "max_sequences: True"),
        (lambda: SimulationOptions(preemption="first"), "'first' is none of last, priority, cost"),
        (lambda: SimulationOptions(answers="some"), "answers: 'some'"),
        (lambda: SimulationOptions(points=1), "points: 1"),
        (lambda: ClientOptions("closed", "fast"), "rate: 'fast'"),  # type: ignore[arg-type]
    ],
)
def test_bad_options(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_limits_follow_a_small_budget() -> None:
    assert Limits.of(100) == Limits(100, 100)
    assert Limits.of(8192) == Limits(8192, 1024)
    assert Limits.of(100, 3) == Limits(100, 3)
