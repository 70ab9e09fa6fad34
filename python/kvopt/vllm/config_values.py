"""Checks of single values of a configuration: each returns the value as it is kept, or raises ConfigError."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kvopt.errors import ConfigError

Check: TypeAlias = Callable[[str, Any], Any]
"""Called as ``check(name, value)`` with the full name of the option."""

_SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[KMGT]i?B|B|)")
_UNITS = {"": 1, "B": 1} | {
    f"{letter}{infix}B": base**power
    for power, letter in enumerate("KMGT", start=1)
    for infix, base in (("", 1000), ("i", 1024))
}


def reject_unknown(where: str, given: Iterable[object], known: Iterable[str]) -> None:
    """Raise ConfigError for the first key in `given` that is not in `known`; it names the nearest and lists all."""
    names = list(known)
    for key in given:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"{where}: unknown option {key!r}: {hint}there are {', '.join(names)}")


def one_of(*choices: str) -> Check:
    """A check for one of some names."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            near = difflib.get_close_matches(str(value), choices, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"{name}: {value!r} is not a choice: {hint}there are {', '.join(choices)}")
        return value

    return check


def parquet_file(name: str, value: Any) -> str:
    """The name of a Parquet file."""
    path: str = text(name, value)
    if not path.endswith(".parquet"):
        raise ConfigError(f"{name}: {path!r}: a trace is written as Parquet; name a file *.parquet")
    return path


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}: {value!r} is neither true nor false")
    return value


def number(low: float, high: float = math.inf) -> Check:
    """A check for a finite number from `low` to `high`."""

    def check(name: str, value: Any) -> float:
        limits = f"from {low:g} to {high:g}" if high < math.inf else f"of {low:g} or more"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{name}: {value!r} is not a number {limits}")
        if not (low <= value <= high and math.isfinite(value)):
            raise ConfigError(f"{name}: {value!r} is not a finite number {limits}")
        return float(value)

    return check


def whole(low: int, high: int) -> Check:
    """A check for a whole number from `low` to `high`."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{name}: {value!r} is not a whole number from {low} to {high}")
        return value

    return check


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{name}: {value!r} is not a text")
    return value


def byte_size(name: str, value: Any) -> int:
    """Bytes: a whole number above 0, or a text such as "512MiB"."""
    size: float = -1
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = float(match["number"]) * _UNITS[match["unit"]]
    if size < 1:
        raise ConfigError(f"{name}: {value!r} is no number of bytes above 0, such as 1073741824 or '1GiB'")
    return int(size)


def token_ids(name: str, value: Any) -> tuple[int, ...] | None:
    """Token ids as a tuple; None for "auto", which asks the tokenizer."""
    if value == "auto":
        return None
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name}: {value!r} is neither 'auto' nor a list of token ids")
    check = whole(0, 2**31 - 1)
    return tuple(check(f"{name}[{i}]", item) for i, item in enumerate(value))


def optional(check: Check) -> Check:
    """The same check, and None is allowed."""
    return lambda name, value: None if value is None else check(name, value)


def table(name: str, value: Any) -> Mapping[str, Any]:
    """A mapping with texts as keys."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}: {value!r} is not a table of options")
    return value
