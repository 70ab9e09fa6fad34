"""`kvopt explain`: what a policy would evict next in the middle of a trace, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.policy_state import naming_state, policy_state_option, read_state
from kvopt.cli.replay_options import OUTPUT, one_capacity_option, one_native_policy, p_star_option, policy_option
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import check_outputs, parse_count, policy_library_option

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt.cache import Explanation
    from kvopt.simulator.policy_source import PolicyLike


@click.command(short_help="What a policy would evict next, and why.")
@trace_source
@policy_option("cost-aware")
@policy_library_option
@one_capacity_option
@click.option("--at", type=float, metavar="SECONDS", help="Time on the trace's clock.  [default: the last request]")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Candidates to show.")
@p_star_option
@policy_state_option
@click.option("--json", "json_file", type=OUTPUT, metavar="FILE", help="Also write all values as JSON.")
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    policies: list[PolicyLike],
    capacity: str,
    at: float | None,
    top: int,
    p_star: float,
    state_file: Path | None,
    json_file: Path | None,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Serve TRACE up to a time, and show what the policy would evict next.

    For each candidate: its class, how long it is idle, how often such blocks return, what its loss would cost, and the
    value that comes of it. Without a TRACE, the built-in agent workload.
    """
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.output_file import write_output
    from kvopt.simulator.explain import explain as explain_at

    policy = one_native_policy(ctx, policies, "explains")
    size = parse_count(capacity)
    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file})
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        with naming_state(state_file):
            explanation = explain_at(
                loaded, policy, size, at=at, p_star=p_star, state=read_state(state_file), progress=progress
            )
    if json_file is not None:
        write_output(json_file, json.dumps(explanation.to_dict(), indent=1).encode())
    _print(output_console(), explanation, top)


def _print(console: Console, explanation: Explanation, top: int) -> None:
    from rich.text import Text

    from kvopt.cli.console import new_table, print_table

    table = new_table(console)
    for name in ("", "run", "blocks", "depth", "value", "returns/s", "cost", "idle s", "usual gap s", "class"):
        table.add_column(name, justify="left" if name == "class" else "right")
    for place, value in enumerate(explanation.candidates[:top], 1):
        table.add_row(
            str(place),
            str(value.run),
            f"{value.blocks:,}",
            f"{value.depth:,}",
            f"{value.value:.3g}",
            f"{value.rate:.3g}",
            f"{value.cost:.4g}",
            f"{value.age:.4g}",
            f"{value.usual_gap:.3g}",
            value.group,
        )
    print_table(console, table)
    console.print()
    covered = len(explanation.values) - len(explanation.candidates)
    console.print(
        Text(
            f"At {explanation.now:,.1f} s {len(explanation.candidates):,} runs may go, in {len(explanation.queues):,} "
            f"classes; {covered:,} have something cached behind them."
        )
    )
    console.print(Text(explanation.reason))
