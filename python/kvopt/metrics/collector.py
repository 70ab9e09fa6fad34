"""What one run measures: latencies, tokens by cause, evictions, memory over time.

Two modes with one interface: exact keeps every latency, bounded keeps sketches of fixed size. Everything else is totals
and series of bounded length in both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kvopt.metrics.events import EventKind, EventLog
from kvopt.metrics.sample import ExactSample, QuantileSketch, Sample
from kvopt.metrics.series import TimeSeries

CAUSES = ("cold", "evicted", "preempted", "tail")
"""Why a token was prefilled: never computed before; computed, but evicted since; computed for the same request before
it was preempted; or in the last block of a prompt, which is never hit."""

LATENCIES = ("ttft", "time_per_token", "end_to_end", "queueing", "job_completion")
"""Seconds: arrival to first token; between tokens of an answer, its mean; arrival to last token; arrival to first
admission; first arrival of a session to its last answer."""


@dataclass(slots=True)
class PrefillLedger:
    """Prefilled tokens, and the milliseconds that they added to steps, by cause."""

    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))


@dataclass(slots=True)
class Totals:
    """Counts over a run."""

    requests: int = 0
    """That came to the server."""
    finished: int = 0
    refused: int = 0
    """Larger than the cache."""
    aborted: int = 0
    unsent: int = 0
    """Never came, because their session was given up."""
    sessions: int = 0
    """Whose every request was answered."""
    steps: int = 0
    prompt_tokens: int = 0
    """Of the requests that were admitted, once each."""
    hit_tokens: int = 0
    """Found cached at the first admission."""
    reread_tokens: int = 0
    """Found cached again after a preemption: no real hits."""
    loaded_tokens: int = 0
    """Loaded from another tier, at any admission."""
    output_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0
    """Blocks that lost their content for room."""
    evicted_hits: int = 0
    """Hits that those blocks had had, added up."""
    busy_s: float = 0.0
    """Seconds in steps."""
    held_block_s: float = 0.0
    """Block-seconds held by requests."""
    cached_block_s: float = 0.0
    """Block-seconds held by nobody but cached: the sum of the next three."""
    useful_block_s: float = 0.0
    """Of these, before a hit."""
    wasted_block_s: float = 0.0
    """Before an eviction."""
    unresolved_block_s: float = 0.0
    """Still cached at the end."""


class Collector:
    """The books of one run; `exact` as in the module's text. With `log`, events are kept too."""

    def __init__(self, *, exact: bool = True, log: EventLog | None = None, points: int = 400) -> None:
        self.totals = Totals()
        self.prefill = PrefillLedger()
        self.log = log
        make: type[ExactSample] | type[QuantileSketch] = ExactSample if exact else QuantileSketch
        self.latency: dict[str, Sample] = {name: make() for name in LATENCIES}
        self.eviction_age: Sample = QuantileSketch()
        """Seconds since the last use of evicted blocks; those that go together count with their mean."""
        self.series = TimeSeries(
            ("held_blocks", "cached_blocks", "running", "waiting"),
            ("arrivals", "prompt_tokens", "hit_tokens", "prefilled_tokens", "evictions", "preemptions"),
            points,
        )

    def prefilled(self, cause: str, tokens: int, ms: float) -> None:
        """Add prefilled tokens to a cause."""
        self.prefill.tokens[cause] += tokens
        self.prefill.ms[cause] += ms

    def event(self, time: float, kind: EventKind, request: int, amount: int) -> None:
        """Log an event, where there is a log."""
        if self.log is not None:
            self.log.add(time, kind, request, amount)

    def evicted(self, time: float, request: int, blocks: int, age: float, hits: int) -> None:
        """Note `blocks` evicted together for a request: the mean seconds since their last use, their hits added up."""
        age = max(age, 0.0)
        self.totals.evictions += blocks
        self.totals.evicted_hits += hits
        self.totals.wasted_block_s += blocks * age
        self.eviction_age.add(age, blocks)
        self.series.count(time, "evictions", blocks)
        self.event(time, EventKind.EVICTED, request, blocks)

    def to_dict(self) -> dict[str, Any]:
        """All figures as JSON values (NaN where there is nothing)."""
        return {
            "totals": asdict(self.totals),
            "prefill": {
                cause: {"tokens": self.prefill.tokens[cause], "seconds": self.prefill.ms[cause] / 1000}
                for cause in CAUSES
            },
            "latency_s": {name: asdict(sample.distribution()) for name, sample in self.latency.items()},
            "latency_histogram": {name: sample.histogram() for name, sample in self.latency.items()},
            "eviction_age_s": asdict(self.eviction_age.distribution()),
            "series": self.series.to_dict(),
        }
