"""`kvopt simulate`: what users of a server would wait for, under each policy and scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.compare import default_capacities
from kvopt.cli.replay_options import OUTPUT, capacity_option, memory_options, policy_option
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import (
    check_outputs,
    policy_library_option,
    retention_option,
    schedulers_callback,
)

if TYPE_CHECKING:
    from kvopt.cost import ModelGeometry
    from kvopt.scheduler import Scheduler
    from kvopt.simulator.policy_source import PolicyLike
    from kvopt.simulator.retention import RetentionOptions
    from kvopt.workload.base import Trace

DEFAULT_POLICIES = ("lru", "cost-aware")


@click.command(short_help="Waits, hits and recomputation of a server.")
@trace_source
@policy_option(*DEFAULT_POLICIES)
@policy_library_option
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    default=["fifo"],
    show_default=True,
    callback=schedulers_callback,
    help="fifo, priority, shortest-prefill, program, cache-aware, continuum, or path/to/file.py:ClassName. Repeatable.",
)
@capacity_option("about 4% of all blocks")
@memory_options
@click.option(
    "--profile",
    default="llama-3.1-8b@h100",
    show_default=True,
    metavar="PROFILE",
    help="How long steps take: MODEL@CHIP or MODEL@2xCHIP (see kvopt cost list), a .json file, or k0=5,k1=0.03,... ms.",
)
@click.option(
    "--clients",
    "mode",
    type=click.Choice(["closed", "open"]),
    default="closed",
    show_default=True,
    help="closed: a session goes on its gap after the answer; open: at the times of the trace.",
)
@click.option("--rate", type=float, default=1.0, show_default=True, help="Sessions start so many times as often.")
@click.option("--sessions", "session_limit", type=int, metavar="N", help="Sessions under way at once (closed).")
@click.option("--patience", type=float, metavar="SECONDS", help="Clients without a token by then give up.")
@click.option(
    "--token-budget", type=int, default=8192, show_default=True, help="Tokens a step: vLLM's max_num_batched_tokens."
)
@click.option(
    "--max-sequences",
    type=int,
    default=None,
    metavar="N",
    help="Requests that run at once: vLLM's max_num_seqs.  [default: 1024, or the token budget where that is less]",
)
@click.option(
    "--preemption",
    type=click.Choice(["auto", "last", "priority", "cost"]),
    default="auto",
    show_default=True,
    help="Who gives way when memory runs out; auto: as vLLM with this scheduler.",
)
@click.option(
    "--answers",
    type=click.Choice(["reused", "private"]),
    default="reused",
    show_default=True,
    help="Whether the next turn of a session hits the blocks of the answer before it.",
)
@click.option(
    "--tier",
    metavar="blocks=N,block_ms=MS[,latency_ms=MS]",
    help="A second tier in CPU memory: its blocks, and the time to load one.",
)
@retention_option
@click.option("--bounded", is_flag=True, help="Latencies within 1% in fixed memory instead of exactly.")
@click.option(
    "--seeds",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Runs with arrivals drawn anew, for confidence intervals; 1: the arrivals of the trace.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Processes.")
@click.option("--json", "json_file", type=OUTPUT, metavar="FILE", help="Also write everything measured as JSON.")
@click.option("--events", "events_file", type=OUTPUT, metavar="FILE", help="Also write every event as Parquet.")
@click.pass_context
def simulate(
    ctx: click.Context,
    /,
    policies: list[PolicyLike],
    schedulers: list[str | type[Scheduler]],
    capacities: list[int],
    memory: list[int],
    model: str | None,
    kv_dtype: str | None,
    profile: str,
    mode: str,
    rate: float,
    session_limit: int | None,
    patience: float | None,
    token_budget: int,
    max_sequences: int | None,
    preemption: str,
    answers: str,
    tier: str | None,
    retention: RetentionOptions | None,
    bounded: bool,
    seeds: int,
    jobs: int,
    json_file: Path | None,
    events_file: Path | None,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Serve TRACE with continuous batching and chunked prefill, as vLLM would, and report what its users waited.

    Without a TRACE, the built-in agent workload. Capacities count vLLM's null block. Every run checks that its tokens,
    blocks and requests add up. The same input gives the same files, byte by byte.
    """
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.cli.simulate_table import print_simulation
    from kvopt.cost import model_geometry
    from kvopt.metrics.events import write_events
    from kvopt.simulator.clients import ClientOptions
    from kvopt.simulator.limits import Limits
    from kvopt.simulator.server import SimulationOptions
    from kvopt.simulator.simulate import simulate as run
    from kvopt.simulator.step_time import load_profile
    from kvopt.simulator.tier import TierOptions

    if memory and model is None:
        raise click.UsageError("--memory needs --model, whose KV cache it is", ctx)
    if kv_dtype is not None and model is None:
        raise click.UsageError("--kv-dtype needs --model, whose KV cache it is", ctx)
    geometry = None if model is None else model_geometry(model, kv_dtype)
    times = load_profile(profile)
    clients = ClientOptions(mode, rate, session_limit, patience)
    options = SimulationOptions(
        limits=Limits.of(token_budget, max_sequences),
        preemption=preemption,
        answers=answers,
        exact=not bounded,
        tier=None if tier is None else TierOptions.parse(tier),
        retention=retention,
    )
    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file, "--events": events_file})

    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        if geometry is not None:  # what windows and states keep depends on the length of a prompt
            mean = loaded.block_references * loaded.block_tokens / loaded.requests
            geometry = geometry.at_context(max(round(mean), 1))
        result = run(
            loaded,
            policies,
            _capacities(loaded, capacities, memory, geometry),
            schedulers=schedulers,
            profile=times,
            clients=clients,
            options=options,
            seeds=seeds,
            events=events_file is not None,
            jobs=jobs,
            progress=progress,
        )
    if json_file is not None:
        result.write_json(json_file)
    if events_file is not None:
        write_events(events_file, [(each.labels(), each.log) for each in result.runs if each.log is not None])
    print_simulation(output_console(), loaded, result, geometry)


def _capacities(trace: Trace, blocks: list[int], memory: list[int], geometry: ModelGeometry | None) -> list[int]:
    from kvopt.cost import blocks_in_memory

    sizes = list(blocks)
    if geometry is not None:
        sizes += [blocks_in_memory(size, geometry, trace.block_tokens) for size in memory]
    if not sizes:
        defaults = default_capacities(trace.unique_blocks, trace.prefix.longest_request)
        sizes = [max(defaults[len(defaults) // 2], 2)]
    return sorted(set(sizes))
