"""Rules for the TTL by name, with options: ``paper``, ``index``, ``fixed:seconds=2``."""

from __future__ import annotations

import difflib
import inspect

from kvopt.continuum.ttl import ExpectedHold, Index, InferCept, TtlRule
from kvopt.continuum.ttl_published import Fixed, Paper
from kvopt.errors import ConfigError

TTL_RULES: dict[str, type[TtlRule]] = {rule.name: rule for rule in (Index, ExpectedHold, Paper, Fixed, InferCept)}
"""Every rule by its name."""


def make_ttl_rule(spec: str) -> TtlRule:
    """A new rule from ``name`` or ``name:option=number,option=number``.

    Raises ConfigError for an unknown name (naming the nearest), an unknown option, or a value out of its range.
    """
    name, _, settings = spec.strip().partition(":")
    rule = TTL_RULES.get(name)
    if rule is None:
        near = difflib.get_close_matches(name, TTL_RULES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"unknown TTL rule {name!r}: {hint}known: {', '.join(TTL_RULES)}")
    known = [option for option in inspect.signature(rule).parameters if option not in {"args", "kwargs"}]
    options: dict[str, float] = {}
    for setting in filter(None, settings.split(",")):
        option, _, text = setting.partition("=")
        if option not in known:
            raise ConfigError(f"TTL rule {name}: unknown option {option!r}; it takes {', '.join(known) or 'none'}")
        try:
            options[option] = float(text)
        except ValueError:
            raise ConfigError(f"TTL rule {name}: {option} is {text!r}; it must be a number") from None
    return rule(**options)
