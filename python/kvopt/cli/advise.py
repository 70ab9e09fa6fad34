"""`kvopt advise`: the least memory and the best policy that meet an SLO."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.replay_options import OUTPUT, policy_option
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import check_outputs, library_callback, parse_count, retention_option, split_policies
from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from kvopt.cost import ModelGeometry
    from kvopt.simulator.retention import RetentionOptions
    from kvopt.simulator.slo import Slo
    from kvopt.workload.base import Trace


def _slos(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[Slo]:
    from kvopt.simulator.slo import Slo

    return [Slo.parse(piece) for value in values for piece in value.split(",")]


def _libraries(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    library_callback(ctx, parameter, values)
    return values


def _specs(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(split_policies(values)))


@click.command(short_help="The least memory and best policy for an SLO.")
@trace_source
@click.option(
    "--slo",
    "slos",
    multiple=True,
    required=True,
    callback=_slos,
    metavar="FIGURE<LIMIT",
    help='What must hold, such as "ttft_p99<2s" or "token_hit>60%"; see docs/sweep.md. Repeatable.',
)
@policy_option("lru", "cost-aware", callback=_specs)
@click.option(
    "--policy-library",
    "libraries",
    multiple=True,
    is_eager=True,
    callback=_libraries,
    metavar="FILE.so",
    help="Shared library with policies, compiled against the headers of kvopt.config. Repeatable.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    default=["fifo"],
    show_default=True,
    callback=_specs,
    help="Scheduler, or comma list of them. Repeatable.",
)
@click.option(
    "--capacity",
    metavar="LOW..HIGH",
    help="Range of blocks, such as 5k..100k.  [default: what the longest request needs, to all blocks]",
)
@click.option("--memory", metavar="LOW..HIGH", help="The range as KV memory of --model: 10GiB..80GiB.")
@click.option("--model", metavar="NAME", help="Model whose KV cache --memory is; see kvopt cost list.")
@click.option("--kv-dtype", metavar="DTYPE", help="Type of that KV cache, such as fp8.  [default: the model's]")
@click.option(
    "--profile", default="llama-3.1-8b@h100", show_default=True, metavar="PROFILE", help="As for kvopt simulate."
)
@click.option(
    "--clients", "mode", type=click.Choice(["closed", "open"]), default="closed", show_default=True,
    help="As for kvopt simulate.",
)  # fmt: skip
@click.option("--rate", type=float, default=1.0, show_default=True, help="Sessions start so many times as often.")
@click.option("--token-budget", type=int, default=8192, show_default=True, help="Tokens a step.")
@click.option("--max-sequences", type=int, metavar="N", help="Requests that run at once.")
@retention_option
@click.option("--seeds", type=int, default=3, show_default=True, help="Runs a capacity; 1: the arrivals of the trace.")
@click.option(
    "--tolerance", type=float, default=0.05, show_default=True, help="How near to the least capacity to come."
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one a core]")
@click.option("--json", "json_file", type=OUTPUT, metavar="FILE", help="Also write the evidence as JSON.")
@click.pass_context
def advise(
    ctx: click.Context,
    /,
    slos: list[Slo],
    policies: list[str],
    libraries: tuple[str, ...],
    schedulers: list[str],
    capacity: str | None,
    memory: str | None,
    model: str | None,
    kv_dtype: str | None,
    profile: str,
    mode: str,
    rate: float,
    token_budget: int,
    max_sequences: int | None,
    retention: RetentionOptions | None,
    seeds: int,
    tolerance: float,
    jobs: int | None,
    json_file: Path | None,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Find the least memory at which a server that serves TRACE meets every --slo, and under which policy.

    Each policy's least capacity is found by bisection over simulations, to within --tolerance; capacities above it are
    checked, for more memory need not always help. With several seeds the far end of the 95% interval must keep the
    limit. The table is the evidence: every capacity that was simulated.
    """
    from kvopt.cli.advise_table import print_advice
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.cli.sweep import load_scheduler
    from kvopt.cost import model_geometry
    from kvopt.policies.python_file import load_policy
    from kvopt.simulator.advise import advise as run
    from kvopt.simulator.limits import Limits
    from kvopt.simulator.server import SimulationOptions
    from kvopt.simulator.step_time import load_profile
    from kvopt.simulator.sweep import Loaders, ServerSetup
    from kvopt.simulator.workers import available_cores

    if capacity is not None and memory is not None:
        raise click.UsageError("--capacity and --memory are two ways to say one range", ctx)
    if (memory is not None or kv_dtype is not None) and model is None:
        raise click.UsageError(f"{'--memory' if memory else '--kv-dtype'} needs --model, whose KV cache it is", ctx)
    geometry = None if model is None else model_geometry(model, kv_dtype)
    ends = _ends(capacity, memory)
    limits = Limits.of(token_budget, max_sequences)
    setup = ServerSetup(
        load_profile(profile),
        mode,
        options=SimulationOptions(limits=limits, retention=retention),
        libraries=libraries,
    )
    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file})
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        if geometry is not None:  # what windows and states keep depends on the length of a prompt
            mean = loaded.block_references * loaded.block_tokens / max(loaded.requests, 1)
            geometry = geometry.at_context(max(round(mean), 1))
        low, high = _range(loaded, ends, memory is not None, geometry)
        advice = run(
            loaded,
            slos,
            policies,
            low,
            high,
            setup,
            schedulers=schedulers,
            rate=rate,
            seeds=seeds,
            tolerance=tolerance,
            jobs=jobs or available_cores(),
            loaders=Loaders(load_policy, load_scheduler),
            progress=progress,
        )
    if json_file is not None:
        advice.write_json(json_file)
    block_bytes = None if geometry is None else geometry.bytes_per_block(loaded.block_tokens)
    print_advice(output_console(), advice, block_bytes)


def _ends(capacity: str | None, memory: str | None) -> tuple[int, int] | None:
    from kvopt.cost import parse_bytes

    text = memory if memory is not None else capacity
    if text is None:
        return None
    option, read = ("--memory", parse_bytes) if memory is not None else ("--capacity", parse_count)
    low, dots, high = text.partition("..")
    if not dots:
        raise ConfigError(f"{option} {text!r}: write a range, such as {'10GiB..80GiB' if memory else '5k..100k'}")
    ends = read(low), read(high)
    if ends[0] > ends[1]:
        raise ConfigError(f"{option} {text!r}: the range is empty")
    return ends


def _range(trace: Trace, ends: tuple[int, int] | None, of_memory: bool, model: ModelGeometry | None) -> tuple[int, int]:
    from kvopt.cost import blocks_in_memory
    from kvopt.simulator.advise import default_range

    if ends is None:
        return default_range(trace)
    if of_memory and model is not None:
        return blocks_in_memory(ends[0], model, trace.block_tokens), blocks_in_memory(
            ends[1], model, trace.block_tokens
        )
    return ends
