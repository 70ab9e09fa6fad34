"""Workloads that a learning policy may lose to LRU on, and hints that lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kvopt._core import PrefixTraceBuilder
from kvopt.workload import StopReason, Trace

BLOCK_TOKENS = 16


def trace_of(
    chains: Sequence[Sequence[int]],
    gap: float = 1.0,
    output_tokens: ArrayLike = 64,
    together: int = 1,
) -> Trace:
    """One request a chain of block ids, `gap` seconds apart; answers of so many tokens, one number or [requests].

    `together` requests at a time come at the time of the first of them.
    """
    builder = PrefixTraceBuilder()
    for chain in chains:
        builder.append(np.array(chain, np.uint64))
    columns = {
        "time": np.arange(len(chains)) // together * (together * gap),
        "input_tokens": np.array([len(chain) for chain in chains], np.uint32) * BLOCK_TOKENS,
        "output_tokens": np.broadcast_to(np.asarray(output_tokens, np.uint32), len(chains)),
    }
    return Trace.from_columns(builder.finish(), columns, name="made", block_tokens=BLOCK_TOKENS)


def chain(number: int, blocks: int) -> list[int]:
    """A chain that shares nothing with another number's; at most 100 blocks."""
    return [100 * number + block for block in range(blocks)]


def recently_used(requests: int) -> list[list[int]]:
    """The more recently a chain of six was used, the sooner it is again: LRU is right."""
    draw = np.random.default_rng(1)
    recent = list(range(400))
    chains = []
    for _ in range(requests):
        recent.insert(0, recent.pop(min(int(draw.exponential(20)), 399)))
        chains.append(chain(recent[0], 6))
    return chains


def loop(capacity: int, blocks: int, rounds: int) -> list[list[int]]:
    """Chains in a circle that is one chain too long for the cache: LRU never hits."""
    length = capacity // blocks + 1
    return [chain(request % length, blocks) for request in range(length * rounds)]


def loop_with_scan(capacity: int) -> list[list[int]]:
    """The same of single blocks, each with a block behind it that never returns."""
    return [[request % (capacity + 1), 10_000 + request] for request in range(30 * capacity)]


def one_off(requests: int) -> list[list[int]]:
    """Scan: nothing ever comes back."""
    return [chain(request, 10) for request in range(requests)]


def uniform(requests: int) -> list[list[int]]:
    """Every chain is as likely as every other at any time."""
    draw = np.random.default_rng(5)
    return [chain(int(number), 12) for number in draw.integers(0, 200, requests)]


def abrupt(requests: int) -> list[list[int]]:
    """Chains that return fast, then chains that never do, then fast ones again."""
    draw = np.random.default_rng(6)
    fast = [chain(int(number), 12) for number in draw.integers(0, 40, requests)]
    never = [chain(10_000 + request, 12) for request in range(requests)]
    again = [chain(20_000_000 + int(number), 12) for number in draw.integers(0, 40, requests)]
    return fast + never + again


def turncoats(requests: int, period: int, lag: int = 40) -> tuple[list[list[int]], list[int]]:
    """Chains and answer lengths: of short and long answers one kind returns `lag` requests later, most of the time.

    Which kind changes every `period` requests, so what was learned is wrong. A cache of 10 * lag blocks holds all that
    returns under LRU.
    """
    draw = np.random.default_rng(3)
    chains: list[list[int]] = []
    output: list[int] = []
    waiting: dict[int, int] = {}
    for request in range(requests):
        good = request // period % 2
        number = waiting.pop(request, None)
        kind = good
        if number is None:
            number = request
            kind = int(draw.integers(2))
        if kind == good and draw.random() < 0.85:
            waiting[request + lag] = number
        chains.append(chain(number, 10))
        output.append(4096 if kind else 16)
    return chains, output


def lies(trace: Trace) -> Iterator[tuple[str, Trace]]:
    """The trace as a server would see it that is wrong about stop reasons, sessions and answers; what is wrong."""
    draw = np.random.default_rng(1)
    request = np.arange(trace.requests)
    mixed = draw.permutation(trace.requests)
    swap = np.arange(max(StopReason) + 1, dtype=np.uint8)
    swap[[StopReason.TOOL_USE, StopReason.END_TURN]] = StopReason.END_TURN, StopReason.TOOL_USE
    strange = {column: getattr(trace, column)[mixed] for column in ("session", "turn", "gap", "subagent")}
    for what, columns in {
        "stop reasons mixed": {"stop": trace.stop[mixed]},
        "stop reasons swapped halfway": {"stop": np.where(request < trace.requests // 2, trace.stop, swap[trace.stop])},
        "stop reasons swapped at times": {"stop": np.where(request // 2000 % 2, trace.stop, swap[trace.stop])},
        "sessions mixed": strange,
        "one session": {"session": np.zeros(trace.requests, np.int32)},
        "all mixed": strange
        | {"stop": draw.permutation(trace.stop), "output_tokens": draw.permutation(trace.output_tokens)},
    }.items():
        yield (
            what,
            Trace.from_columns(
                trace.prefix,
                trace.columns() | columns,
                name=trace.name,
                block_tokens=trace.block_tokens,
                tool_names=trace.tool_names,
            ),
        )
