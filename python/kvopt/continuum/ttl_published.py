"""The published rules, exactly: Continuum's as its paper has it, and as its code does it."""

from __future__ import annotations

import math
from collections import OrderedDict

from kvopt.continuum.paper_samples import WINDOW, K, PaperSamples
from kvopt.continuum.ttl import Decision, Question, TtlRule, decision_of
from kvopt.errors import ConfigError

_COLD_MEAN = 1.0  # seconds; the paper's default gap is exponential
_NO_TOOL = ""


class Paper(TtlRule):
    """Continuum (v6, §4.2): argmax over {0} ∪ S[f] of P(τ, f)·(R + T·η) − τ, decided once, when the turn ends.

    With 100 samples of all tools or fewer the gap is taken as exponential with mean 1 s and η as 1; with 100 of this
    tool or fewer the samples of all tools serve. `window` bounds what is kept. Raises ConfigError for one of 100 or
    fewer, with which the rule would never be warm.
    """

    name = "paper"

    def __init__(self, window: float = WINDOW) -> None:
        if not window > K:
            raise ConfigError(f"window: {window!r}; it must be above {K} samples")
        self.samples = PaperSamples(int(window))

    def decide(self, q: Question) -> Decision:
        """See the class; a session that has been idle for a holds what is left of its TTL."""
        sample = self.samples.sample(q.tool or _NO_TOOL)
        wait = self.samples.wait
        if sample is None:
            benefit = q.loss + wait
            ttl = _COLD_MEAN * math.log(benefit / _COLD_MEAN) if benefit > _COLD_MEAN else 0.0
            eta, why = 1.0, "cold start: an exponential gap of 1 s"
        else:
            eta = self.samples.eta
            benefit = q.loss + wait * eta
            ttl, _ = sample.best_ttl(benefit)
            why = "durations of this tool or of all"
        left = max(ttl - q.age, 0.0)
        reason = "benefit exceeds the time billed" if left > 0.0 else "no TTL pays its bill"
        return decision_of(q, left, left > 0.0, reason, why, wait=wait, eta=eta, benefit=benefit)

    def on_gap(self, tool: str, seconds: float) -> None:
        """A sample of S[f]."""
        self.samples.on_gap(tool, seconds)

    def on_wait(self, seconds: float) -> None:
        """A sample of T."""
        self.samples.on_wait(seconds)

    def on_program(self, requests: int) -> None:
        """A sample of η."""
        self.samples.on_program(requests)


class Fixed(TtlRule):
    """A constant TTL, as in Continuum's published code (commit 3761e57): 2 seconds.

    None without a tool, or when the tool's mean duration is above the constant. `every=1` takes every turn alike.
    """

    name = "fixed"

    def __init__(self, seconds: float = 2.0, every: float = 0.0) -> None:
        if not 0.0 <= seconds <= 1e6:
            raise ConfigError(f"seconds: {seconds!r}; it must be 0 to 1,000,000")
        if every not in {0, 1}:
            raise ConfigError(f"every: {every!r}; it must be 0 or 1")
        self._seconds = seconds
        self._every = bool(every)
        self._means: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def decide(self, q: Question) -> Decision:
        """See the class."""
        mean = self._means.get(q.tool or _NO_TOOL, (0, 0.0))[1]
        if not self._every and q.tool is None:
            return decision_of(q, 0.0, False, "no tool was called")
        if not self._every and mean > self._seconds:
            return decision_of(q, 0.0, False, "this tool takes longer than the TTL on average", mean=mean)
        left = max(self._seconds - q.age, 0.0)
        return decision_of(q, left, left > 0.0, "a fixed TTL", mean=mean)

    def on_gap(self, tool: str, seconds: float) -> None:
        """Keep the tool's mean."""
        n, mean = self._means.get(tool, (0, 0.0))
        self._means[tool] = (n + 1, mean + (seconds - mean) / (n + 1))
        self._means.move_to_end(tool)
        if len(self._means) > K * 10:
            self._means.popitem(last=False)
