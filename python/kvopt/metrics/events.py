"""A log of what happened to requests and blocks, one row an event."""

from __future__ import annotations

import enum
import os
from typing import BinaryIO

from kvopt import _core
from kvopt.output_file import write_output


class EventKind(enum.IntEnum):
    """What happened; `amount` of a row is what is said here."""

    ARRIVED = 0
    """Tokens of the prompt."""
    REFUSED = 1
    """Blocks that the request needs and the cache has not."""
    ADMITTED = 2
    """Tokens that were hit."""
    LOADING = 3
    """Tokens that come from another tier."""
    FIRST_TOKEN = 4
    """Tokens of the answer so far."""
    PREEMPTED = 5
    """Computed tokens that are thrown away."""
    FINISHED = 6
    """Tokens of the answer."""
    ABORTED = 7
    """Tokens of the answer so far."""
    EVICTED = 8
    """Blocks that lost their content to make room for the request."""


class EventLog:
    """Rows in the order of happening, 25 bytes each; `native` is what holds them, to which the core adds too."""

    def __init__(self) -> None:
        self.native = _core.EventLog()

    def add(self, time: float, kind: EventKind, request: int, amount: int) -> None:
        """Note an event at `time` (seconds) of a request (its place in the trace)."""
        self.native.add(time, kind, request, amount)

    def __len__(self) -> int:
        return len(self.native)

    def rows(self) -> list[tuple[float, str, int, int]]:
        """All events as (seconds, kind, request, amount)."""
        names = [kind.name.lower() for kind in EventKind]
        log = self.native
        kinds = [names[kind] for kind in log.kind.tolist()]
        return list(zip(log.time.tolist(), kinds, log.request.tolist(), log.amount.tolist(), strict=True))


def write_events(path: str | os.PathLike[str], runs: list[tuple[dict[str, object], EventLog]]) -> None:
    """Write the logs of some runs as one Parquet file, whole or not at all.

    Columns: those of each run's labels (such as policy and seed), then time_s, event, request, amount. Raises
    ConfigError or OSError.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.array([kind.name.lower() for kind in EventKind])
    tables = []
    for labels, log in runs:
        columns = {name: pa.array([value] * len(log)) for name, value in labels.items()}
        columns["time_s"] = pa.array(log.native.time, pa.float64())
        columns["event"] = pa.DictionaryArray.from_arrays(pa.array(log.native.kind, pa.int8()), names)
        columns["request"] = pa.array(log.native.request, pa.int64())
        columns["amount"] = pa.array(log.native.amount, pa.int64())
        tables.append(pa.table(columns))
    table = pa.concat_tables(tables)

    def write(out: BinaryIO) -> None:
        pq.write_table(table, out, compression="zstd")

    write_output(path, write)
