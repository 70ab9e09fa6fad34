"""`kvopt cost`: what prefill, cache and reload of a model cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvopt.cli.cost_values import context_callback, efficiency_callback, memory_size_callback, tiers_callback
from kvopt.cli.replay_options import OUTPUT
from kvopt.cli.values import check_outputs
from kvopt.cost import DEFAULT_STEP_TOKENS

if TYPE_CHECKING:
    from kvopt.cost import Tier


@click.group()
def cost() -> None:
    """Explain what a lost block costs: prefill, memory and reload of a model."""


@cost.command()
@click.argument("source", metavar="MODEL")
@click.option(
    "--context",
    default="32k",
    show_default=True,
    callback=context_callback,
    metavar="TOKENS",
    help="Length of the prefix that is lost: 32768, 32k (× 1,024) or 1m (× 1,048,576).",
)
@click.option("--chip", metavar="NAME", help="GPU that computes it, by its name in kvopt cost list.  [default: h100]")
@click.option("--tp", type=click.IntRange(min=1), help="GPUs that share the model (tensor parallelism).  [default: 1]")
@click.option(
    "--efficiency",
    callback=efficiency_callback,
    metavar="SHARE",
    help="Of the chip's peak that is reached.  [default: 0.5]",
)
@click.option("--tflops", type=float, help="Instead of a chip: what all GPUs achieve together, in 10¹² operations/s.")
@click.option("--dtype", type=click.Choice(["bf16", "fp8"]), help="Type of the matrices.  [default: bf16]")
@click.option("--kv-dtype", metavar="DTYPE", help="Type of the KV cache, such as fp8.  [default: the model's]")
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    callback=tiers_callback,
    metavar="NAME:BANDWIDTH:LATENCY",
    help="Place to load from, per GPU: cpu:50GB/s:10us. Repeatable.  [default: the chip's host link; an SSD]",
)
@click.option(
    "--memory",
    callback=memory_size_callback,
    metavar="SIZE",
    help="Also say how many blocks this memory holds, per GPU.",
)
@click.option("--block-tokens", type=click.IntRange(min=1), default=16, show_default=True, help="Tokens of a block.")
@click.option(
    "--step-tokens",
    type=click.IntRange(min=1),
    default=DEFAULT_STEP_TOKENS,
    show_default=True,
    help="Tokens that the engine computes in a step.",
)
@click.option("-o", "--plot", "plot_file", type=OUTPUT, metavar="FILE", help="Also draw it, as .svg or .png.")
@click.option("--json", "json_file", type=OUTPUT, metavar="FILE", help="Also write it as JSON.")
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    source: str,
    context: int,
    chip: str | None,
    tp: int | None,
    efficiency: float | None,
    tflops: float | None,
    dtype: str | None,
    kv_dtype: str | None,
    tiers: list[Tier],
    memory: int | None,
    block_tokens: int,
    step_tokens: int,
    plot_file: Path | None,
    json_file: Path | None,
) -> None:
    """Explain what losing a prefix of MODEL costs, and the cheapest way to get it back.

    MODEL is a model or a preset of kvopt cost list, or a Hugging Face config.json or the folder with one. The curve is
    the cost of a token by its position, p* where attention doubles it. Below, each tier: loading all of the prefix,
    computing all, or computing its head while its tail is loaded.
    """
    from kvopt.cli.console import output_console
    from kvopt.cli.cost_choice import chosen_cost
    from kvopt.cli.cost_explain import Explanation, print_explanation
    from kvopt.output_file import write_output
    from kvopt.simulator.result import json_bytes

    check_outputs(ctx, None, {"--plot": plot_file, "--json": json_file})
    if plot_file is not None:
        from kvopt.cli.figure import check_figure

        check_figure(plot_file)
    chosen = chosen_cost(
        source, chip=chip, tensor_parallel=tp, efficiency=efficiency, tflops=tflops, dtype=dtype, kv_dtype=kv_dtype
    )
    explanation = Explanation(
        chosen,
        context=context,
        tiers=tuple(tiers) or chosen.default_tiers,
        block_tokens=block_tokens,
        step_tokens=step_tokens,
        memory=memory,
    )
    document = explanation.to_dict()
    if json_file is not None:
        write_output(json_file, json_bytes(document))
    if plot_file is not None:
        from kvopt.cli.cost_figure import write_cost_figure

        write_cost_figure(explanation, plot_file)
    print_explanation(output_console(), explanation)


@cost.command(name="list")
def list_() -> None:
    """List the models, the published prefill costs and the chips, with their sources."""
    from kvopt.cli.console import output_console
    from kvopt.cli.cost_list import print_lists

    print_lists(output_console())


@cost.command()
@click.argument("points", metavar="FILE.csv", type=click.Path(path_type=Path))
@click.option("--json", "json_file", type=OUTPUT, metavar="FILE", help="Also write coefficients and residuals as JSON.")
@click.pass_context
def fit(ctx: click.Context, /, points: Path, json_file: Path | None) -> None:
    """Fit T(q, s) = k0 + k1·q + k2·s + k3·q·s to the measured prefill steps in FILE.csv.

    Its header names columns q (new tokens), s (cached tokens in front of them, 0 where absent) and ms or seconds;
    others are ignored. Warnings say what the points cannot tell, and when the fit is poor.
    """
    from kvopt.cli.console import output_console
    from kvopt.cli.cost_fit import fit_document, fit_quietly, print_fit
    from kvopt.output_file import write_output
    from kvopt.simulator.result import json_bytes

    check_outputs(ctx, points, {"--json": json_file})
    fitted = fit_quietly(points)
    if json_file is not None:
        write_output(json_file, json_bytes(fit_document(fitted)))
    print_fit(output_console(), fitted)
