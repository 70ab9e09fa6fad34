"""A policy under a grid of settings: "asymcache:lifespan=10|100,r=10|40" is four specs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kvopt.errors import ConfigError

MOST_SETS = 1000


def policy_grid(text: str) -> list[str]:
    """One spec for each combination, the last setting changing quickest; repeats removed.

    Raises ConfigError for a value that is missing, a text without alternatives, and more than MOST_SETS specs; whether
    the specs make sense is left to whoever parses them.
    """
    name, _, settings = text.partition(":")
    axes: list[list[str]] = []
    sets = 1
    for setting in settings.split(","):
        key, _, values = setting.partition("=")
        alternatives = list(dict.fromkeys(value.strip() for value in values.split("|")))
        if not all(alternatives):
            raise ConfigError(f"{text!r} lacks a value of {key!r}; write {key or 'setting'}=1|2|3")
        axes.append([f"{key}={value}" for value in alternatives])
        sets *= len(alternatives)
    if sets == 1:
        raise ConfigError(f"{text!r} is one parameter set; write alternatives, as in {name}:setting=1|2|3")
    if sets > MOST_SETS:
        raise ConfigError(f"{text!r} is {sets:,} parameter sets; it may be at most {MOST_SETS:,}")
    return [f"{name}:{','.join(choice)}" for choice in itertools.product(*axes)]


def policy_grids(texts: Sequence[str]) -> list[str]:
    """The specs of all grids."""
    return list(dict.fromkeys(spec for text in texts for spec in policy_grid(text)))
