"""Measured prefill steps: new tokens, cached tokens in front, and the time. From arrays, or a CSV file.

The header names the columns, in any order; others are ignored, and so are lines that start with `#`.

============== ================================================== ==============
what           one of these columns                               unit
============== ================================================== ==============
new tokens     q, new, new_tokens, query_tokens                   tokens
cached tokens  s, cached, cached_tokens, context, context_tokens  tokens
time           ms, time_ms, t_ms, milliseconds                    milliseconds
or             seconds, time_s                                    seconds
============== ================================================== ==============

Without a column of cached tokens they are 0.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.errors import MeasurementError

_NEW = ("q", "new", "new_tokens", "query_tokens")
_CACHED = ("s", "cached", "cached_tokens", "context", "context_tokens")
_MILLISECONDS = ("ms", "time_ms", "t_ms", "milliseconds")
_SECONDS = ("seconds", "time_s")


@dataclass(frozen=True, slots=True, eq=False)
class PrefillPoints:
    """N measured steps.

    Attributes:
        new: tokens that the step computed (float64[N], above 0).
        cached: tokens in front of them (float64[N], 0 or more).
        ms: how long it took (float64[N], above 0).

    Raises MeasurementError for other shapes and values, with the place of the first bad one.
    """

    new: NDArray[np.float64]
    cached: NDArray[np.float64]
    ms: NDArray[np.float64]

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in ("new", "cached", "ms")}
        if len(set(shapes.values())) > 1 or len(self.ms.shape) != 1:
            raise MeasurementError(f"points: one-dimensional arrays of one length are expected, not {shapes}")
        for name in shapes:
            values = getattr(self, name)
            bad = np.flatnonzero(~(np.isfinite(values) & ((values >= 0.0) if name == "cached" else (values > 0.0))))
            if bad.size:
                least = "of 0 or more" if name == "cached" else "above 0"
                raise MeasurementError(f"{name}[{bad[0]}]: {values[bad[0]]} is not a finite number {least}")

    def __len__(self) -> int:
        return len(self.ms)


def prefill_points(new: ArrayLike, cached: ArrayLike, ms: ArrayLike) -> PrefillPoints:
    """Points from three sequences of N numbers each. Raises MeasurementError."""
    return PrefillPoints(_array("new", new), _array("cached", cached), _array("ms", ms))


def read_points(path: str | os.PathLike[str]) -> PrefillPoints:
    """Points from a CSV file. Raises MeasurementError that names file, line, column and value, or OSError."""
    rows = _rows(Path(path))
    number, header = next(rows, (1, []))
    names = [name.strip().lower() for name in header]
    where = f"{path}: line {number}"
    new = _place(where, names, _NEW, "new tokens")
    milliseconds, seconds = _found(names, _MILLISECONDS), _found(names, _SECONDS)
    if (milliseconds is None) == (seconds is None):
        raise MeasurementError(
            f"{where}: one column of times is expected ({', '.join(_MILLISECONDS)}, or {', '.join(_SECONDS)}), not "
            f"{', '.join(names) or 'an empty file'}"
        )
    time = milliseconds if milliseconds is not None else seconds
    scale = 1.0 if milliseconds is not None else 1000.0
    cached = _found(names, _CACHED)
    columns: tuple[list[float], list[float], list[float]] = ([], [], [])
    for number, row in rows:
        where = f"{path}: line {number}"
        if len(row) != len(names):
            raise MeasurementError(f"{where}: {len(row)} fields, but {len(names)} in the header")
        assert time is not None
        columns[0].append(_number(where, names[new], row[new], least=0.0, above=True))
        columns[1].append(0.0 if cached is None else _number(where, names[cached], row[cached], least=0.0))
        columns[2].append(scale * _number(where, names[time], row[time], least=0.0, above=True))
    if not columns[0]:
        raise MeasurementError(f"{path}: no points in the file")
    return prefill_points(*columns)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text and not text.startswith("#"):
                yield number, next(csv.reader((text,), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise MeasurementError(f"{path}: line {number}: not valid CSV: {error}") from None


def _found(names: list[str], wanted: tuple[str, ...]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _place(where: str, names: list[str], wanted: tuple[str, ...], what: str) -> int:
    place = _found(names, wanted)
    if place is None:
        found = ", ".join(names) or "an empty file"
        raise MeasurementError(f"{where}: a column of {what} is expected ({', '.join(wanted)}), not {found}")
    return place


def _number(where: str, column: str, text: str, *, least: float, above: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        raise MeasurementError(f"{where}: {column}: {text!r} is not a number") from None
    if not math.isfinite(value) or value < least or (above and value <= least):
        raise MeasurementError(
            f"{where}: {column}: {text!r} is not a finite number {'above' if above else 'of at least'} {least:g}"
        )
    return value


def _array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MeasurementError(f"{name}: not numbers: {error}") from None
    array.setflags(write=False)
    return array
