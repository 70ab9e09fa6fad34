"""What the charts of a report show, from the runs of a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kvopt.cli.report_page.charts import Bar, Line, Part, Point

if TYPE_CHECKING:
    from kvopt.cli.simulation_file import Run
    from kvopt.simulator.simulation_result import SimulationSummary

LATENCIES = (
    ("ttft", "Time to first token"),
    ("end_to_end", "End to end"),
    ("job_completion", "Job completion"),
)
BY_CAPACITY = (
    ("token_hit", "Prompt tokens hit", "", True),
    ("ttft_p99", "Time to first token, p99", "s", False),
    ("job_completion_mean", "Job completion, mean", "s", False),
)
MEMORY_PARTS = (Part("useful: before a hit", 2), Part("wasted: before an eviction", 1), Part("cached to the end", 7))
PREFILL_PARTS = (
    Part("computed for the first time", 0), Part("again, evicted since", 1), Part("again, after preemption", 5),
    Part("last block of a prompt", 7),
)  # fmt: skip

_BINS_A_DECADE = 12
_SPANS = ((2 * 86400.0, 86400.0, "days"), (7200.0, 3600.0, "hours"), (300.0, 60.0, "minutes"))


def distributions(runs: Sequence[tuple[int, Sequence[Run]]], latency: str) -> list[Line]:
    """The share of answers within each latency, all seeds together; a line for each policy and its style."""
    lines = []
    for style, group in runs:
        counts: dict[int, float] = {}
        for run in group:
            histogram = run.latency_histogram.get(latency)
            if histogram is None:
                continue
            for edge, count in zip(histogram.edge, histogram.count, strict=False):
                place = round(_BINS_A_DECADE * math.log10(edge)) if edge > 0 else -12 * _BINS_A_DECADE
                counts[place] = counts.get(place, 0.0) + count
        total = math.fsum(counts.values())
        points: list[Point] = []
        if total > 0:
            points, done = [(_edge(min(counts)), 0.0)], 0.0
            for place in range(min(counts), max(counts) + 1):
                done += counts.get(place, 0.0)
                points.append((_edge(place + 1), done / total))
        lines.append(Line(group[0].policy, style, points))
    return lines


def over_time(
    runs: Sequence[tuple[int, Sequence[Run]]], value: Callable[[Run, int], float | None], seconds: float
) -> list[Line]:
    """A value of each bucket of the first run of each group, at the middle of the bucket, in units of `seconds`."""
    lines = []
    for style, group in runs:
        series = group[0].series
        points = [
            ((begin + series.bucket_s / 2) / seconds, value(group[0], index))
            for index, begin in enumerate(series.begin_s)
        ]
        lines.append(Line(group[0].policy, style, points))
    return lines


def hit_share(run: Run, index: int) -> float | None:
    """Hit tokens over prompt tokens of a bucket; None where no request came."""
    prompt, hit = run.series.prompt_tokens[index], run.series.hit_tokens[index]
    return None if not prompt or hit is None else min(hit / prompt, 1.0)


def held_share(run: Run, index: int) -> float | None:
    """Blocks that requests hold, over the capacity."""
    held = run.series.held_blocks[index]
    return None if held is None else min(held / run.capacity, 1.0)


def used_share(run: Run, index: int) -> float | None:
    """Blocks that are held or cached, over the capacity."""
    held, cached = run.series.held_blocks[index], run.series.cached_blocks[index]
    return None if held is None or cached is None else min((held + cached) / run.capacity, 1.0)


def time_unit(runs: Sequence[tuple[int, Sequence[Run]]]) -> tuple[float, str]:
    """Seconds in the unit of time that suits all runs, and its name."""
    longest = max(group[0].duration_s for _, group in runs)
    return next(((seconds, name) for limit, seconds, name in _SPANS if longest >= limit), (1.0, "seconds"))


def memory_bars(runs: Sequence[tuple[int, Sequence[Run]]]) -> list[Bar]:
    """Block-seconds that were cached and held by nobody, by what became of them, the mean over seeds."""
    names = ("useful_block_s", "wasted_block_s", "unresolved_block_s")
    return [
        Bar(group[0].policy, [_mean([run.totals.get(name) or 0.0 for run in group]) for name in names])
        for _, group in runs
    ]


def prefill_bars(runs: Sequence[tuple[int, Sequence[Run]]]) -> list[Bar]:
    """Seconds of prefill by cause, the mean over seeds."""
    causes = ("cold", "evicted", "preempted", "tail")
    return [
        Bar(group[0].policy, [_mean([_seconds(run, cause) for run in group]) for cause in causes]) for _, group in runs
    ]


def by_capacity(summaries: Sequence[tuple[int, SimulationSummary]], figure: str) -> list[Line]:
    """A figure over the capacity in blocks, a line for each policy, with its 95 % intervals."""
    found: dict[tuple[int, str], list[tuple[int, float, float]]] = {}
    for style, summary in summaries:
        value = summary.figures.get(figure)
        if value is not None and not math.isnan(value.mean):
            half = 0.0 if math.isnan(value.half_width) else value.half_width
            found.setdefault((style, summary.policy), []).append((summary.capacity, value.mean, half))
    return [
        Line(policy, style, [(size, mean) for size, mean, _ in sorted(points)], [half for _, _, half in sorted(points)])
        for (style, policy), points in found.items()
    ]


def _edge(place: int) -> float:
    return float(10.0 ** (place / _BINS_A_DECADE))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _seconds(run: Run, cause: str) -> float:
    found = run.prefill.get(cause)
    return 0.0 if found is None else found.seconds
