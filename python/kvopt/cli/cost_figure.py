"""The figure of `kvopt cost explain`: a token's cost by its position, and what a lost prefix costs by its length."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvopt.cli.cost_explain import Explanation
from kvopt.cli.figure import check_figure
from kvopt.output_file import write_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 65
"""Positions and lengths at which the curves are drawn."""

_COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_RECOMPUTE = "#D55E00"


def write_cost_figure(explained: Explanation, path: Path) -> None:
    """Draw it into `path`, .svg or .png, whole or not at all. Raises ConfigError or OSError."""
    check_figure(path)
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kind = path.suffix.lower().removeprefix(".")
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "kvopt", "font.size": 10.0}):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        FigureCanvasAgg(figure)
        token, prefix = figure.subplots(1, 2)
        _draw_token(token, explained)
        _draw_prefix(prefix, explained)
        for axis in (token, prefix):
            _style(axis, explained.context)
        figure.suptitle(_wrapped(explained.choice.cost.source), fontweight="bold", fontsize="medium")
        figure.savefig(out, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    write_output(path, out.getvalue())


def _draw_token(axis: Axes, explained: Explanation) -> None:
    positions = [explained.context * step / (POINTS - 1) for step in range(POINTS)]
    axis.plot(
        positions, [explained.choice.token_ms(position) for position in positions], color=_RECOMPUTE, linewidth=1.6
    )
    star = explained.choice.p_star
    if math.isfinite(star) and star <= explained.context:
        axis.axvline(star, color="#777777", linestyle="--", linewidth=1.0)
        axis.annotate(
            f"p* = {star:,.0f}",
            (star, 0.0),
            xytext=(4, 6),
            textcoords="offset points",
            color="#555555",
            fontsize="small",
        )
    axis.set_title("Cost of one more token (ms)", fontsize="medium")
    axis.set_xlabel("Position (tokens, k = 1,024)")


def _draw_prefix(axis: Axes, explained: Explanation) -> None:
    lengths = sorted({max(explained.context * step // (POINTS - 1), 1) for step in range(1, POINTS)})
    cost = explained.choice.cost
    recompute = [cost.prefill_ms(length, step_tokens=explained.step_tokens) for length in lengths]
    axis.plot(lengths, recompute, color=_RECOMPUTE, linewidth=1.6, label="compute all")
    lost = explained.lost
    for number, tier in enumerate(explained.tiers if lost is not None else ()):
        assert lost is not None
        colour = _COLOURS[number % len(_COLOURS)]
        prefixes = [replace(lost, tokens=length) for length in lengths]
        name = tier.name.replace("$", r"\$")
        axis.plot(
            lengths,
            [each.reload(tier).ms for each in prefixes],
            color=colour,
            linestyle=":",
            linewidth=1.4,
            label=f"{name}: load all",
        )
        axis.plot(
            lengths,
            [each.best(tier).ms for each in prefixes],
            color=colour,
            linewidth=1.6,
            label=f"{name}: best of all",
        )
    axis.set_yscale("log")
    axis.legend(frameon=False, fontsize="small")
    axis.set_title("Getting a lost prefix back (ms)", fontsize="medium")
    axis.set_xlabel("Length (tokens, k = 1,024)")


def _style(axis: Axes, context: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter

    axis.set_xlim(left=0.0)
    if axis.get_yscale() == "linear":
        axis.set_ylim(bottom=0.0)
    else:
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.xaxis.set_major_locator(FixedLocator([context * quarter / 4 for quarter in range(5)]))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1024:,.4g}k" if value else "0"))
    axis.grid(True, which="major", color="#dddddd", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text.replace("$", r"\$"), 100))
