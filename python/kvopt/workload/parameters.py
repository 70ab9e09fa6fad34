"""Parameters of generators: dataclass fields with limits, which are checked in one place."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from kvopt.errors import ConfigError

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a parameter may be, and what it means."""

    meaning: str
    minimum: float
    maximum: float


def parameter(default: _Number, meaning: str, *, minimum: float = 0, maximum: float = math.inf) -> _Number:
    """A dataclass field for a number from ``minimum`` to ``maximum``, both included; whole when the default is.

    As the type of a field this returns the number's own type, as :func:`dataclasses.field` does.
    """
    made: Any = field(default=default, metadata={"limits": Limits(meaning, minimum, maximum)})
    return made  # type: ignore[no-any-return]


def limits_of(which: Field[Any]) -> Limits | None:
    """The limits of a field made by :func:`parameter`; None for any other field."""
    return which.metadata.get("limits")


def check_parameters(owner: Any) -> None:
    """Check every field made by :func:`parameter`.

    Raises:
        ConfigError: a value is not of the field's type, not finite or out of range; names the first.
    """
    for which in fields(owner):
        limits = limits_of(which)
        if limits is None:
            continue
        value = getattr(owner, which.name)
        whole = isinstance(which.default, int)
        accepted = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise ConfigError(f"{which.name} {value!r} is not a {'whole ' if whole else ''}number")
        if not limits.minimum <= value <= limits.maximum or not math.isfinite(value):
            raise ConfigError(f"{which.name} {value} is not in {limits.minimum:g}..{limits.maximum:g}")
