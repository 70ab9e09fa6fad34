"""The second tier: what comes back from it, when, and what waits for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvopt.errors import ConfigError
from kvopt.simulator import LinearStepTime, TierOptions
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=10, k1=1, d1=2)
# The first prompt, another that evicts two of its three blocks, and the first again.
REQUESTS = [Sent(0, 12, 1, [0, 1, 2]), Sent(1, 8, 1, [3, 4]), Sent(2, 12, 1, [0, 1, 2])]


def times(requests: list[Sent], blocks: int, tier: TierOptions, **options: Any) -> list[tuple[float, str, int, int]]:
    run = serve(served_trace(requests), blocks, TIME, tier=tier, **options)
    shown = ("loading", "admitted", "first_token")
    return [
        (round(time * 1000, 6), kind, request, amount) for time, kind, request, amount in events(run) if kind in shown
    ]


def test_evicted_blocks_are_loaded_before_the_request_runs() -> None:
    # One block is left in the pool; the second comes from the tier in 3 + 1 · 2 ms. Then 4 tokens: 14 ms.
    assert times(REQUESTS, 3, TierOptions(10, 2.0, 3.0))[-3:] == [
        (2000, "loading", 2, 4),
        (2005, "admitted", 2, 4),
        (2019, "first_token", 2, 1),
    ]


def test_loaded_tokens_are_no_hits() -> None:
    totals = serve(served_trace(REQUESTS), 3, TIME, tier=TierOptions(10, 2.0)).totals
    assert (totals.hit_tokens, totals.loaded_tokens, totals.reread_tokens) == (4, 4, 0)


def test_a_tier_keeps_what_was_used_last() -> None:
    # Two blocks of tier: after the second prompt they hold its two.
    totals = serve(served_trace(REQUESTS), 3, TIME, tier=TierOptions(2, 2.0)).totals
    assert (totals.hit_tokens, totals.loaded_tokens) == (4, 0)


def test_loads_follow_each_other_and_others_run_meanwhile() -> None:
    # Two prompts come back at once, 100 ms each; a third, that is new, is computed while they load: 10 + 5.
    requests = [Sent(0, 5, 1, [0]), Sent(0.1, 5, 1, [1]), Sent(1, 24, 1, range(2, 8))]
    requests += [Sent(2, 5, 1, [0]), Sent(2, 5, 1, [1]), Sent(2, 5, 1)]
    found = times(requests, 6, TierOptions(10, 100.0))
    assert [event for event in found if event[2] >= 3] == [
        (2000, "loading", 3, 4),
        (2000, "loading", 4, 4),
        (2000, "admitted", 5, 0),
        (2015, "first_token", 5, 1),
        (2100, "admitted", 3, 0),
        (2111, "first_token", 3, 1),
        (2200, "admitted", 4, 0),
        (2211, "first_token", 4, 1),
    ]


def test_a_client_that_gives_up_during_a_load_frees_its_blocks() -> None:
    run = serve(served_trace(REQUESTS), 3, TIME, tier=TierOptions(10, 5000.0), patience=2.0)
    assert (4.0, "aborted", 2, 0) in events(run)
    assert (run.totals.aborted, run.totals.finished) == (1, 2)


def test_no_run_stalls_however_tight_memory_is() -> None:
    random = np.random.default_rng(11)
    loaded = 0
    for _ in range(40):
        requests, chains = [], [[0]]
        for index in range(int(random.integers(5, 25))):
            before = chains[int(random.integers(len(chains)))]
            blocks = [*before[: int(random.integers(len(before) + 1))], *range(100 * index, 100 * index + 4)]
            chains.append(blocks)
            tokens = len(blocks) * 4 + int(random.integers(1, 4))
            requests.append(Sent(index * 0.01, tokens, int(random.integers(1, 20)), blocks))
        options = {"token_budget": int(random.integers(4, 40)), "tier": TierOptions(60, float(random.integers(0, 9)))}
        run = serve(served_trace(requests), int(random.integers(10, 24)), TIME, **options)
        stepping = serve(served_trace(requests), run.capacity - 1, TIME, **options, jump=False)
        assert events(run) == events(stepping)
        loaded += run.totals.loaded_tokens
    assert loaded > 0


def test_specs() -> None:
    assert TierOptions.parse("blocks=20, block_ms=0.5") == TierOptions(20, 0.5)
    assert TierOptions.parse("blocks=20,block_ms=0.5,latency_ms=1") == TierOptions(20, 0.5, 1.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("blocks=20", "block_ms is missing"),
        ("block_ms=1", "blocks is missing"),
        ("blocks=2.5,block_ms=1", "blocks is '2.5'"),
        ("blocks=0,block_ms=1", "blocks is 0"),
        ("blocks=1,block_ms=-1", "block_ms is -1.0"),
        ("blocks=1,block_ms=nan", "block_ms is nan"),
        ("blocks=1,blocks=2,block_ms=1", "'blocks' is unknown or given twice"),
        ("size=1", "'size' is unknown"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TierOptions.parse(spec)
