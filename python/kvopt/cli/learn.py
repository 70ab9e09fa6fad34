"""`kvopt learn`: what a policy learns of a trace, as a file to go on from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.policy_state import naming_state, policy_state_option, read_state
from kvopt.cli.replay_options import OUTPUT, one_capacity_option, one_native_policy, p_star_option, policy_option
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import check_outputs, parse_count, policy_library_option

if TYPE_CHECKING:
    from kvopt.simulator.policy_source import PolicyLike


@click.command(short_help="Save what a policy learns of a trace.")
@trace_source
@policy_option("cost-aware")
@policy_library_option
@one_capacity_option
@p_star_option
@policy_state_option
@click.option("-o", "--output", type=OUTPUT, required=True, metavar="FILE", help="The file to write.")
@click.pass_context
def learn(
    ctx: click.Context,
    /,
    policies: list[PolicyLike],
    capacity: str,
    p_star: float,
    state_file: Path | None,
    output: Path,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Replay TRACE under a policy that learns, and write what it has learned.

    A cache or a server of the same policy and settings goes on from the file, and so does kvopt compare with
    --policy-state. Without a TRACE, the built-in agent workload.
    """
    from kvopt.cli.console import progress_bar
    from kvopt.output_file import write_output
    from kvopt.simulator.replay import learn as learn_from

    policy = one_native_policy(ctx, policies, "learns")
    size = parse_count(capacity)
    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--output": output})
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
    with naming_state(state_file):
        learned = learn_from(loaded, policy, size, p_star=p_star, state=read_state(state_file))
    write_output(output, learned)
    click.echo(f"{output}: what {policy} learned of {loaded.requests:,} requests at {size:,} blocks")
