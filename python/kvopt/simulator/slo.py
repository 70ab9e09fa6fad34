"""Service-level objectives as text: "ttft_p99<2s", "token_hit>=60%"."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass

from kvopt.errors import ConfigError
from kvopt.metrics import LATENCIES
from kvopt.simulator.sweep.cell import figure_names

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_SHARES = ("token_hit", "recomputed_share", "useful_share", "wasted_share")
_HIGHER = ("token_hit", "useful_share", "requests_per_s", "output_tokens_per_s")
"""The figures that get better when they are higher; all others when they are lower."""

_SLO = re.compile(r"\s*(?P<figure>\w+)\s*(?P<sign><=|>=|<|>)\s*(?P<value>[\d.]+(?:e[+-]?\d+)?)\s*(?P<unit>%|[a-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Slo:
    """A figure of a run and the limit that it must keep."""

    figure: str
    sign: str
    limit: float
    """In the unit of the figure: seconds, a share from 0 to 1, a count."""
    text: str
    """As it was written."""

    @classmethod
    def parse(cls, text: str) -> Slo:
        """The objective of a text FIGURE<LIMIT or FIGURE>LIMIT (also <= and >=), with the unit of the limit.

        Latencies and seconds need a unit (us, ms, s, min, h), shares are numbers from 0 to 1 or in %, counts have none.
        Raises ConfigError naming the figures or units there are, or that the figure gets better the other way.
        """
        match = _SLO.fullmatch(text)
        if match is None:
            raise ConfigError(f"SLO {text!r}: write a figure, < or >, and a limit with its unit, such as ttft_p99<2s")
        figure, sign = match["figure"], match["sign"]
        known = figure_names()
        if figure not in known:
            near = difflib.get_close_matches(figure, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"SLO {text!r}: no figure {figure!r}; {hint}there are {', '.join(known)}")
        better = ">" if figure in _HIGHER else "<"
        if sign[0] != better:
            raise ConfigError(
                f"SLO {text!r}: {figure} is better when it is {'higher' if better == '>' else 'lower'}; "
                f"write {figure}{better}{match['value']}{match['unit']}"
            )
        return cls(figure, sign, _limit(text, figure, match["value"], match["unit"]), text.strip())

    def met(self, value: float) -> bool:
        """Whether a value keeps the limit; NaN, that of a run without data, never does."""
        if self.sign == "<":
            return value < self.limit
        if self.sign == "<=":
            return value <= self.limit
        return value > self.limit if self.sign == ">" else value >= self.limit

    @property
    def higher(self) -> bool:
        """Whether the figure is better when it is higher."""
        return self.sign[0] == ">"


def _limit(text: str, figure: str, number: str, unit: str) -> float:
    try:
        value = float(number)
    except ValueError:
        raise ConfigError(f"SLO {text!r}: {number!r} is no number") from None
    if not math.isfinite(value):
        raise ConfigError(f"SLO {text!r}: {number!r} is not finite")
    if figure.startswith(LATENCIES) or figure in ("recomputed_s", "prefill_s"):
        if unit not in _SECONDS:
            raise ConfigError(f"SLO {text!r}: {unit or 'no unit'}; {figure} is a time in {', '.join(_SECONDS)}")
        return value * _SECONDS[unit]
    if figure in _SHARES:
        if unit not in ("", "%"):
            raise ConfigError(f"SLO {text!r}: {unit}; {figure} is a share from 0 to 1, or in %")
        share = value / 100 if unit else value
        if share > 1:
            raise ConfigError(f"SLO {text!r}: {figure} is at most 1, or 100%")
        return share
    if unit:
        raise ConfigError(f"SLO {text!r}: {unit}; {figure} has no unit")
    return value
