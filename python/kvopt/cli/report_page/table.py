"""The comparison table of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvopt.metrics import Confidence
    from kvopt.simulator.simulation_result import SimulationSummary

_COLUMNS = (
    ("token_hit", "tokens hit", "share"),
    ("recomputed_share", "recomputed", "share"),
    ("ttft_mean", "TTFT s", "seconds"),
    ("ttft_p99", "TTFT p99", "seconds"),
    ("end_to_end_p99", "end to end p99", "seconds"),
    ("job_completion_mean", "job s", "seconds"),
    ("job_completion_p90", "job p90", "seconds"),
    ("wasted_share", "memory wasted", "share"),
    ("preemptions", "preempted", "count"),
    ("refused", "refused", "count"),
)
"""Figure, header, kind."""

_HIGHER = {"token_hit"}


def comparison_table(summaries: Sequence[SimulationSummary]) -> str:
    """A row for each policy, scheduler and capacity; the best of each capacity and scheduler in bold."""
    head = "".join(f'<th scope="col">{escape(header)}</th>' for _, header, _ in _COLUMNS)
    body, last = [], None
    for summary in summaries:
        place = (summary.capacity, summary.scheduler)
        level = [each for each in summaries if (each.capacity, each.scheduler) == place]
        cells = "".join(_cell(summary, level, figure, kind) for figure, _, kind in _COLUMNS)
        first = ' class="first"' if last not in (None, place) else ""
        body.append(
            f'<tr{first}><th class="name" scope="row">{escape(summary.policy)}</th><td>{summary.capacity:,}</td>'
            f'<td class="name">{escape(summary.scheduler)}</td>{cells}</tr>'
        )
        last = place
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Comparison of all runs"><table><thead><tr>'
        '<th class="name" scope="col">policy</th><th scope="col">blocks</th><th class="name" scope="col">scheduler</th>'
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def shown(value: Confidence, kind: str) -> str:
    """A figure of a kind ("share", "seconds" or "count"), with half its 95 % interval where there are several runs."""
    if math.isnan(value.mean):
        return "–"
    half = value.half_width
    if kind == "share":
        return f"{value.mean:.1%}" + ("" if math.isnan(half) else f" ±{100 * half:.1f}")
    around = "" if math.isnan(half) else f" ±{half:,.2g}" if half < 1000 else f" ±{half:,.0f}"
    exact = kind == "count" or value.mean >= 1000
    return (f"{value.mean:,.0f}" if exact else f"{value.mean:,.3g}") + around


def _two_lines(text: str) -> str:
    mean, around, half = text.partition(" ±")
    return escape(mean) + (f"<small>±{escape(half)}</small>" if around else "")


def _cell(summary: SimulationSummary, level: Sequence[SimulationSummary], figure: str, kind: str) -> str:
    value = summary.figures.get(figure)
    if value is None:
        return "<td>–</td>"
    others = [each.figures[figure].mean for each in level if figure in each.figures]
    known = [mean for mean in others if not math.isnan(mean)]
    best = (max if figure in _HIGHER else min)(known, default=math.nan)
    marked = kind != "count" and len(set(known)) > 1 and value.mean == best
    kind_of_cell = ' class="best"' if marked else ""
    return f"<td{kind_of_cell}>{_two_lines(shown(value, kind))}</td>"
