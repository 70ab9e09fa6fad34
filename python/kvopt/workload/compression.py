"""Reading a file that may be compressed, and saying where a damaged one breaks."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self, cast

from kvopt.errors import TraceError
from kvopt.workload.base import Progress

CODECS = {".gz": "gzip", ".tgz": "gzip", ".xz": "xz", ".txz": "xz", ".zst": "zstd", ".tzst": "zstd"}
"""Suffixes that name a codec; without one of them the first bytes decide."""

TRACE_SUFFIXES = frozenset({".json", ".jsonl", ".csv", ".parquet", ".tar", *CODECS})

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_LINES_BETWEEN_REPORTS = 512
_DAMAGE = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


class InputFile:
    """A file opened for reading, decompressed on the way: plain, gzip, xz or zstd.

    Args:
        path: the file. An ``OSError`` is raised when it cannot be opened.
        stream: read from this instead of opening ``path``, which then only names the data.
        progress: told the bytes of the file read, and its size, while its lines are read.
    """

    def __init__(
        self, path: str | os.PathLike[str], stream: IO[bytes] | None = None, *, progress: Progress | None = None
    ) -> None:
        self.path = str(path)
        self._raw: BinaryIO = cast(BinaryIO, stream) if stream is not None else open(path, "rb")  # noqa: SIM115
        self.size = os.fstat(self._raw.fileno()).st_size if stream is None else None
        if stream is None:
            self.codec = CODECS.get(Path(path).suffix) or self._sniff()
        else:
            self.codec = CODECS.get(Path(path).suffix)
        self._line = 0
        self._progress = progress
        self._bytes = self._decompressed()

    def _sniff(self) -> str | None:
        head = self._raw.read(6)
        self._raw.seek(0)
        return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)

    def _decompressed(self) -> BinaryIO:
        if self.codec == "gzip":
            return cast(BinaryIO, gzip.GzipFile(fileobj=self._raw))
        if self.codec == "xz":
            return cast(BinaryIO, lzma.LZMAFile(self._raw))
        if self.codec == "zstd":
            import pyarrow as pa

            return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, pa.CompressedInputStream(self._raw, "zstd"))))
        return self._raw

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raw.close()

    @property
    def position(self) -> int:
        """Bytes of the file as stored that were read so far."""
        return self._raw.tell()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Every line that is not blank, with its number from 1.

        Raises:
            TraceError: the stream is truncated or corrupt; names the file and the line reached.
        """
        while line := self._read(self._bytes.readline):
            self._line += 1
            if self._line % _LINES_BETWEEN_REPORTS == 0:
                self._report()
            if not line.isspace():
                yield self._line, line
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self.position, self.size, "reading")

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` decompressed bytes, all of them by default; raises TraceError as :meth:`lines` does."""
        return self._read(self._bytes.read, size)

    def _read(self, method: object, *args: int) -> bytes:
        damage: tuple[type[BaseException], ...] = _DAMAGE
        if self.codec == "zstd":
            import pyarrow as pa

            damage = (*_DAMAGE, OSError, pa.ArrowException)
        try:
            return cast(bytes, method(*args))  # type: ignore[operator]
        except damage as error:
            reached = f"line {self._line + 1}" if self._line else f"byte {self.position} of the file"
            raise TraceError(f"{self.path}: {reached}: truncated or corrupt {self.codec} data: {error}") from error


def trace_name(path: str | os.PathLike[str]) -> str:
    """The name of a file or folder without the suffixes of trace formats and codecs."""
    name = Path(path)
    while name.suffix in TRACE_SUFFIXES:
        name = name.with_suffix("")
    return name.name or str(path)
