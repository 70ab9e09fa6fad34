"""What `kvopt cost fit` prints: the coefficients, how well they fit, and where they do not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kvopt.cli.console import new_table, print_table
from kvopt.cost import PrefillFit, fit_prefill_csv
from kvopt.errors import PoorFitWarning

if TYPE_CHECKING:
    from rich.console import Console

MOST_POINTS_SHOWN = 20
"""More points than these: only those of the largest relative error are shown."""


def fit_quietly(path: Path) -> PrefillFit:
    """Fit the points of a CSV file; its warnings are in the result alone. Raises MeasurementError, OSError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoorFitWarning)
        return fit_prefill_csv(path)


def fit_document(fit: PrefillFit) -> dict[str, Any]:
    """The fit as JSON: coefficients and errors in ms, p* in tokens or null where infinite, residuals by point."""
    cost = fit.cost
    points = zip(fit.points.new, fit.points.cached, fit.points.ms, fit.residuals, strict=True)
    return {
        "k0": cost.k0,
        "k1": cost.k1,
        "k2": cost.k2,
        "k3": cost.k3,
        "p_star": cost.p_star if cost.k3 else None,
        "rmse_ms": fit.rmse_ms,
        "relative_error": fit.relative_error,
        "max_relative_error": fit.max_relative_error,
        "r2": fit.r2,
        "outliers": fit.outliers,
        "warnings": list(fit.warnings),
        "points": [
            {"q": float(q), "s": float(s), "ms": float(ms), "residual_ms": float(residual)}
            for q, s, ms, residual in points
        ],
    }


def print_fit(console: Console, fit: PrefillFit) -> None:
    """Print formula, quality, the points, and warnings at the end."""
    cost = fit.cost
    console.print(Text(f"{len(fit.points)} points"))
    console.print(Text(f"T(q, s) = {cost.k0:.6g} + {cost.k1:.6g}·q + {cost.k2:.6g}·s + {cost.k3:.6g}·q·s ms"))
    console.print(Text(f"p* = {cost.p_star:,.0f} tokens" if cost.k3 else "p*: none, context costs nothing"))
    quality = (
        f"rmse {fit.rmse_ms:.4g} ms, relative error {fit.relative_error:.2%}, at most {fit.max_relative_error:.2%}"
    )
    console.print(Text(f"{quality}, R² {fit.r2:.5f}, {fit.outliers} far out"))
    console.print()
    _print_points(console, fit)
    for sentence in fit.warnings:
        console.print()
        console.print(Text(f"Warning: {sentence}."), style="yellow")


def _print_points(console: Console, fit: PrefillFit) -> None:
    residuals = fit.residuals
    relative = residuals / fit.points.ms
    order = list(range(len(fit.points)))
    if len(order) > MOST_POINTS_SHOWN:
        order = sorted(order, key=lambda point: -abs(relative[point]))[:MOST_POINTS_SHOWN]
        console.print(Text(f"The {MOST_POINTS_SHOWN} points of the largest relative error:"))
    table = new_table(console)
    for name in ("q", "s", "ms", "fitted ms", "residual ms", "relative"):
        table.add_column(name, justify="right")
    for point in order:
        ms = float(fit.points.ms[point])
        table.add_row(
            f"{fit.points.new[point]:,.0f}",
            f"{fit.points.cached[point]:,.0f}",
            f"{ms:,.2f}",
            f"{ms - residuals[point]:,.2f}",
            f"{residuals[point]:+z,.2f}",
            f"{relative[point]:+z.1%}",
        )
    print_table(console, table)
