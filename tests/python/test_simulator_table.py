"""Twelve runs small enough to be computed by hand. Blocks hold 4 tokens.

A step takes 10 ms, 1 ms for each token of a prompt and 2 ms for each request that decodes. The first token of an answer
comes with the last chunk of its prompt; the others take a step each. Times are in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kvopt.simulator import LinearStepTime
from served_traces import Sent, events, serve, served_trace

TIME = LinearStepTime(k0=10, k1=1, d1=2)
SHOWN = {"refused", "admitted", "first_token", "preempted", "finished", "evicted", "aborted"}


@dataclass(frozen=True)
class Case:
    name: str
    requests: list[Sent]
    blocks: int
    """That requests can use: without the null block."""
    events: list[tuple[float, str, int, int]]
    """Milliseconds, what, request, amount."""
    totals: dict[str, int] = field(default_factory=dict)
    prefill: dict[str, int] = field(default_factory=dict)
    """Tokens by cause."""
    options: dict[str, Any] = field(default_factory=dict)


CASES = [
    # Prefill 10 + 8 = 18; two more tokens at 10 + 2 each: 30, 42. The last token is never computed.
    Case(
        "alone",
        [Sent(0, 8, 3, [0, 1])],
        10,
        [(0, "admitted", 0, 0), (18, "first_token", 0, 1), (42, "finished", 0, 3)],
        {"steps": 3, "hit_tokens": 0, "prompt_tokens": 8, "output_tokens": 3},
        {"cold": 4, "tail": 4},
    ),
    # Chunks of 4, 4 and 2 tokens: 14 + 14 + 12 = 40.
    Case(
        "chunked",
        [Sent(0, 10, 1, [0, 1])],
        10,
        [(0, "admitted", 0, 0), (40, "first_token", 0, 1), (40, "finished", 0, 1)],
        {"steps": 3},
        {"cold": 8, "tail": 2},
        {"token_budget": 4},
    ),
    # The second prompt is cached whole, but its last token must be computed, and so its last block: 10 + 4.
    Case(
        "whole prompt cached",
        [Sent(0, 8, 1, [0, 1]), Sent(1, 8, 1, [0, 1])],
        10,
        [
            (0, "admitted", 0, 0), (18, "first_token", 0, 1), (18, "finished", 0, 1),
            (1000, "admitted", 1, 4), (1014, "first_token", 1, 1), (1014, "finished", 1, 1),
        ],
        {"hit_tokens": 4, "prompt_tokens": 16},
        {"cold": 4, "tail": 8},
    ),
    # 10 tokens fill two blocks; the third is partial and cannot be hit: 2 tokens again, 12 ms.
    Case(
        "partial block",
        [Sent(0, 10, 1, [0, 1]), Sent(1, 10, 1, [0, 1])],
        10,
        [
            (0, "admitted", 0, 0), (20, "first_token", 0, 1), (20, "finished", 0, 1),
            (1000, "admitted", 1, 8), (1012, "first_token", 1, 1), (1012, "finished", 1, 1),
        ],
        {"hit_tokens": 8},
        {"cold": 8, "tail": 4},
    ),
    # Both come at once. The first one's blocks can be hit as soon as they are planned: 8 + 4 tokens, 22 ms.
    Case(
        "shared within a step",
        [Sent(0, 8, 1, [0, 1]), Sent(0, 8, 1, [0, 1])],
        10,
        [
            (0, "admitted", 0, 0), (0, "admitted", 1, 4),
            (22, "first_token", 0, 1), (22, "finished", 0, 1), (22, "first_token", 1, 1), (22, "finished", 1, 1),
        ],
        {"steps": 1, "hit_tokens": 4},
    ),
    # The second comes at 15, during the step from 14 to 26, and is prefilled while the first decodes: 26 + 20 = 46.
    # Then both decode, 14 a step: the first has 4 tokens at 60; the second has 3 at 60 + 12 = 72.
    Case(
        "prefill beside decoding",
        [Sent(0, 4, 4, [0]), Sent(0.015, 8, 3, [1, 2])],
        10,
        [
            (0, "admitted", 0, 0), (14, "first_token", 0, 1), (26, "admitted", 1, 0), (46, "first_token", 1, 1),
            (60, "finished", 0, 4), (72, "finished", 1, 3),
        ],
        {"steps": 5},
    ),
    # The second needs 3 blocks when 2 are free, and blocks the third, which needs one. The first takes its third block
    # for its 9th token and ends at 18 + 4 · 12 = 66 with three full blocks cached. Of the 4 that the others need, one
    # is empty, three are evicted. Both prompts in one step: 66 + 10 + 16.
    Case(
        "whole prompt must fit",
        [Sent(0, 8, 5, [0, 1]), Sent(0, 12, 1, [2, 3, 4]), Sent(0, 4, 1, [5])],
        4,
        [
            (0, "admitted", 0, 0), (18, "first_token", 0, 1), (66, "finished", 0, 5),
            (66, "evicted", 1, 2), (66, "admitted", 1, 0), (66, "evicted", 2, 1), (66, "admitted", 2, 0),
            (92, "first_token", 1, 1), (92, "finished", 1, 1), (92, "first_token", 2, 1), (92, "finished", 2, 1),
        ],
        {"evictions": 3, "preemptions": 0},
    ),
    # Two prompts of 7 tokens, 2 blocks each: 10 + 14 = 24. One step of both: 38. For its 9th token the first needs a
    # block; the second, admitted last, gives way with 8 tokens computed, its tail is evicted, and the first goes on
    # alone: 50, 62, 74, 86. The second needs 3 blocks for 9 tokens and waits until then. Of its own, the first block is
    # left: 4 tokens are read again, 5 computed (4 for the second time, and the last): 86 + 15 = 101, then 3 · 12: 137.
    Case(
        "preemption",
        [Sent(0, 7, 6, [0]), Sent(0, 7, 6, [1])],
        4,
        [
            (0, "admitted", 0, 0), (0, "admitted", 1, 0), (24, "first_token", 0, 1), (24, "first_token", 1, 1),
            (38, "preempted", 1, 8), (38, "evicted", 0, 1), (86, "finished", 0, 6),
            (86, "evicted", 1, 2), (86, "admitted", 1, 4), (137, "finished", 1, 6),
        ],
        {"preemptions": 1, "hit_tokens": 0, "reread_tokens": 4, "evictions": 3, "prompt_tokens": 14},
        {"cold": 8, "tail": 7, "preempted": 4},
    ),
    # 17 tokens need 5 blocks of 4 there are. 16 would do: the last token of an answer needs no place.
    Case(
        "larger than the cache",
        [Sent(0, 14, 4, [0, 1, 2]), Sent(0, 14, 3, [0, 1, 2])],
        4,
        [
            (0, "refused", 0, 5), (0, "admitted", 1, 0), (24, "first_token", 1, 1), (48, "finished", 1, 3),
        ],
        {"refused": 1, "finished": 1, "requests": 2},
    ),
    # Of the first prompt's three blocks only the last is evicted for the second prompt, which finds one empty; 8 tokens
    # of the first are hit when it comes again, and its last block, computed before, must be computed anyway. It takes
    # the place of the second prompt's last block: what was used longer ago is on its own path.
    Case(
        "deepest block first",
        [Sent(0, 12, 1, [0, 1, 2]), Sent(1, 8, 1, [3, 4]), Sent(2, 12, 1, [0, 1, 2])],
        4,
        [
            (0, "admitted", 0, 0), (22, "first_token", 0, 1), (22, "finished", 0, 1),
            (1000, "evicted", 1, 1), (1000, "admitted", 1, 0), (1018, "first_token", 1, 1), (1018, "finished", 1, 1),
            (2000, "evicted", 2, 1), (2000, "admitted", 2, 8), (2014, "first_token", 2, 1), (2014, "finished", 2, 1),
        ],
        {"evictions": 2, "hit_tokens": 8},
        {"cold": 12, "tail": 12},
    ),
    # Three blocks, of which the second prompt evicts two (its own first and the other's last), so that the first prompt
    # has one left: 4 tokens hit, 4 computed again because they were evicted, 4 in its last block: 10 + 8.
    Case(
        "recomputed after eviction",
        [Sent(0, 12, 1, [0, 1, 2]), Sent(1, 8, 1, [3, 4]), Sent(2, 12, 1, [0, 1, 2])],
        3,
        [
            (0, "admitted", 0, 0), (22, "first_token", 0, 1), (22, "finished", 0, 1),
            (1000, "evicted", 1, 2), (1000, "admitted", 1, 0), (1018, "first_token", 1, 1), (1018, "finished", 1, 1),
            (2000, "evicted", 2, 2), (2000, "admitted", 2, 4), (2018, "first_token", 2, 1), (2018, "finished", 2, 1),
        ],
        {"evictions": 4, "hit_tokens": 4},
        {"cold": 12, "evicted": 4, "tail": 12},
    ),
    # A session in a closed loop: 10 + 6, then 2 · 12 for the answer: 40. The next turn comes 500 later. It begins with
    # the 6 + 3 tokens, of which 8 are computed and fill two blocks, the second with the answer in it: 8 hit, 2
    # computed.
    Case(
        "next turn",
        [
            Sent(0, 6, 3, [0], {"session": 3, "turn": 0}),
            Sent(9, 10, 1, [0, 1], {"session": 3, "turn": 1, "gap": 0.5}),
        ],
        10,
        [
            (0, "admitted", 0, 0), (16, "first_token", 0, 1), (40, "finished", 0, 3),
            (540, "admitted", 1, 8), (552, "first_token", 1, 1), (552, "finished", 1, 1),
        ],
        {"sessions": 1, "hit_tokens": 8},
        {"cold": 4, "tail": 4},
        {"mode": "closed"},
    ),
]  # fmt: skip


def test_there_are_twelve() -> None:
    assert len({case.name for case in CASES}) == 12


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("jump", [True, False], ids=["jumping", "step by step"])
def test_case(case: Case, jump: bool) -> None:
    run = serve(served_trace(case.requests), case.blocks, TIME, jump=jump, **case.options)
    found = [event for event in events(run) if event[1] in SHOWN]
    assert [event[1:] for event in found] == [event[1:] for event in case.events]
    assert [event[0] * 1000 for event in found] == pytest.approx([event[0] for event in case.events])
    assert {name: getattr(run.totals, name) for name in case.totals} == case.totals
    if case.prefill:
        assert {cause: figures["tokens"] for cause, figures in run.prefill.items() if figures["tokens"]} == case.prefill


def test_latencies_of_the_case_with_a_preemption() -> None:
    case = next(case for case in CASES if case.name == "preemption")
    latency = serve(served_trace(case.requests), case.blocks, TIME).latency_s
    # Answers took 86 - 24 and 137 - 24 for 5 tokens after the first.
    assert latency["ttft"].mean == pytest.approx(0.024)
    assert latency["time_per_token"].max == pytest.approx((0.137 - 0.024) / 5)
    assert latency["end_to_end"].p50 == pytest.approx((0.086 + 0.137) / 2)
    assert latency["queueing"].max == 0.0


def test_block_seconds_of_the_case_with_a_second_eviction() -> None:
    case = next(case for case in CASES if case.name == "recomputed after eviction")
    totals = serve(served_trace(case.requests), case.blocks, TIME).totals
    # Held: 3 blocks for 22, 2 for 18, 3 for 18 ms. Cached from 22 to 1000 ms: 3; then 1; from 1018 to 2000: 3.
    assert totals.held_block_s == pytest.approx(0.066 + 0.036 + 0.054)
    # Two of the first three go at 1000, one is hit at 2000; two of the second prompt go at 2000.
    assert totals.wasted_block_s == pytest.approx(2 * 0.978 + 2 * 0.982)
    assert totals.useful_block_s == pytest.approx(2.000 - 0.022)
    assert totals.unresolved_block_s == 0.0
    assert totals.cached_block_s == pytest.approx(3 * 0.978 + 0.018 + 3 * 0.982)
