"""The figure of a result: hit ratio and cost saved by capacity, one line a policy."""

from __future__ import annotations

import io
import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvopt.errors import ConfigError
from kvopt.output_file import write_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from kvopt.cli.result_file import Result, ResultRow

SUFFIXES = (".svg", ".png")
MANY = 0.01
"""Share of skipped requests above which a point speaks for another workload than the rest of its line."""

# Okabe and Ito's colours, which colour-blind readers tell apart, without their yellow, too pale on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS = ("s", "^", "D", "v", "P", "X", "*")
_STYLES = ("-", "-.")
_REFERENCE = {
    "lru": ("#000000", "-", "o"),
    "min": ("#777777", "--", ""),
    "min-bypass": ("#777777", ":", ""),
    "bound": ("#BBBBBB", "-", ""),
    "bound-bypass": ("#BBBBBB", ":", ""),
}
_METRICS = (("block_hit", "Block hit ratio"), ("cost_saved", "Prefill cost saved"))


def check_figure(path: Path) -> None:
    """Before any work: the suffix is one that can be drawn, and matplotlib is there. Raises ConfigError."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: a figure is written as {' or '.join(SUFFIXES)}, not {path.suffix!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError("drawing needs matplotlib: pip install 'kvopt[plot]'") from None


def write_figure(result: Result, path: Path) -> None:
    """Draw `result` into `path`, whole or not at all. Raises ConfigError or OSError."""
    check_figure(path)
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = [metric for metric in _METRICS if all(getattr(row, metric[0]) is not None for row in result.rows)]
    lines = _lines(result)
    best_first = sorted(lines, key=lambda policy: -sum(row.block_hit for row in lines[policy]) / len(lines[policy]))
    kind = path.suffix.lower().removeprefix(".")
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "kvopt", "font.size": 10.0}):
        figure = Figure(figsize=(4.6 * len(metrics) + 1.6, 3.9), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
        drawn: dict[str, Line2D] = {}
        for axis, (field, title) in zip(axes, metrics, strict=True):
            drawn = _draw_lines(axis, lines, field)
            _style(axis, title, sorted({row.capacity for row in result.rows}), result.trace.block_tokens)
        handles = [drawn[policy] for policy in best_first]
        names = [policy.replace("$", r"\$") for policy in best_first]
        figure.legend(handles, names, loc="outside right center", frameon=False)
        if any(map(_skips_many, result.rows)):
            note = f"Faint: more than {MANY:.0%} of the requests do not fit and are skipped."
            figure.supxlabel(note, fontsize="small")
        if result.trace.name:
            figure.suptitle(result.trace.name.replace("$", r"\$"), fontweight="bold")
        figure.savefig(out, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    write_output(path, out.getvalue())


def _lines(result: Result) -> dict[str, list[ResultRow]]:
    lines: dict[str, list[ResultRow]] = {}
    for row in (*result.rows, *result.bound_rows()):
        lines.setdefault(row.policy, []).append(row)
    return {policy: sorted(rows, key=lambda row: row.capacity) for policy, rows in lines.items()}


def _draw_lines(axis: Axes, lines: dict[str, list[ResultRow]], field: str) -> dict[str, Line2D]:
    drawn: dict[str, Line2D] = {}
    others = 0
    for policy, rows in lines.items():
        colour, style, marker = _REFERENCE.get(policy) or _look(others)
        others += policy not in _REFERENCE
        # Wider than the rest, so that lru still shows under a line that coincides with it.
        wide = 2.0 if policy == "lru" and len(lines) > 1 else 1.0
        size = wide**0.5 * (5.0 if len(rows) <= 20 else 2.5)
        marker = marker if len(rows) > 1 else marker or "_"
        look: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": 1.6 * wide}
        look |= {"marker": marker, "markersize": size, "zorder": 3.0 - wide / 2}
        many = sum(map(_skips_many, rows))  # a prefix: larger capacities skip less
        for part, alpha in ((rows[: many + 1] if many else [], 0.3), (rows[many:], 1.0)):
            x, y = [row.capacity for row in part], [getattr(row, field) for row in part]
            (drawn[policy],) = axis.plot(x, y, alpha=alpha, **look)
    return drawn


def _skips_many(row: ResultRow) -> bool:
    return row.skipped > MANY * row.requests


def _style(axis: Axes, title: str, capacities: list[int], block_tokens: int | None) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    if _have_room(capacities):
        axis.xaxis.set_major_locator(FixedLocator(capacities))
        axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    axis.set_ylim(bottom=0.0)
    axis.tick_params(labelleft=True)
    axis.set_title(title, fontsize="medium")
    axis.set_xlabel("Capacity (blocks)" if block_tokens is None else f"Capacity (blocks of {block_tokens} tokens)")
    axis.grid(True, which="major", color="#dddddd", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _look(number: int) -> tuple[str, str, str]:
    # Seven markers against six colours: a pair comes again only after 42 policies.
    style = _STYLES[number // len(_COLOURS) % len(_STYLES)]
    return _COLOURS[number % len(_COLOURS)], style, _MARKERS[number % len(_MARKERS)]


def _have_room(capacities: list[int]) -> bool:
    # Ticks at the capacities themselves say most, as long as their labels do not touch.
    span = math.log(capacities[-1] / capacities[0])
    steps = [math.log(high / low) for low, high in itertools.pairwise(capacities)]
    return all(step >= 0.09 * span for step in steps)


def short_count(value: float) -> str:
    """A number of blocks as an axis shows it: 500, 10k, 1.5M."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"
