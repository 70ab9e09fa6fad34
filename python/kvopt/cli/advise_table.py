"""What `kvopt advise` prints: the evidence as a table, and the answer in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from kvopt.cli.console import new_table, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.metrics import Confidence
    from kvopt.simulator.advise import Advice, Candidate
    from kvopt.simulator.slo import Slo

_GIB = 2**30


def print_advice(console: Console, advice: Advice, block_bytes: float | None = None) -> None:
    """Print a row for each capacity that was simulated, and which policy needs how much. Memory where it is known."""
    table = new_table(console)
    table.add_column("policy")
    if len({each.scheduler for each in advice.candidates}) > 1:
        table.add_column("scheduler")
    table.add_column("capacity", justify="right")
    if block_bytes is not None:
        table.add_column("memory GiB", justify="right")
    for slo in advice.slos:
        table.add_column(slo.text, justify="right")
        table.add_column("seeds", justify="right")
    table.add_column("refused", justify="right")
    table.add_column("meets")
    several = len(table.columns) and any(column.header == "scheduler" for column in table.columns)
    for candidate in advice.candidates:
        for found in candidate.evidence:
            cells = [found.policy, *([found.scheduler] if several else []), f"{found.capacity:,}"]
            if block_bytes is not None:
                cells.append(f"{found.capacity * block_bytes / _GIB:,.2f}")
            for slo, figure, met in zip(advice.slos, found.figures, found.seeds_met, strict=True):
                cells += [shown(slo, figure), f"{met}/{len(advice.seeds)}"]
            cells += [f"{found.refused:,.0f}", ("least" if found.capacity == candidate.capacity else "yes")]
            if not found.met:
                cells[-1] = "no"
            table.add_row(*map(Text, cells))
        table.add_section()
    print_table(console, table, spare=("refused", "seeds"))
    console.print()
    for sentence in sentences(advice, block_bytes):
        console.print(Text(sentence))


def sentences(advice: Advice, block_bytes: float | None = None) -> list[str]:
    """The answer, what the others need, and what to know of it."""
    goal = " and ".join(slo.text for slo in advice.slos)
    best = advice.best
    if best is None:
        lines = [f"Nothing meets {goal} with {_size(advice.high, block_bytes)}: give more memory, or a weaker SLO."]
        if any(_mean_meets(candidate, advice) for candidate in advice.candidates):
            lines.append("The mean meets it there, but its 95% interval reaches beyond: more --seeds narrow that.")
    else:
        assert best.capacity is not None
        lines = [f"{_name(best, advice)} meets {goal} with {_size(best.capacity, block_bytes)}, the least of all."]
        for other in advice.candidates[1:]:
            if other.capacity is None:
                lines.append(f"{_name(other, advice)} does not, with up to {_size(advice.high, block_bytes)}.")
            elif other.capacity == best.capacity:
                lines.append(f"{_name(other, advice)} needs as much.")
            else:
                more = other.capacity / best.capacity - 1
                lines.append(f"{_name(other, advice)} needs {_size(other.capacity, block_bytes)}, {more:.0%} more.")
        if best.capacity == advice.low:
            lines.append("That is the low end of the range: less memory may do.")
    broken = [_name(each, advice) for each in advice.candidates if not each.monotone]
    if broken:
        lines.append(
            f"More memory did not always help {', '.join(broken)}: the capacity named is the least from which "
            "on all that were simulated meet the SLO."
        )
    if len(advice.seeds) == 1:
        lines.append("One run a capacity, with the arrivals of the trace; --seeds 5 says how sure that is.")
    return lines


def shown(slo: Slo, figure: Confidence) -> str:
    """A figure with half its 95 % interval, in the unit in which figures of its kind are read."""
    if math.isnan(figure.mean):
        return "-"
    scale, digits = (100.0, ".1f") if slo.figure.endswith(("_share", "token_hit")) else (1.0, ",.3g")
    unit = "%" if scale > 1 else ""
    mean = figure.mean * scale
    text = f"{mean:,.0f}" if scale == 1 and abs(mean) >= 1000 else f"{mean:{digits}}"
    around = "" if math.isnan(figure.half_width) else f" ±{figure.half_width * scale:,.2g}"
    return f"{text}{unit}{around}"


def _mean_meets(candidate: Candidate, advice: Advice) -> bool:
    largest = candidate.evidence[-1]
    means = zip(advice.slos, largest.figures, strict=True)
    return largest.refused == 0 and all(slo.met(figure.mean) for slo, figure in means)


def _name(candidate: Candidate, advice: Advice) -> str:
    several = len({each.scheduler for each in advice.candidates}) > 1
    return f"{candidate.policy} with {candidate.scheduler}" if several else candidate.policy


def _size(blocks: int, block_bytes: float | None) -> str:
    memory = "" if block_bytes is None else f" ({blocks * block_bytes / _GIB:,.2f} GiB)"
    return f"{blocks:,} blocks{memory}"
