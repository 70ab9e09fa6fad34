"""How long an idle session's blocks are worth holding: the rules, and the decision with its reasons.

A rule is asked about a session that has been idle for a, whose blocks' loss would cost it B = loss + queueing seconds,
on m blocks that nobody else pays for, while a block-second costs `price` seconds of others' job time:

    paper          argmax over τ of  P(τ)·(R + T·η) − τ           Continuum (v6, §4.2), which bills τ, not the time held
    expected-hold  argmax over τ of  P(τ)·B − E[min(D, τ)]        the same, billed for the time that is really held
    index          while (n·loss + queueing)·g(a)/m ≥ price        the same with both prices as they are now
    fixed          a constant, 0 for tools that take longer        Continuum's published code (2 seconds)
    infercept      while a ≤ waste of a discard ÷ own memory       InferCept (ICML 2024), the call's age as its estimate

n is how many requests a second of prefill delays: the server computes one after another, so that those who run and
those who wait all lose the second that one of them has to compute again. Memory is charged alike, for all who wait.

All but `paper` and `fixed` look at the age, so they are asked again while the session is idle.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from kvopt.continuum.curve import GONE, ReturnCurve


class Question(NamedTuple):
    """What a rule knows of one idle session."""

    curve: ReturnCurve
    """The law of its gap."""
    loss: float
    """Seconds of prefill or reload that losing the blocks costs."""
    age: float = 0.0
    """Seconds idle so far."""
    queueing: float = 0.0
    """Seconds that it would wait longer, had it lost its blocks."""
    blocks: int = 1
    """Blocks that would be free without it; those shared with others do not count."""
    price: float = 1.0
    """Seconds of job time that a block-second costs; 0 while memory is slack."""
    others: float = 0.0
    """Blocks of running requests, which a recomputation would delay."""
    delayed: float = 1.0
    """Requests that a second of its prefill delays, with itself."""
    tool: str | None = None
    """The tool that it waits for, if any (several in one name)."""
    expected_gap: float | None = None
    """Seconds the whole gap will last, as the client says."""


class Decision(NamedTuple):
    """Whether to hold the blocks, for how long, and why."""

    ttl: float
    """Seconds from now; infinite while nothing changes."""
    keep: bool
    value: float
    """G(a), the seconds saved a block-second held: what sessions compare by, whatever the rule."""
    reasons: tuple[str, ...]
    numbers: dict[str, float]


def best_paper_ttl(curve: ReturnCurve, benefit: float) -> float:
    """The argmax over the edges of P(τ)·benefit − τ, in seconds."""
    return float(curve.edges[(curve.returned * benefit - curve.edges).argmax()])


def best_hold_ttl(curve: ReturnCurve, benefit: float, cost: float = 1.0, age: float = 0.0) -> float:
    """The argmax over edges from `age` on of P(τ)·benefit − cost·E[min(D, τ)], as seconds after `age`.

    `cost` is seconds a second held. Infinite where holding pays until the session is back. It is also where the index
    benefit·g falls below `cost`: until there some longer hold pays, from there on none does.
    """
    first = curve.edge_before(age)
    if first == 0:
        value = curve.returned * benefit
        value -= curve.held if cost == 1.0 else curve.held * cost
    else:
        value = benefit * curve.returned[first:] - cost * curve.held[first:]
    best = first + int(value.argmax())
    if curve.survival[best] < GONE:
        return math.inf
    return max(float(curve.edges[best]) - age, 0.0) if best > first else 0.0


def net_value(curve: ReturnCurve, ttl: float, benefit: float, cost: float = 1.0) -> float:
    """Seconds gained by holding for `ttl`: P(return within it)·benefit − cost·E[min(D, ttl)]."""
    return (1.0 - curve.survival_at(ttl)) * benefit - cost * curve.held_until(ttl)


class TtlRule:
    """Base of all rules: :meth:`decide`, and what a rule may learn from. A rule serves one coordinator."""

    name: ClassVar[str]

    def decide(self, q: Question) -> Decision:
        """Decide on one idle session; no effect."""
        raise NotImplementedError

    def on_gap(self, tool: str, seconds: float) -> None:
        """Note how long a session was away for this tool."""

    def on_wait(self, seconds: float) -> None:
        """Note how long a request waited whose session had lost its blocks."""

    def on_program(self, requests: int) -> None:
        """Note that a session ended after so many requests."""


class ExpectedHold(TtlRule):
    """Continuum's rule with the bill corrected: a block that is hit after a second was held for a second."""

    name = "expected-hold"

    def decide(self, q: Question) -> Decision:
        """See the module."""
        benefit = q.loss + q.queueing
        ttl = best_hold_ttl(q.curve, benefit, age=q.age)
        reason = "holding pays until then" if ttl > 0.0 else "no time to hold pays"
        return decision_of(q, ttl, ttl > 0.0, reason)


class Index(TtlRule):
    """Hold while the retention index is at least the price of memory."""

    name = "index"

    def decide(self, q: Question) -> Decision:
        """See the module. With a price of 0 the answer is to hold, whatever the curve."""
        benefit = q.loss * q.delayed + q.queueing
        if q.price <= 0.0:
            return decision_of(q, math.inf, benefit > 0.0, "memory is slack: holding costs nobody anything")
        if benefit <= 0.0:
            return decision_of(q, 0.0, False, "losing the blocks costs nothing")
        ttl = best_hold_ttl(q.curve, benefit, q.price * max(q.blocks, 1), q.age)
        reason = "index is at least the price of memory" if ttl > 0.0 else "index is below the price of memory"
        return decision_of(q, ttl, ttl > 0.0, reason)


class InferCept(TtlRule):
    """Preserve until the memory held so far is worth more than a discard wastes.

    The discard recomputes in chunks: half of the own memory-time of a prefill, and all of the other requests' that wait
    (WasteChunkD with T(C/n) ≈ T(C)/n). With an expected gap, as in the released code, it is compared at once.
    """

    name = "infercept"

    def decide(self, q: Question) -> Decision:
        """See the class."""
        threshold = q.loss * (0.5 + q.others / max(q.blocks, 1))
        if q.expected_gap is not None:
            keep = q.expected_gap <= threshold
            reason = (
                "expected gap wastes less than a discard" if keep else "a discard wastes less than the expected gap"
            )
            return decision_of(q, max(threshold - q.age, 0.0) if keep else 0.0, keep, reason)
        keep = q.age < threshold
        reason = "the call is younger than a discard is worth" if keep else "the call is older than a discard is worth"
        return decision_of(q, max(threshold - q.age, 0.0), keep, reason)


def decision_of(q: Question, ttl: float, keep: bool, *reasons: str, **numbers: float) -> Decision:
    """The answer to a question, with the index and what it was computed from."""
    value = (q.loss + q.queueing) * q.curve.index_at(q.age) / max(q.blocks, 1)
    known = {"loss": q.loss, "queueing": q.queueing, "price": q.price, "blocks": float(q.blocks), "age": q.age}
    if numbers:
        known |= numbers
    return Decision(ttl if keep else 0.0, keep, value, reasons, known)
