"""The rows of a sweep on disk: one small file a finished cell, and at the end one Parquet file with all of them.

Each file appears whole or not at all, so a sweep that was killed keeps every cell that it had finished.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvopt.errors import ConfigError
from kvopt.output_file import check_output, write_output
from kvopt.simulator.sweep.cell import ROW_FORMAT, Row, columns
from kvopt.workload.parquet import write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

    from kvopt.workload.base import Trace

KIND = "kvopt-sweep"


class SweepStore:
    """The rows of one output file, by the keys of their cells."""

    def __init__(self, output: str | os.PathLike[str]) -> None:
        """Raises ConfigError when `output` cannot be written."""
        self.output = check_output(output)
        self.folder = self.output.with_name(f"{self.output.name}.parts")
        if self.folder.exists() and not self.folder.is_dir():
            raise ConfigError(f"{self.folder}: is in the way of the folder for finished cells")

    def finished(self, keys: Iterable[str]) -> dict[str, Row]:
        """The rows of those of `keys` that were finished before, here or in an output of an earlier sweep."""
        wanted = set(keys)
        rows = {key: row for key, row in _rows(self.output).items() if key in wanted}
        for key in wanted - rows.keys():
            rows |= _rows(self._part(key))
        return rows

    def begin(self, trace: Trace) -> Path:
        """Make the folder for finished cells, with the trace for the workers; return the trace's file."""
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "trace.parquet"
        write_parquet(trace, path)
        return path

    def add(self, key: str, row: Row) -> None:
        """Keep a finished cell. Raises OSError when the disk refuses."""
        write_output(self._part(key), _parquet({key: row}, {}))

    def finish(self, rows: Mapping[str, Row], about: Mapping[str, Any]) -> None:
        """Write all rows, in their order, into the one file, and remove the parts."""
        write_output(self.output, _parquet(rows, about))
        self.discard()

    def discard(self) -> None:
        """Remove the folder of finished cells; what others put there stays."""
        if not self.folder.is_dir():
            return
        for pattern in ("cell-*.parquet", "trace.parquet", ".*.partial"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _part(self, key: str) -> Path:
        return self.folder / f"cell-{key}.parquet"


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a sweep's file, in order. Raises OSError, or ConfigError when it is no such file."""
    rows = _rows(Path(path))
    if not rows:
        Path(path).open("rb").close()
        raise ConfigError(f"{path}: no result of kvopt sweep")
    return list(rows.values())


def _schema(metadata: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    given = [pa.field("cell", pa.string()), *(pa.field(name, kinds[kind]) for name, kind in columns().items())]
    return pa.schema(given, metadata)


def _parquet(rows: Mapping[str, Row], about: Mapping[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = {"kvopt.kind": KIND, "kvopt.format_version": str(ROW_FORMAT), "kvopt.about": json.dumps(about)}
    table = pa.Table.from_pylist([{"cell": key, **row} for key, row in rows.items()], schema=_schema(metadata))
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _rows(path: Path) -> dict[str, Row]:
    # A file that is missing, foreign or damaged holds no finished cell; it will be written anew.
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        return {}
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return {}
    if not table.schema.remove_metadata().equals(_schema({}).remove_metadata()):
        return {}
    return {row.pop("cell"): row for row in table.to_pylist()}
