"""What `kvopt cost explain` computes and prints: the curve, the cache, and ways to get a lost prefix back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from kvopt.cli.console import new_table, print_table
from kvopt.cli.cost_choice import Choice
from kvopt.cost import LostPrefix, ModelGeometry, Restore, Tier, blocks_in_memory
from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

KINDS = {"full": "full attention", "window": "window", "chunk": "chunks", "state": "state"}


@dataclass(frozen=True, slots=True)
class Depth:
    """One point of the curve.

    Attributes:
        position: tokens in front.
        token_ms: what one more token there adds to a step.
        relative: that, over a first token.
        prefill_ms: the whole prefill up to there.
        kv_bytes: its cache on each GPU; None where the model is unknown.
    """

    position: int
    token_ms: float
    relative: float
    prefill_ms: float
    kv_bytes: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A lost prefix of `context` tokens, and everything that can be said of its cost.

    Raises ConfigError for tiers or a memory where the model is unknown.
    """

    choice: Choice
    context: int
    tiers: tuple[Tier, ...]
    block_tokens: int
    step_tokens: int
    memory: int | None

    def __post_init__(self) -> None:
        if self.choice.model is None and (self.tiers or self.memory is not None):
            raise ConfigError(f"the model of {self.choice.name} is not known, so nothing can be said of its bytes")

    @property
    def lost(self) -> LostPrefix | None:
        """The prefix; None where the model is unknown."""
        model = self.choice.model
        if model is None:
            return None
        return LostPrefix(
            self.choice.cost,
            model,
            self.context,
            block_tokens=self.block_tokens,
            tensor_parallel=self.choice.tensor_parallel,
            step_tokens=self.step_tokens,
        )

    @property
    def blocks(self) -> int | None:
        """Blocks that `memory` bytes on each GPU hold; None without one. Raises ConfigError when it holds none."""
        if self.memory is None or self.choice.model is None:
            return None
        return blocks_in_memory(
            self.memory,
            self.choice.model,
            self.block_tokens,
            self.context,
            tensor_parallel=self.choice.tensor_parallel,
        )

    def curve(self) -> list[Depth]:
        """The cost at 0, at halvings of the context down to 1 k tokens, and at the context."""
        halvings = [
            self.context >> shift for shift in range(self.context.bit_length()) if self.context >> shift >= 1024
        ]
        return [self.depth(position) for position in sorted({0, self.context, *halvings[:8]})]

    def depth(self, position: int) -> Depth:
        """The curve at one position."""
        cost, model = self.choice.cost, self.choice.model
        token_ms = self.choice.token_ms(position)
        kept = None if model is None else model.kv_bytes(position, tensor_parallel=self.choice.tensor_parallel)
        return Depth(
            position=position,
            token_ms=token_ms,
            relative=token_ms / self.choice.token_ms(0),
            prefill_ms=cost.prefill_ms(position, step_tokens=self.step_tokens),
            kv_bytes=kept,
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values; an infinite p* or bandwidth is null."""
        cost, lost, model = self.choice.cost, self.lost, self.choice.model
        document: dict[str, Any] = {
            "name": self.choice.name,
            "source": cost.source,
            "model_source": None if model is None else model.source,
            "context": self.context,
            "block_tokens": self.block_tokens,
            "step_tokens": self.step_tokens,
            "tensor_parallel": self.choice.tensor_parallel,
            "k0": cost.k0,
            "k1": cost.k1,
            "k2": cost.k2,
            "k3": cost.k3,
            "p_star": _finite(self.choice.p_star),
            "curve": [{name: getattr(depth, name) for name in Depth.__dataclass_fields__} for depth in self.curve()],
        }
        if model is not None and lost is not None:
            document |= {
                "kv_dtype": model.kv_dtype,
                "active_parameters": model.active_parameters,
                "total_parameters": model.total_parameters,
                "groups": [
                    {name: getattr(group, name) for name in type(group).__dataclass_fields__} for group in model.groups
                ],
                "kv_bytes": lost.kv_bytes(),
                "recompute_ms": lost.recompute_ms(),
                "break_even_bandwidth": _finite(lost.break_even_bandwidth()),
                "memory": self.memory,
                "blocks": self.blocks,
                "tiers": [self._tier_dict(lost, tier) for tier in self.tiers],
            }
        return document

    def _tier_dict(self, lost: LostPrefix, tier: Tier) -> dict[str, Any]:
        split, best = lost.split(tier), lost.best(tier)
        return {
            "name": tier.name,
            "bandwidth": tier.bandwidth,
            "latency": tier.latency,
            "reload_ms": lost.reload(tier).ms,
            "split_ms": split.ms,
            "split_recomputed": split.recomputed,
            "best": best.way,
            "best_ms": best.ms,
            "best_recomputed": best.recomputed,
        }


def described_layers(model: ModelGeometry) -> str:
    """The layers that keep something, by kind: "8 full attention, 40 window 1,024"."""
    return ", ".join(
        f"{group.layers} {KINDS[group.kind]}" + (f" {group.window:,}" if group.window is not None else "")
        for group in model.groups
    )


def print_explanation(console: Console, explained: Explanation) -> None:
    """Print what is explained in a line or two, the figures, the curve, the tiers, and what follows."""
    chosen, lost = explained.choice, explained.lost
    console.print(Text(chosen.cost.source))
    if chosen.model is not None:
        console.print(Text(f"{chosen.model.source}: {described_layers(chosen.model)}; KV in {chosen.model.kv_dtype}"))
    console.print()
    table = new_table(console)
    table.add_column("figure")
    table.add_column("value")
    for name, value in _figures(explained):
        table.add_row(Text(name), Text(value))
    print_table(console, table)
    console.print()
    _print_curve(console, explained)
    if lost is not None and explained.tiers:
        console.print()
        _print_tiers(console, explained, lost)
    console.print()
    console.print(Text(_verdict(explained, lost)))


def _figures(explained: Explanation) -> list[tuple[str, str]]:
    chosen, lost, cost = explained.choice, explained.lost, explained.choice.cost
    each = " on each GPU" if chosen.tensor_parallel > 1 else ""
    prefix = f"{explained.context:,} tokens"
    figures = []
    if chosen.model is not None:
        parameters = chosen.model.active_parameters, chosen.model.total_parameters
        figures.append(
            ("parameters a token passes", "{:,.2f} of {:,.2f} billion".format(*(p / 1e9 for p in parameters)))
        )
    figures.append(("T(q, s) ms", f"{cost.k0:.4g} + {cost.k1:.4g}·q + {cost.k2:.4g}·s + {cost.k3:.4g}·q·s"))
    star = chosen.p_star
    figures.append(("p*", f"{star:,.0f} tokens" if math.isfinite(star) else "none: context costs nothing"))
    if chosen.model is not None and lost is not None:
        mean = chosen.model.kv_bytes(explained.context, tensor_parallel=chosen.tensor_parallel) / explained.context
        figures.append((f"KV bytes a token{each}", f"{mean:,.0f}"))
        figures.append((f"KV of {prefix}{each}", f"{lost.kv_bytes() / 2**30:,.3f} GiB"))
    figures.append(
        (f"prefill of {prefix}", f"{cost.prefill_ms(explained.context, step_tokens=explained.step_tokens):,.0f} ms")
    )
    if lost is not None:
        figures.append((f"break-even bandwidth{each}", f"{lost.break_even_bandwidth() / 1e9:,.2f} GB/s"))
    if explained.memory is not None:
        blocks = f"{explained.blocks:,} blocks of {explained.block_tokens} tokens"
        figures.append((f"{explained.memory / 2**30:,.4g} GiB{each}", blocks))
    return figures


def _print_curve(console: Console, explained: Explanation) -> None:
    table = new_table(console)
    for name in ("position", "token ms", "relative", "prefill ms", *(["KV GiB"] if explained.choice.model else [])):
        table.add_column(name, justify="right")
    for depth in explained.curve():
        size = [] if depth.kv_bytes is None else [f"{depth.kv_bytes / 2**30:,.3f}"]
        table.add_row(
            f"{depth.position:,}", f"{depth.token_ms:.4f}", f"{depth.relative:.2f}", f"{depth.prefill_ms:,.1f}", *size
        )
    print_table(console, table)


def _print_tiers(console: Console, explained: Explanation, lost: LostPrefix) -> None:
    table = new_table(console)
    for name in ("tier", "GB/s", "latency us", "reload ms", "recompute ms", "split ms", "head", "best"):
        table.add_column(name, justify="left" if name in ("tier", "best") else "right")
    for tier in explained.tiers:
        split = lost.split(tier)
        table.add_row(
            Text(tier.name),
            f"{tier.bandwidth / 1e9:,.4g}",
            f"{tier.latency * 1e6:,.4g}",
            f"{lost.reload(tier).ms:,.1f}",
            f"{lost.recompute_ms():,.1f}",
            f"{split.ms:,.1f}",
            f"{split.recomputed:,}",
            lost.best(tier).way,
        )
    print_table(console, table)


def _verdict(explained: Explanation, lost: LostPrefix | None) -> str:
    prefix = f"Losing {explained.context:,} tokens costs"
    if lost is None or not explained.tiers:
        ms = explained.choice.cost.prefill_ms(explained.context, step_tokens=explained.step_tokens)
        return f"{prefix} {ms:,.0f} ms of prefill."
    parts = [
        f"{lost.best(tier).ms:,.0f} ms with {tier.name} ({_described(lost.best(tier))})" for tier in explained.tiers
    ]
    return f"{prefix} {lost.recompute_ms():,.0f} ms of prefill without a tier below, {', '.join(parts)}."


def _described(best: Restore) -> str:
    if best.way == "split":
        return f"compute the first {best.recomputed:,} while the rest is loaded"
    return "load all" if best.way == "reload" else "compute all"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
