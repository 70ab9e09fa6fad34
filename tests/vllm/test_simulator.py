"""`kvopt simulate` under LRU against vLLM's own scheduler: the same hits, evictions, preemptions and ends, by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import random_program
from schedulers import SchedulerBench
from served import first_sessions, served_program, served_trace, simulated_events, vllm_events


@pytest.fixture(scope="module")
def bench(tiny_model: Path) -> Iterator[SchedulerBench]:
    made = SchedulerBench(tiny_model)
    made.config.model_config.max_model_len = 1_000_000
    yield made
    made.shutdown()


def test_50_random_programs(bench: SchedulerBench) -> None:
    """Exactly as vLLM, where no content is cached twice; else vLLM may hit another copy, and most are still equal."""
    kinds: Counter[str] = Counter()
    equal = with_copies = equal_with_copies = seed = 0
    while equal < 50:
        served = served_program(random_program(seed, calm=True))
        happened, copies = vllm_events(bench, served)
        same = simulated_events(served) == happened
        assert same or copies, seed
        kinds.update(kind for _, kind, _, _ in happened)
        equal += not copies
        with_copies += copies > 0
        equal_with_copies += same and copies > 0
        seed += 1
    assert kinds["preempted"] > 50
    assert kinds["evicted"] > 500
    assert equal_with_copies >= 0.8 * with_copies > 0


def test_recorded_agents(bench: SchedulerBench, shared_dir: Path, tmp_path: Path) -> None:
    """Prompts of up to 140,000 tokens of recorded sessions, in less memory than they need."""
    archive = shared_dir / "traces" / "agentic-400.tar.xz"
    served = served_trace(first_sessions(archive, tmp_path, 5, 30, step_seconds=0.2), 3950, 8192, 64)
    happened, _ = vllm_events(bench, served)
    assert simulated_events(served) == happened
    kinds = Counter(kind for _, kind, _, _ in happened)
    assert kinds["finished"] == 30
    assert kinds["evicted"] > 100
    assert kinds["preempted"] > 0
