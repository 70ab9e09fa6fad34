"""Reading option values: policy lists, capacities with k and m, memory sizes, output files."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from kvopt.scheduler import Scheduler
    from kvopt.simulator.policy_source import PolicyLike
    from kvopt.simulator.retention import RetentionOptions

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

_COUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)([km]?)", re.IGNORECASE | re.ASCII)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}


def split_policies(values: tuple[str, ...]) -> list[str]:
    """Split comma lists of policy specs; "name=value" after a comma still belongs to the spec before it."""
    specs: list[str] = []
    for value in values:
        first = len(specs)
        for piece in value.split(","):
            if len(specs) > first and ":" in specs[-1] and re.match(r"\s*\w+=", piece):
                specs[-1] += f",{piece}"
            else:
                specs.append(piece.strip())
    return specs


def parse_count(text: str) -> int:
    """A whole number such as "30000", "30k" or "1.5m". Raises ConfigError for anything else."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a whole number of blocks, such as 30000, 30k or 1.5m")
    count = Decimal(match.group(1).replace("_", "")) * _SCALE[match.group(2).lower()]
    if count != int(count):
        raise ConfigError(f"{text!r} is not a whole number of blocks")
    return int(count)


def policies_callback(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[PolicyLike]:
    """Policy specs and Python policies of all values, each checked, repeats removed."""
    from kvopt.policies.python_file import load_policy
    from kvopt.simulator.policy_source import check_policy

    policies: list[PolicyLike] = []
    for spec in dict.fromkeys(split_policies(values)):
        policy = load_policy(spec)
        check_policy(policy)
        policies.append(policy)
    return policies


def sweeps_callback(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """The policy specs of all grids of settings, each checked."""
    from kvopt.cli.policy_grid import policy_grids
    from kvopt.simulator.policy_source import check_policy

    try:
        return [check_policy(spec) for spec in policy_grids(values)]
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def schedulers_callback(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[str | type[Scheduler]]:
    """Scheduler specs and Python schedulers of all values, each checked, repeats removed."""
    from kvopt.errors import SchedulerError
    from kvopt.policies.python_file import load_class
    from kvopt.scheduler import Scheduler
    from kvopt.simulator.server import check_scheduler

    schedulers: list[str | type[Scheduler]] = []
    for spec in dict.fromkeys(split_policies(values)):
        scheduler = load_class(spec, "scheduler", Scheduler, SchedulerError)  # type: ignore[type-abstract]
        check_scheduler(scheduler)
        schedulers.append(scheduler)
    return schedulers


def library_callback(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    """Load each shared library of policies."""
    from kvopt.policies import load_library

    for path in values:
        load_library(path)


def capacities_callback(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[int]:
    """Capacities in blocks of all comma lists."""
    from kvopt.simulator.replay import check_capacity

    try:
        return [check_capacity(parse_count(piece)) for value in values for piece in value.split(",")]
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def memory_callback(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[int]:
    """Memory sizes in bytes of all comma lists."""
    from kvopt.cost import parse_bytes

    try:
        return [parse_bytes(piece) for value in values for piece in value.split(",")]
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def p_star_callback(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    """p* in tokens: a number, or that of a model, a config.json or a prefill preset."""
    from kvopt.cost import check_p_star, p_star_of

    number: float | None = None
    with suppress(ValueError):
        number = float(value)
    try:
        return p_star_of(value) if number is None else check_p_star(number)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def check_outputs(ctx: click.Context, source: Path | None, outputs: dict[str, Path | None]) -> None:
    """Before any work: every output can be written, and none is another output or the input.

    `outputs` maps option names to paths. Raises ConfigError or UsageError.
    """
    from kvopt.output_file import check_output

    taken: dict[Path, str] = {} if source is None else {source.resolve(): "the input"}
    for option, path in outputs.items():
        if path is None:
            continue
        check_output(path)
        if path.is_char_device():  # /dev/null and a terminal take any number of outputs
            continue
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise click.UsageError(f"{option} {path} would overwrite {other}", ctx)


def retention_option(command: AnyCommand) -> AnyCommand:
    """Add --retention: what is held for sessions that come back, as `retention`."""
    return click.option(
        "--retention",
        callback=_retention_callback,
        metavar="RULE[:SETTING=VALUE,...]",
        help="Hold blocks for sessions that come back: index, expected-hold, paper, fixed or infercept; best with "
        "--scheduler continuum. See docs/continuum.md.",
    )(command)


def _retention_callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> RetentionOptions | None:
    from kvopt.simulator.retention import RetentionOptions

    return None if value is None else RetentionOptions.parse(value)


def policy_library_option(command: AnyCommand) -> AnyCommand:
    """Add --policy-library; its policies are known to every other option and argument."""
    return click.option(
        "--policy-library",
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=library_callback,
        metavar="FILE.so",
        help="Shared library with policies, compiled against the headers of kvopt.config. Repeatable.",
    )(command)
