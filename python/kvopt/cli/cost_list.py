"""What `kvopt cost list` prints: models, published prefill costs and chips, with their sources."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from kvopt.cli.console import new_table, print_table
from kvopt.cli.cost_explain import described_layers
from kvopt.cost import CHIPS, MODELS, PRESETS

if TYPE_CHECKING:
    from rich.console import Console

CONTEXT = 32_768
"""Tokens of context for which a model's bytes a token are given."""


def print_lists(console: Console) -> None:
    """Print the three tables."""
    console.print(Text(f"Models (KV bytes a token are the mean over a context of {CONTEXT:,} tokens)"))
    table = new_table(console)
    for name in ("model", "active", "all", "KV B/token", "p*"):
        table.add_column(name, justify="left" if name == "model" else "right")
    table.add_column("layers")
    table.add_column("source")
    for model in MODELS.values():
        table.add_row(
            model.name,
            f"{model.active_parameters / 1e9:,.1f}B",
            f"{model.total_parameters / 1e9:,.0f}B",
            f"{model.at_context(CONTEXT).bytes_per_token:,.0f}",
            tokens(model.p_star),
            described_layers(model),
            model.source,
        )
    print_table(console, table, spare=("source", "layers"))

    console.print()
    console.print(Text("Published prefill costs, T(q, s) = k0 + k1·q + k2·s + k3·q·s ms"))
    table = new_table(console)
    for name in ("preset", "k0", "k1", "k2", "k3", "p*"):
        table.add_column(name, justify="left" if name == "preset" else "right")
    table.add_column("source")
    for preset in PRESETS.values():
        cost = preset.cost
        figures = (f"{value:g}" for value in (cost.k0, cost.k1, cost.k2, cost.k3))
        table.add_row(preset.name, *figures, tokens(cost.p_star), preset.source)
    print_table(console, table)

    console.print()
    console.print(Text("Chips (peaks of dense matrices, one direction of the host link)"))
    table = new_table(console)
    for name in ("chip", "BF16 TF/s", "FP8 TF/s", "memory GB", "memory GB/s", "host GB/s"):
        table.add_column(name, justify="left" if name == "chip" else "right")
    table.add_column("source")
    for chip in CHIPS.values():
        fp8 = "-" if chip.fp8_tflops is None else f"{chip.fp8_tflops:,.0f}"
        rest = (f"{value:,.0f}" for value in (chip.memory_gb, chip.memory_gb_s, chip.host_gb_s))
        table.add_row(chip.name, f"{chip.bf16_tflops:,.0f}", fp8, *rest, chip.source)
    print_table(console, table)


def tokens(count: float) -> str:
    """A number of tokens, or a dash for infinity."""
    return f"{count:,.0f}" if math.isfinite(count) else "-"
