"""CSV traces that tell arrivals and lengths alone: BurstGPT and the Azure LLM inference traces.

============ =================================== ==================================================
trace        columns read                        time
============ =================================== ==================================================
BurstGPT     Timestamp, Request tokens,          seconds
             Response tokens
Azure        TIMESTAMP, ContextTokens,           date and time, UTC unless it says otherwise
             GeneratedTokens
============ =================================== ==================================================

Other columns are ignored. Without block ids nothing can be said of reuse: such a file has no prefix tree, but a
generator takes its arrivals and lengths and adds prefixes of its own (:mod:`kvopt.workload.generate_prompts`).
"""

from __future__ import annotations

import csv
import math
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvopt.errors import TraceError
from kvopt.workload.base import Progress, Trace, Workload
from kvopt.workload.compression import InputFile, trace_name

LARGEST_LENGTH = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class LengthsOnly(Workload):
    """R requests of which only arrivals and lengths are known.

    Attributes:
        path: the file they came from.
        format: ``burstgpt`` or ``azure``.
        time: seconds since the first request (float64[R], never decreasing).
        input_tokens: prompt lengths (uint32[R]).
        output_tokens: answer lengths (uint32[R]).
    """

    path: str
    format: str
    time: NDArray[np.float64]
    input_tokens: NDArray[np.uint32]
    output_tokens: NDArray[np.uint32]

    @property
    def name(self) -> str:
        """The file's name without its suffixes."""
        return trace_name(self.path)

    @property
    def requests(self) -> int:
        """How many requests, R."""
        return len(self.time)

    def as_trace(self) -> Trace:
        """Always raises TraceError: the file does not say which requests share blocks."""
        raise TraceError(
            f"{self.path}: {self.format} traces tell arrivals and lengths only, not which requests share a prefix, so "
            "nothing can be said of reuse; generate prefixes for it: "
            f"kvopt trace generate prompts --arrivals {self.path} -o OUT.parquet"
        )

    def load(self, progress: Progress | None = None) -> Trace:
        """As :meth:`as_trace`."""
        return self.as_trace()


@dataclass(frozen=True, slots=True)
class _Columns:
    format: str
    time: str
    input_tokens: str
    output_tokens: str
    seconds: Callable[[str], float]


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("is not a finite number of seconds")
    return value


def _date(text: str) -> float:
    moment = datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


FORMATS = (
    _Columns("burstgpt", "Timestamp", "Request tokens", "Response tokens", _number),
    _Columns("azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", _date),
)


def read_lengths(path: str | os.PathLike[str], *, progress: Progress | None = None) -> LengthsOnly:
    """Read a BurstGPT or Azure CSV file, plain or compressed; its header says which.

    Raises:
        TraceError: the file breaks the format (names file, line, column and value), or holds no request.
        OSError: the file cannot be opened.
    """
    time = array("d")
    input_tokens = array("Q")
    output_tokens = array("Q")
    with InputFile(path, progress=progress) as file:
        rows = _rows(file)
        _, header = next(rows, (1, []))
        if not header:
            raise TraceError(f"{path}: an empty file; a trace needs at least one request")
        columns = _recognized(str(path), header)
        places = [header.index(name) for name in (columns.time, columns.input_tokens, columns.output_tokens)]
        start = last = 0.0
        for number, row in rows:
            where = f"{path}: line {number}"
            if len(row) != len(header):
                raise TraceError(f"{where}: {len(row)} fields, but {len(header)} in the header")
            when, asked, answered = (row[place] for place in places)
            seconds = _seconds(where, columns, when)
            if not len(time):
                start = last = seconds
            if seconds < last:
                raise TraceError(f"{where}: {columns.time}: {when} is before the time of the request before it")
            last = seconds
            input_length = _length(where, columns.input_tokens, asked)
            output_length = _length(where, columns.output_tokens, answered)
            time.append(seconds - start)
            input_tokens.append(input_length)
            output_tokens.append(output_length)
    if not len(time):
        raise TraceError(f"{path}: no request in the file; a trace needs at least one")
    return LengthsOnly(
        path=str(path),
        format=columns.format,
        time=_column(time, np.float64),
        input_tokens=_column(input_tokens, np.uint32),
        output_tokens=_column(output_tokens, np.uint32),
    )


def recognizes(header: list[str]) -> bool:
    """Whether these are the column names of a format that :func:`read_lengths` reads."""
    return any({f.time, f.input_tokens, f.output_tokens} <= set(header) for f in FORMATS)


def _rows(file: InputFile) -> Iterator[tuple[int, list[str]]]:
    for number, line in file.lines():
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            yield number, next(csv.reader((text,), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise TraceError(f"{file.path}: line {number}: not valid CSV: {error}") from None


def _recognized(path: str, header: list[str]) -> _Columns:
    for columns in FORMATS:
        if {columns.time, columns.input_tokens, columns.output_tokens} <= set(header):
            return columns
    known = "; ".join(f"{f.format}: {f.time}, {f.input_tokens}, {f.output_tokens}" for f in FORMATS)
    raise TraceError(f"{path}: line 1: columns {', '.join(header)} are of no known format ({known})")


def _seconds(where: str, columns: _Columns, text: str) -> float:
    try:
        value = columns.seconds(text)
    except ValueError as error:
        raise TraceError(f"{where}: {columns.time}: {text!r}: {error}") from None
    if value < 0:
        raise TraceError(f"{where}: {columns.time}: {text!r} is below 0")
    return value


def _length(where: str, column: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise TraceError(f"{where}: {column}: {text!r} is not a whole number of tokens >= 0")
    value = int(digits) if len(digits) <= 20 else LARGEST_LENGTH + 1
    if value > LARGEST_LENGTH:
        raise TraceError(f"{where}: {column}: {digits[:40]} is above {LARGEST_LENGTH}")
    return value


def _column(values: array[int] | array[float], dtype: type[np.generic]) -> NDArray[Any]:
    column = np.array(values).astype(dtype)
    column.setflags(write=False)
    return column
