"""Option values of `kvopt cost`: lengths of contexts, shares, tiers, one memory size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from kvopt.cost import Tier

LONGEST = 2**31
"""No context is longer, in tokens."""

_TOKENS = re.compile(r"(\d[\d_]*(?:\.\d+)?)([km]?)", re.IGNORECASE | re.ASCII)
_SCALE = {"": 1, "k": 1024, "m": 1024 * 1024}


def parse_tokens(text: str) -> int:
    """Tokens of "32768", "32k" (times 1,024) or "1m" (times 1,048,576), as contexts are sized. Raises ConfigError."""
    match = _TOKENS.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a number of tokens, such as 32768, 32k or 1m")
    tokens = float(match.group(1).replace("_", "")) * _SCALE[match.group(2).lower()]
    if tokens != int(tokens) or not 1 <= tokens <= LONGEST:
        raise ConfigError(f"{text!r} is not a whole number of tokens from 1 to {LONGEST}")
    return int(tokens)


def context_callback(ctx: click.Context, parameter: click.Parameter, value: str) -> int:
    """A context length in tokens."""
    try:
        return parse_tokens(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def efficiency_callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A share such as 0.5 or 50%."""
    if value is None:
        return None
    try:
        share = float(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a share, such as 0.5 or 50%", ctx, parameter) from None
    if not 0.0 < share <= 1.0:
        raise click.BadParameter(f"{value!r} is not above 0 and at most 1", ctx, parameter)
    return share


def memory_size_callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A memory size in bytes."""
    from kvopt.cost import parse_bytes

    try:
        return None if value is None else parse_bytes(value)
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def tiers_callback(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[Tier]:
    """Tiers of different names."""
    from kvopt.cost import parse_tier

    try:
        tiers = [parse_tier(value) for value in values]
    except ConfigError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None
    names = [tier.name for tier in tiers]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"tier {name!r} is named twice", ctx, parameter)
    return tiers
