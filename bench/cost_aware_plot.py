"""The plot of docs/cost-aware.md: the value of waiting sessions by their age, and what policies save by capacity."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

from kvopt.simulator import replay, upper_bound
from kvopt.workload import StopReason, Trace

EDGES = np.geomspace(1, 2**14, 57)
"""Seconds: four bins an octave."""
CAPACITIES = (10_000, 15_000, 22_000, 32_000, 46_000, 68_000, 100_000, 150_000)
KINDS = {
    "after a tool call": (StopReason.TOOL_USE, "#0072B2"),
    "after the answer's end": (StopReason.END_TURN, "#D55E00"),
}
LINES = {
    "bound": ("#BBBBBB", "-"),
    "min": ("#777777", "--"),
    "cost-aware": ("#0072B2", "-"),
    "cost-aware:hints=0": ("#56B4E9", "-"),
    "asymcache": ("#E69F00", "-"),
    "lru": ("#000000", "-"),
}


def gaps(trace: Trace, stop: StopReason) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds from a request that stopped so to the next of its session or sub-agent; and, without one, to the end."""
    last: dict[tuple[int, bool], int] = {}
    returned, lost = [], []
    for request in range(trace.requests):
        key = int(trace.session[request]), bool(trace.subagent[request])
        before = last.get(key)
        if before is not None and trace.stop[before] == stop:
            returned.append(float(trace.time[request] - trace.time[before]))
        last[key] = request
    lost = [float(trace.time[-1] - trace.time[request]) for request in last.values() if trace.stop[request] == stop]
    return np.array(returned), np.array(lost)


def index(returned: NDArray[np.float64], lost: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """G at the start of each bin, a second: for the best horizon, and for an endless one."""
    returns = np.histogram(np.clip(returned, EDGES[0], EDGES[-1]), EDGES)[0].astype(float)
    ends = np.histogram(np.clip(lost, EDGES[0], EDGES[-1]), EDGES)[0]
    beyond = np.cumsum((returns + ends)[::-1])[::-1] - (returns + ends)
    at_risk = (beyond + (returns + ends) / 2) * np.diff(EDGES)
    ratios = [np.cumsum(returns[b:]) / np.maximum(np.cumsum(at_risk[b:]), 1e-12) for b in range(len(returns))]
    return np.array([ratio.max() for ratio in ratios]), np.array([ratio[-1] for ratio in ratios])


def draw_values(axis: Axes, trace: Trace) -> None:
    for name, (stop, colour) in KINDS.items():
        best, endless = index(*gaps(trace, stop))
        axis.plot(EDGES[:-1], best, color=colour, label=name)
        axis.plot(EDGES[:-1], endless, color=colour, linestyle=":", label=f"{name}, s → ∞")
    axis.set(xscale="log", yscale="log", xlabel="Age: seconds since the release", title="G(a) / B, a second")
    axis.set_xticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])


def draw_savings(axis: Axes, trace: Trace) -> None:
    result = replay(trace, [policy for policy in LINES if policy != "bound"], CAPACITIES)
    bounds = upper_bound(trace, CAPACITIES, "cost_saved")
    for policy, (colour, style) in LINES.items():
        saved = [
            bounds.row("cost_saved", c).bound if policy == "bound" else result.row(policy, c).cost_saved
            for c in CAPACITIES
        ]
        axis.plot(CAPACITIES, 100 * np.array(saved), color=colour, linestyle=style, label=policy)
    axis.set(xscale="log", xlabel="Capacity: blocks of 64 tokens", title="Prefill cost saved, %", ylim=(0, 100))
    axis.set_xticks([10_000, 30_000, 100_000], ["10k", "30k", "100k"])


def draw(trace: Trace, path: Path) -> None:
    """Draw both panels as SVG; the same trace and policies give the same file."""
    with mpl.rc_context({"svg.hashsalt": "kvopt", "font.size": 10.0}):
        figure = Figure(figsize=(10, 4), layout="constrained")
        FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2)
        draw_values(left, trace)
        draw_savings(right, trace)
        for axis in (left, right):
            axis.legend(frameon=False, fontsize="small")
            axis.minorticks_off()
            axis.grid(True, color="#dddddd", linewidth=0.7)
            axis.set_axisbelow(True)
            axis.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, format="svg", metadata={"Date": None})
