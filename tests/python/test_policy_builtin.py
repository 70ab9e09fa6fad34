"""The built-in policies: their list, how they are named, and figures that can be followed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kvopt._core import PrefixTrace, PrefixTraceBuilder, lru_stack_distances, replay
from kvopt.errors import ConfigError, PolicyError, PoolError, TraceError, UnknownPolicyError
from kvopt.policies import DummyPolicy, parse_policy, policies


def trace_of(*requests: str) -> PrefixTrace:
    """Each letter is a token, each word a request."""
    builder = PrefixTraceBuilder()
    for request in requests:
        builder.append(np.array([ord(letter) for letter in request], np.uint64))
    return builder.finish()


TRACE = trace_of("abcd", "ax", "abcd", "pq", "ax", "abc")

# Capacity 6. State after each request, oldest use first (of one request the deepest block first):
#   lru  abcd: 0 hit, d c b a          ax: hits a, stores x: d c b x a       abcd: hits 4: x d c b a (5 blocks)
#        pq: 6 blocks, one too many, x goes: d c b a q p                     ax: hits a, x needs d's place: c b q p x a
#        abc: hits abc (b, c still there): q p x c b a                       hits 0+1+4+0+1+3 = 9, evictions 2
#   min  up to pq as above. Next uses then: a at ax; b c at abc; x at ax; d never: d goes: a b c x p q
#        ax: hits both. abc: hits all three.                                 hits 0+1+4+0+2+3 = 10, evictions 1
#   fifo of the leaves the one stored first: pq needs one: leaves d (stored by request 0) and x (1): d goes.
#        ax: hits both; abc hits 3.                                          hits 0+1+4+0+2+3 = 10, evictions 1
#   lfu  hits so far: a 2, b c d 1, x 0: for pq x goes. ax: hits a; leaves d (1 hit) and q (0): q goes.
#        abc: hits 3.                                                        hits 0+1+4+0+1+3 = 9, evictions 2
#   an infinite cache: 0+1+4+0+2+3 = 10 of 17 references, no evictions
BY_HAND = {
    "lru": ([0, 1, 4, 0, 1, 3], 2),
    "min": ([0, 1, 4, 0, 2, 3], 1),
    "fifo": ([0, 1, 4, 0, 2, 3], 1),
    "lfu": ([0, 1, 4, 0, 1, 3], 2),
    "priority": ([0, 1, 4, 0, 1, 3], 2),  # nobody sets a priority: lru
}


@pytest.mark.parametrize("policy", BY_HAND)
def test_figures_by_hand(policy: str) -> None:
    counts = replay(TRACE, np.arange(6.0), policy, 6)
    assert (counts.hit_blocks.tolist(), counts.evictions) == BY_HAND[policy]


@pytest.mark.parametrize("policy", [*BY_HAND, "min-bypass", "dummy"])
def test_an_infinite_cache_hits_all_that_was_ever_seen(policy: str) -> None:
    counts = replay(TRACE, np.arange(6.0), policy, 1000)
    assert counts.hit_blocks.tolist() == [0, 1, 4, 0, 2, 3]
    assert counts.evictions == 0
    assert TRACE.block_references == 17


def test_requests_as_long_as_the_cache_are_skipped() -> None:
    # At 4 blocks abcd is skipped: ax stores, pq stores (4 blocks), ax hits 2, abc hits a and needs b, c: q, p go.
    counts = replay(TRACE, np.arange(6.0), "lru", 4)
    assert counts.skipped.tolist() == [True, False, True, False, False, False]
    assert counts.hit_blocks.tolist() == [0, 0, 0, 0, 2, 1]
    assert counts.evictions == 2


def test_bypass_leaves_out_what_is_never_used_again() -> None:
    # 2 blocks, each request one. a stays although b comes; b is never used again and is not kept.
    trace = trace_of("a", "c", "b", "a", "c")
    assert replay(trace, np.arange(5.0), "min", 2).hit_blocks.sum() == 1
    assert replay(trace, np.arange(5.0), "min-bypass", 2).hit_blocks.sum() == 2


def test_stack_distances_by_hand() -> None:
    # abab: b, a at distance 1 each need 2 blocks; the trace is a, b, a, b with single blocks.
    distances = lru_stack_distances(trace_of("a", "b", "a", "b", "b"))
    assert distances.hits_at([1, 2, 3]).tolist() == [1, 3, 3]
    assert distances.request_hits_at(2).tolist() == [0, 0, 1, 1, 1]
    assert distances.block_references == 5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"capacity": 0}, ConfigError, "capacity is 0 blocks"),
        ({"capacity": -3}, ConfigError, "capacity is -3 blocks"),
        ({"policy": "lruu"}, UnknownPolicyError, "did you mean 'lru'"),
        ({"policy": 3}, ConfigError, "a policy is a name.*got 3"),
        ({"time": np.arange(5.0)}, TraceError, "column time has 5 entries for 6 requests"),
        ({"time": np.array([0, 1, 2, 1, 4, 5.0])}, PoolError, "time 1"),
        ({"time": np.array([0, 1, 2, np.nan, 4, 5.0])}, PoolError, "time nan"),
        ({"rule": "tree"}, ConfigError, "rule is 'tree'"),
        ({"context": {"colour": np.zeros(6)}}, ConfigError, "context column 'colour' is unknown; known: session"),
        ({"context": {"session": np.zeros(5, np.int32)}}, TraceError, "column session has 5 entries for 6"),
        ({"context": {"session": np.zeros((6, 1), np.int32)}}, ConfigError, "'session' must be a one-dimensional"),
        ({"context": {"stop": np.full(6, 7, np.uint8)}}, ConfigError, "stop reason 7; it must be 0 to 4"),
    ],
)
def test_a_replay_refuses(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    good: dict[str, object] = {"prefix": TRACE, "time": np.arange(6.0), "policy": "lru", "capacity": 6}
    with pytest.raises(error, match=message):
        replay(**(good | arguments))  # type: ignore[arg-type]


def test_a_replay_with_a_policy_that_fails_says_so() -> None:
    class Lost(DummyPolicy):
        def choose(self, wanted: int, now: float) -> int:
            raise KeyError("where?")

    with pytest.raises(PolicyError, match=r"Lost\.choose raised KeyError: 'where\?'"):
        replay(TRACE, np.arange(6.0), Lost(), 6)


def test_every_policy_is_described_and_can_be_named() -> None:
    known = {policy.name: policy for policy in policies()}
    assert {"lru", "fifo", "lfu", "priority", "dummy", "min", "min-bypass"} <= known.keys()
    for name, policy in known.items():
        assert policy.summary
        assert policy.reference
        spec, parameters = parse_policy(name)
        assert (spec, list(parameters)) == (name, [parameter.name for parameter in policy.parameters])
        for parameter in policy.parameters:
            assert parameter.lowest <= parameter.default <= parameter.highest
            assert parameters[parameter.name] == parameter.default
    assert [policy.offline for policy in policies()] == sorted(policy.offline for policy in policies())


@pytest.mark.parametrize("spec", ["", "LRU", "lru ", "lru:", "lru:x", "lru:x=1", "lru,fifo"])
def test_a_spec_is_exact(spec: str) -> None:
    with pytest.raises(ConfigError):
        parse_policy(spec)
