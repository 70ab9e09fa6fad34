"""The options that commands share: policies, capacities, memory of a model, cost, threads, result files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvopt.cli.values import AnyCommand, capacities_callback, memory_callback, p_star_callback, policies_callback
from kvopt.cost import DEFAULT_P_STAR

if TYPE_CHECKING:
    from kvopt.simulator.policy_source import PolicyLike

OUTPUT = click.Path(path_type=Path)

p_star_option = click.option(
    "--p-star",
    type=str,
    default=f"{DEFAULT_P_STAR:g}",
    show_default=True,
    callback=p_star_callback,
    metavar="TOKENS|MODEL",
    help="Prompt position where attention doubles a token's prefill cost, or the model whose position it is.",
)
"""--p-star: TOKENS, or a model."""

_COST_AND_THREADS = (
    p_star_option,
    click.option("--threads", type=click.IntRange(min=1), help="Replays or bounds at once.  [default: all cores]"),
)


_MEMORY = (
    click.option(
        "--memory",
        multiple=True,
        callback=memory_callback,
        metavar="SIZE",
        help="Cache size as KV memory of --model: 40GiB, 24GB. Repeatable.",
    ),
    click.option(
        "--model",
        metavar="MODEL",
        help="Model whose KV cache --memory is: llama-3.1-8b, or a config.json; see kvopt cost list.",
    ),
    click.option("--kv-dtype", metavar="DTYPE", help="Type of that KV cache, such as fp8.  [default: the model's]"),
)


def policy_option(
    *defaults: str, callback: Callable[..., object] = policies_callback
) -> Callable[[AnyCommand], AnyCommand]:
    """Add --policy; `callback` makes of its texts what the command takes, by default policies."""
    return click.option(
        "--policy",
        "policies",
        multiple=True,
        default=[",".join(defaults)],
        show_default=True,
        callback=callback,
        help="Policy, or comma list of them; path/to/file.py:ClassName for one in Python. Repeatable.",
    )


def capacity_option(default: str) -> Callable[[AnyCommand], AnyCommand]:
    """Add --capacity, as a list of blocks; `default` says in the help what stands in for none."""
    return click.option(
        "--capacity",
        "capacities",
        multiple=True,
        callback=capacities_callback,
        metavar="BLOCKS",
        help=f"Cache size in blocks, or comma list: 30000, 30k, 1.5m. Repeatable.  [default: {default}]",
    )


one_capacity_option = click.option(
    "--capacity", required=True, metavar="BLOCKS", help="Cache size in blocks: 30000, 30k, 1.5m."
)
"""--capacity, once, as text for `parse_count`."""


def one_native_policy(ctx: click.Context, policies: list[PolicyLike], verb: str) -> str:
    """The policy that a command takes; UsageError for several, or one that is not native. `verb`: what it does."""
    if len(policies) != 1 or not isinstance(policies[0], str):
        raise click.UsageError(f"--policy: one native policy {verb} at a time", ctx)
    return policies[0]


def memory_options(command: AnyCommand) -> AnyCommand:
    """Add --memory, --model and --kv-dtype."""
    for decorate in reversed(_MEMORY):
        command = decorate(command)
    return command


def cost_and_threads(command: AnyCommand) -> AnyCommand:
    """Add --p-star and --threads."""
    for decorate in reversed(_COST_AND_THREADS):
        command = decorate(command)
    return command


def result_files(rows: str) -> Callable[[AnyCommand], AnyCommand]:
    """Add --json and --csv; `rows` says in the help what is written."""

    def add(command: AnyCommand) -> AnyCommand:
        csv = click.option("--csv", "csv_file", type=OUTPUT, metavar="FILE", help=f"Also write the {rows} as CSV.")
        json = click.option(
            "--json", "json_file", type=OUTPUT, metavar="FILE", help=f"Also write trace and {rows} as JSON."
        )
        return json(csv(command))

    return add
