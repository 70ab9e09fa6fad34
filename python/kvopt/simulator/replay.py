"""Replaying a trace under every pair of a policy and a capacity.

Each pair is one cell, one native call that holds no lock, so cells of native policies run side by side on as many
threads as there are cores. Policies written in Python need the interpreter and run one after another.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from kvopt import _core
from kvopt.cost import DEFAULT_P_STAR, check_p_star
from kvopt.errors import ConfigError, PolicyError, PolicyStateError
from kvopt.policies import Policy
from kvopt.simulator.measure import RequestWeights
from kvopt.simulator.needs import check_needs
from kvopt.simulator.policy_source import PolicyLike, breach, check_policy, new_policy
from kvopt.simulator.result import ReplayResult, ReplayRow

if TYPE_CHECKING:
    from kvopt.workload.base import Trace

Progress: TypeAlias = Callable[[int, "int | None", str], None]
"""Called with what is done, what there is in all (None when unknown), and a word for it."""

Rule: TypeAlias = Literal["prefix", "flat"]
"""Whether a block is of use only behind all blocks before it, or by itself, as papers on caches replay."""

OFFLINE = frozenset(info.name for info in _core.policies() if info.offline)
"""Policies that know the future."""

MAX_CAPACITY = 2**32 - 2
"""Blocks have 32-bit numbers."""


def replay(
    trace: Trace,
    policies: Sequence[PolicyLike] | PolicyLike,
    capacities: Sequence[int] | int,
    *,
    rule: Rule = "prefix",
    p_star: float = DEFAULT_P_STAR,
    state: bytes | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Replay `trace` under each of `policies` at each of `capacities` (blocks); repeats are replayed once.

    Under the flat `rule` every block of a request is referenced by itself, no request is skipped, and hits may be any
    blocks of a request: `cost_saved` is NaN then, because a prefill saves nothing behind its first missing block.

    `p_star` (tokens) sets the prefill cost of `cost_saved` and of policies with a cost model; `threads` is at most how
    many cells run at once (all cores unless given). `state`: what :func:`learn` returned; policies that learn go on
    from it, and PolicyStateError says why one of them cannot, or that none learns. Every argument is checked before
    any work starts: UnknownPolicyError names the nearest policy, ConfigError any other argument, and a hint that a
    policy needs and the trace lacks. A policy that breaks its contract ends the replay with PolicyError.
    """
    sizes = check_capacities(capacities)
    named = _check_policies(policies, len(sizes))
    check_needs(trace, named.values())
    rule = _check_rule(rule)
    p_star = check_p_star(p_star)
    workers = check_threads(threads)
    _check_state(state, named.values())
    cells = [_Cell(name, new_policy(policy), capacity) for capacity in sizes for name, policy in named.items()]
    rows = _Replay(trace, rule, p_star, state).run(cells, workers, progress or _silent)
    return ReplayResult(dict(trace.summary()) | {"rule": rule, "p_star": p_star}, tuple(rows))


def learn(
    trace: Trace,
    policy: str,
    capacity: int,
    *,
    rule: Rule = "prefix",
    p_star: float = DEFAULT_P_STAR,
    state: bytes | None = None,
) -> bytes:
    """What a policy has learned after `trace` in a cache of `capacity` blocks, going on from `state` if given.

    The bytes are for `state` of :func:`replay` and :func:`learn` and for `load_state` of pools, in any process. Raises
    UnknownPolicyError, ConfigError; PolicyStateError when the policy learns nothing, or does not take `state`.
    """
    (size,) = check_capacities(capacity)
    check_policy(policy)
    check_needs(trace, [policy])
    p_star = check_p_star(p_star)
    return _Replay(trace, _check_rule(rule), p_star, state).learned(policy, size)


@dataclass(frozen=True, slots=True)
class _Cell:
    name: str
    policy: str | Policy
    capacity: int


class _Replay:
    """One trace, and what all its cells share."""

    def __init__(self, trace: Trace, rule: Rule, p_star: float, state: bytes | None) -> None:
        self._rule = rule
        self._state = state
        self._prefix = trace.prefix
        # More blocks than this change nothing but the memory that the pool takes.
        self._enough = max(trace.unique_blocks, trace.prefix.longest_request) + 1
        self._block_tokens = trace.block_tokens
        self._p_star = p_star
        self._time = trace.time
        self._context = _context(trace)
        self._weights = RequestWeights(trace, p_star)

    def run(self, cells: list[_Cell], workers: int, report: Progress) -> list[ReplayRow]:
        rows: dict[int, ReplayRow] = {}

        def keep(index: int, row: ReplayRow) -> None:
            rows[index] = row
            report(len(rows), len(cells), "replays")

        report(0, len(cells), "replays")
        executor = ThreadPoolExecutor(min(workers, len(cells)), thread_name_prefix="kvopt-replay")
        try:
            native: dict[Future[ReplayRow], int] = {
                executor.submit(self._row, cell): index
                for index, cell in enumerate(cells)
                if isinstance(cell.policy, str)
            }
            for index, cell in enumerate(cells):
                if not isinstance(cell.policy, str):
                    keep(index, self._row(cell))
            for future in as_completed(native):
                keep(native[future], future.result())
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()
        return [rows[index] for index in range(len(cells))]

    def learned(self, policy: str, capacity: int) -> bytes:
        return self._replay(policy, capacity, save_state=True).state

    def _replay(self, policy: str | Policy, capacity: int, save_state: bool = False) -> _core.ReplayCounts:
        return _core.replay(
            self._prefix,
            self._time,
            policy,
            min(capacity, self._enough),
            rule=self._rule,
            block_tokens=self._block_tokens,
            p_star=self._p_star,
            context=self._context,
            state=self._state if _learns(policy) else None,
            save_state=save_state,
        )

    def _row(self, cell: _Cell) -> ReplayRow:
        try:
            counts = self._replay(cell.policy, cell.capacity)
        except PolicyError as error:
            raise breach(error, cell.policy, cell.capacity) from None
        figures = self._weights.figures(counts.hit_blocks, counts.skipped, prefix=self._rule == "prefix")
        return ReplayRow(
            policy=cell.name,
            capacity=cell.capacity,
            evictions=counts.evictions,
            seconds=counts.seconds,
            **asdict(figures),
        )


def check_capacity(capacity: int) -> int:
    """A capacity in blocks as an int; ConfigError unless it is a whole number from 1 to 2^32 - 2."""
    try:
        blocks = operator.index(capacity)
    except TypeError:
        blocks = None
    if blocks is None or isinstance(capacity, bool):
        raise ConfigError(f"capacity: {capacity!r} is not a whole number of blocks")
    if not 1 <= blocks <= MAX_CAPACITY:
        raise ConfigError(f"capacity: {blocks} is not from 1 to {MAX_CAPACITY} blocks")
    return blocks


def _check_policies(policies: Sequence[PolicyLike] | PolicyLike, capacities: int) -> dict[str, PolicyLike]:
    asked = [policies] if isinstance(policies, (str, type, Policy)) else list(policies)
    if not asked:
        raise ConfigError("policies: empty; name at least one policy")
    named: dict[str, PolicyLike] = {}
    for policy in asked:
        name = check_policy(policy, capacities)
        if named.setdefault(name, policy) != policy:
            raise ConfigError(f"policies: two different policies are called {name!r}")
    return named


def check_capacities(capacities: Sequence[int] | int) -> list[int]:
    """The capacities in blocks, without repeats; ConfigError for none, or for one that `check_capacity` refuses."""
    asked: Iterable[int] = capacities if isinstance(capacities, Iterable) else [capacities]
    sizes = list(dict.fromkeys(check_capacity(capacity) for capacity in asked))
    if not sizes:
        raise ConfigError("capacities: empty; give at least one capacity in blocks")
    return sizes


def _learns(policy: PolicyLike) -> bool:
    return isinstance(policy, str) and policy.partition(":")[0] not in OFFLINE and _core.BlockPool(2, policy).learns


def _check_state(state: bytes | None, policies: Iterable[PolicyLike]) -> None:
    # Each policy that learns takes it now, so that none refuses it in the middle of the work.
    if state is None:
        return
    learners = [policy for policy in policies if isinstance(policy, str) and _learns(policy)]
    if not learners:
        raise PolicyStateError("state: none of the policies learns anything that can be saved or loaded")
    for policy in learners:
        _core.BlockPool(2, policy).load_state(state)


def _check_rule(rule: Rule) -> Rule:
    if rule not in get_args(Rule):
        raise ConfigError(f"rule: {rule!r} is neither 'prefix' nor 'flat'")
    return rule


def check_threads(threads: int | None) -> int:
    """How many threads to use; ConfigError unless it is a whole number from 1 up, or None for all cores."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ConfigError(f"threads: {threads!r} is not a whole number from 1 up")
    return threads


def _context(trace: Trace) -> dict[str, NDArray[Any]]:
    # What a server knows when a request lets go of its blocks; see RequestInfo.
    return {
        "session": trace.session,
        "turn": trace.turn,
        "tool": trace.tool,
        "output_tokens": trace.output_tokens,
        "gap": trace.gap,
        "stop": trace.stop,
        "subagent": trace.subagent.astype(np.uint8),
        "steps": trace.steps,
        "return_probability": trace.return_probability,
    }


def _silent(done: int, total: int | None, what: str) -> None:
    pass
