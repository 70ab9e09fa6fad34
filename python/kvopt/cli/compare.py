"""`kvopt compare`: what each policy hits on a trace, against LRU and the offline optimum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvopt.cli.policy_state import naming_state, policy_state_option, read_state
from kvopt.cli.replay_options import capacity_option, cost_and_threads, memory_options, policy_option, result_files
from kvopt.cli.trace_source import check_trace, load_trace, trace_source
from kvopt.cli.values import check_outputs, policy_library_option, sweeps_callback

if TYPE_CHECKING:
    from kvopt.cli.console import Progress
    from kvopt.cost import ModelGeometry
    from kvopt.simulator import UpperBounds
    from kvopt.simulator.policy_source import PolicyLike
    from kvopt.simulator.replay import Rule
    from kvopt.workload.base import Trace

DEFAULT_POLICIES = ("lru", "lfu", "cost-aware", "min")
DEFAULT_SHARES = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Default capacities, as shares of the trace's unique blocks."""


@click.command(short_help="Compare eviction policies on a trace.")
@trace_source
@policy_option(*DEFAULT_POLICIES)
@policy_library_option
@click.option(
    "--sweep",
    "swept",
    multiple=True,
    callback=sweeps_callback,
    metavar="POLICY:SETTING=A|B,...",
    help="Native policy under every combination of these settings; alone, in place of the default. Repeatable.",
)
@click.option(
    "--rule",
    type=click.Choice(["prefix", "flat"]),
    default="prefix",
    show_default=True,
    help="prefix: a block is of use only behind all before it; flat: each by itself, as cache papers replay.",
)
@capacity_option("1 to 16% of all blocks")
@memory_options
@click.option("--bound", is_flag=True, help="Also show what no policy can exceed; see kvopt bound.")
@policy_state_option
@cost_and_threads
@result_files("rows")
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    policies: list[PolicyLike],
    swept: list[str],
    rule: Rule,
    capacities: list[int],
    memory: list[int],
    model: str | None,
    kv_dtype: str | None,
    bound: bool,
    state_file: Path | None,
    p_star: float,
    threads: int | None,
    json_file: Path | None,
    csv_file: Path | None,
    trace: Path | None,
    **reader: Any,
) -> None:
    """Replay TRACE under each policy at each capacity, and compare what it hits.

    Without a TRACE, the built-in agent workload. The table sets every policy against lru and against min, the offline
    optimum of hits; both are replayed for it even when not asked for. Files hold the policies asked for. With --bound
    each capacity has a row of what no policy can exceed, and one for min-bypass, whose running requests need no memory.

    A model with sliding windows or state-space layers keeps less of a long prompt: --memory is then counted for prompts
    of the trace's mean length.

    Below it stands what to do at each capacity: which policy closes how much of the gap between lru and the optimum,
    whether reuse is predictable, whether memory is slack, and what one more GiB of --model (else 10% more blocks) adds.

    --sweep 'asymcache:lifespan=10|100|1000,r=10|40' reads TRACE once and replays it under six parameter sets.

    Under the flat rule no request is skipped, and hits need not be a prefix: no prefill cost is saved by them, so the
    table compares hits.
    """
    from kvopt.cli.compare_table import print_comparison
    from kvopt.cli.comparison_files import bound_lines, comparison_csv, comparison_json
    from kvopt.cli.console import output_console, progress_bar
    from kvopt.cli.regime_sentences import GIB, regime_sentences
    from kvopt.cost import model_geometry
    from kvopt.output_file import write_output
    from kvopt.simulator.lru_curve import LruCurve
    from kvopt.simulator.policy_source import policy_name
    from kvopt.simulator.regime import regime_report
    from kvopt.simulator.replay import replay

    if memory and model is None:
        raise click.UsageError("--memory needs --model, whose KV cache it is", ctx)
    if bound and rule == "flat":
        raise click.UsageError("--bound holds under the prefix rule, not with --rule flat", ctx)
    if kv_dtype is not None and model is None:
        raise click.UsageError("--kv-dtype needs --model, whose KV cache it is", ctx)
    geometry = None if model is None else model_geometry(model, kv_dtype)
    check_trace(ctx, trace)
    check_outputs(ctx, trace, {"--json": json_file, "--csv": csv_file})

    if swept:
        named = ctx.get_parameter_source("policies") is not click.core.ParameterSource.DEFAULT
        policies = [*policies, *(spec for spec in swept if spec not in policies)] if named else [*swept]
    asked = [policy_name(policy) for policy in policies]
    references = [name for name in ("lru", "min") if name not in asked]
    with progress_bar() as progress:
        loaded = load_trace(trace, **reader, progress=progress)
        if geometry is not None and loaded.requests:  # what windows and states keep depends on the length of a prompt
            mean = loaded.block_references * loaded.block_tokens / loaded.requests
            geometry = geometry.at_context(max(round(mean), 1))
        sizes = _capacities(loaded, capacities, memory, geometry)
        asked_for = [*policies, *references]
        with naming_state(state_file):
            result = replay(
                loaded,
                asked_for,
                sizes,
                rule=rule,
                p_star=p_star,
                state=read_state(state_file),
                threads=threads,
                progress=progress,
            )
        bounds = _bounds(loaded, sizes, asked, p_star, threads, progress) if bound else []
    block_bytes = None if geometry is None else geometry.bytes_per_block(loaded.block_tokens)
    report = regime_report(
        result,
        LruCurve(loaded, rule=rule, p_star=p_star),
        bounds=bounds[0] if bounds else None,
        more_blocks=None if block_bytes is None else max(1, int(GIB / block_bytes)),
    )
    sentences = regime_sentences(report, block_bytes)
    files, lines = result.only(asked), bound_lines(bounds, result)
    if json_file is not None:
        write_output(json_file, comparison_json(files, bounds, report, sentences))
    if csv_file is not None:
        write_output(csv_file, comparison_csv(files, lines))
    print_comparison(output_console(), loaded, result, geometry, report, sentences, lines)


def _capacities(trace: Trace, blocks: list[int], memory: list[int], geometry: ModelGeometry | None) -> list[int]:
    from kvopt.cost import blocks_in_memory

    sizes = list(blocks)
    if geometry is not None:
        sizes += [blocks_in_memory(size, geometry, trace.block_tokens) for size in memory]
    return sorted(set(sizes)) or default_capacities(trace.unique_blocks, trace.prefix.longest_request)


def _bounds(
    trace: Trace, sizes: list[int], policies: list[str], p_star: float, threads: int | None, progress: Progress | None
) -> list[UpperBounds]:
    from kvopt.simulator.upper_bound import METRICS, upper_bound

    return [
        upper_bound(trace, sizes, METRICS, bypass=bypass, p_star=p_star, threads=threads, progress=progress)
        for bypass in ([False, True] if "min-bypass" in policies else [False])
    ]


def default_capacities(unique_blocks: int, longest_request: int) -> list[int]:
    """Round shares of the unique blocks that hold the longest request, or one capacity that does (all in blocks)."""
    shares = {_two_digits(unique_blocks * share) for share in DEFAULT_SHARES}
    return sorted(share for share in shares if share > longest_request) or [longest_request + 1]


def _two_digits(value: float) -> int:
    return max(1, int(float(f"{value:.1e}")))
