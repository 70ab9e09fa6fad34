"""Taking the values of a spec's tables; every error names file, table, key and what may stand there."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kvopt.errors import ConfigError

Value = TypeVar("Value")

MOST_SEEDS = 10_000


class Table:
    """One table of a spec."""

    def __init__(self, file: str, name: str, values: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        """Raises ConfigError for a key that is not one of `keys`."""
        self._where, self._values = f"{file}: {name}", values
        for key in values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ConfigError(f"{self._where}: no key {key!r}; {hint}there are {', '.join(keys)}")

    @property
    def given(self) -> bool:
        """Whether any key is set."""
        return bool(self._values)

    def error(self, key: str, what: str) -> ConfigError:
        """An error about a key."""
        return ConfigError(f"{self._where}.{key}: {what}" if key else f"{self._where}: {what}")

    def checked(self, key: str, make: Callable[[], Value]) -> Value:
        """What `make` returns; of a ConfigError that it raises the message says which key it is about."""
        try:
            return make()
        except ConfigError as error:
            text = str(error)
            raise (error if text.startswith(self._where) else self.error(key, text)) from None

    def take(self, key: str, read: Callable[[Any], Value]) -> Value | None:
        """The value of a key as `read` gives it; None where it is not set."""
        if key not in self._values:
            return None
        return self.checked(key, lambda: read(self._values[key]))

    def text(self, key: str) -> str | None:
        """A text that is not empty, or None where the key is not set."""
        value = self._values.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(key, f"{value!r} is no text")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """One of `allowed`."""
        value = self._values.get(key, default)
        if value not in allowed:
            raise self.error(key, f"{value!r} is not one of {', '.join(allowed)}")
        return str(value)

    def like(self, key: str, default: Value) -> Value:
        """A value of the type of its default; a whole number may stand for a float."""
        value = self._values.get(key, default)
        kind = type(default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
            raise self.error(key, f"{value!r} is not {names[kind]}")
        return value


def texts(value: object) -> tuple[str, ...]:
    """A list of texts without repeats; one text stands for a list of it. Raises ConfigError."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
        raise ConfigError(f"{value!r} is no list of texts")
    return tuple(dict.fromkeys(listed))


def numbers(value: object, read: Callable[[object], Value]) -> tuple[Value, ...]:
    """What `read` makes of each value of a list, without repeats; one value stands for a list. Raises ConfigError."""
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise ConfigError("the list is empty")
    return tuple(dict.fromkeys(read(each) for each in listed))


def seeds(value: object) -> tuple[int, ...]:
    """The seeds of a count (1: those of the trace; N: 1 to N) or of a list of seeds. Raises ConfigError."""
    if type(value) is int and 1 <= value <= MOST_SEEDS:
        return (0,) if value == 1 else tuple(range(1, value + 1))
    if isinstance(value, list) and value and all(type(each) is int and 0 <= each < 2**32 for each in value):
        return tuple(dict.fromkeys(value))
    raise ConfigError(
        f"{value!r} is neither a count of seeds from 1 to {MOST_SEEDS} nor a list of seeds from 0 (the arrivals of the "
        "trace) to 2^32 - 1"
    )
