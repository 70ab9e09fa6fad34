"""What one run measures: latencies, tokens by cause, evictions, memory over time.

Two modes with one interface: exact keeps every latency, bounded keeps sketches of fixed size. Everything else is totals
and series of bounded length in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kvopt import _core
from kvopt.metrics.events import EventLog
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
    """The books of one run; `exact` as in the module's text. With `log`, events are kept too.

    `native` is what the core fills; :meth:`read` takes the totals from it.
    """

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
        self.native = _core.Collector(
            [sample.native for sample in self.latency.values()],
            self.eviction_age.native,
            self.series.native,
            None if log is None else log.native,
        )

    def read(self) -> None:
        """Take over totals and prefilled tokens, once a run is over."""
        self.totals = Totals(**self.native.totals())
        tokens, ms = self.native.prefill_tokens, self.native.prefill_ms
        self.prefill = PrefillLedger(dict(zip(CAUSES, tokens, strict=True)), dict(zip(CAUSES, ms, strict=True)))
