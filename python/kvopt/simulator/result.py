"""What a replay found: one row for each policy and capacity, and the files they are kept in."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kvopt.errors import ConfigError
from kvopt.output_file import write_output


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One policy at one capacity.

    A request with at least as many blocks as the capacity is skipped (never under the flat rule). `requests` counts all
    requests, `skipped` those; every other figure is over the requests that were not skipped.
    """

    policy: str
    """The policy as it was asked for."""
    capacity: int
    """Blocks."""
    block_hit: float
    """Hit blocks / referenced blocks, 0 to 1 (0 when nothing was referenced)."""
    token_hit: float
    """Hit tokens, at most the input of each request, / input tokens, 0 to 1."""
    cost_saved: float
    """Prefill cost of the hits / prefill cost of all blocks, 0 to 1; NaN under the flat rule."""
    evictions: int
    """Blocks evicted."""
    requests: int
    skipped: int
    block_references: int
    seconds: float
    """The replay alone, on one thread."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Rows ordered by capacity, then by policy, each in the order in which they were asked for."""

    trace: Mapping[str, object]
    """The summary of the trace, `rule`, and `p_star` in tokens."""
    rows: tuple[ReplayRow, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies, in order."""
        return tuple(dict.fromkeys(row.policy for row in self.rows))

    @property
    def capacities(self) -> tuple[int, ...]:
        """The capacities in blocks, in order."""
        return tuple(dict.fromkeys(row.capacity for row in self.rows))

    def row(self, policy: str, capacity: int) -> ReplayRow:
        """The row of a policy at a capacity; ConfigError names what there is when it was not replayed."""
        for row in self.rows:
            if row.policy == policy and row.capacity == capacity:
                return row
        raise ConfigError(
            f"no row for policy {policy!r} at capacity {capacity}: policies {', '.join(self.policies)}; "
            f"capacities {', '.join(map(str, self.capacities))}"
        )

    def only(self, policies: Iterable[str]) -> ReplayResult:
        """The rows of these policies alone."""
        wanted = set(policies)
        return ReplayResult(self.trace, tuple(row for row in self.rows if row.policy in wanted))

    def to_dict(self) -> dict[str, Any]:
        """``{"trace": {...}, "rows": [{"policy": ..., "capacity": ..., ...}]}`` of plain Python values."""
        return {"trace": dict(self.trace), "rows": [asdict(row) for row in self.rows]}

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict()` as JSON, whole or not at all. Raises ConfigError or OSError."""
        write_output(path, json_bytes(self.to_dict()))

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as CSV with one column a field, whole or not at all. Raises ConfigError or OSError."""
        write_output(path, csv_bytes(ReplayRow, self.rows))


def json_bytes(value: object) -> bytes:
    """UTF-8 JSON that any reader takes: figures that are not finite become null."""
    text = json.dumps(_plain(value), indent=1, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode()


def csv_bytes(kind: type[Any], rows: Iterable[Any]) -> bytes:
    """Dataclass instances of one kind as CSV, with a header of the field names."""
    names = [field.name for field in fields(kind)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return out.getvalue().encode()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # a NumPy scalar or array
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
