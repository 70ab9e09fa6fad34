"""A journal: how a live server records a trace, one write a request, so that a crash loses nothing that was written.

A file starts with ``KVOPTJ1`` and a newline. Frames follow: length and CRC-32 of the payload (two little-endian
uint32), then the payload in MessagePack. The first frame is the header, a table with ``block_tokens``, ``name`` and
``source``; the others are lists:

======== ==================================================================================================
arrival  0, row, seconds, input tokens, session, turn, gap (s) or nil, hash of the last shared block, how many
         blocks are shared, hashes of the further blocks (8 bytes each, little-endian)
end      1, row, output tokens, stop reason, tool or nil, seconds at the server
======== ==================================================================================================

Hashes are 64 bits of the server's own block hashes, which stand for a block and all before it; a Parquet file made of
a journal holds numbers in their place. A file that ends within a frame is read up to there.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvopt._core import PrefixTrace
from kvopt.errors import TraceError
from kvopt.workload.base import Progress, StopReason, Trace
from kvopt.workload.columns import RequestColumns

MAGIC = b"KVOPTJ1\n"
SUFFIX = ".journal"
_FRAME = struct.Struct("<II")
_LONGEST = 1 << 28  # bytes of a frame; more is damage
_NO_HASH = 0


class JournalWriter:
    """Writes a journal that must not exist yet.

    Remembers up to twice `most_hashes` block hashes, so that what a request shares is not written again; what is
    forgotten is, and costs only space.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        block_tokens: int,
        name: str,
        source: dict[str, Any] | None = None,
        most_hashes: int = 1_000_000,
    ) -> None:
        import msgspec

        self._encode = msgspec.msgpack.Encoder().encode
        self._most = most_hashes
        self._recent: set[int] = set()
        self._older: set[int] = set()
        self._file = Path(path).open("xb", buffering=0)  # noqa: SIM115
        self.rows = 0
        self.size = self._file.write(MAGIC)
        self._write({"version": 1, "block_tokens": block_tokens, "name": name, "source": source or {}})

    def arrival(
        self,
        seconds: float,
        input_tokens: int,
        hashes: Sequence[bytes],
        *,
        session: int = -1,
        turn: int = -1,
        gap: float | None = None,
    ) -> int:
        """Write a request with the hashes of its full blocks, of 8 bytes or more each; returns its row.

        Raises OSError when the disk refuses.
        """
        shared = self._shared(hashes)
        last = _short(hashes[shared - 1]) if shared else _NO_HASH
        new = [_short(block) for block in hashes[shared:]]
        row = self.rows
        packed = np.array(new, dtype="<u8").tobytes()
        self._write([0, row, seconds, input_tokens, session, turn, gap, last, shared, packed])
        self.rows += 1
        self._recent.update(new)
        if len(self._recent) >= self._most:
            self._older, self._recent = self._recent, set()
        return row

    def end(self, row: int, output_tokens: int, stop: StopReason, seconds: float, tool: str | None = None) -> None:
        """Write how a request ended, and the seconds since it arrived. Raises OSError when the disk refuses."""
        self._write([1, row, output_tokens, int(stop), tool, seconds])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _shared(self, hashes: Sequence[bytes]) -> int:
        low, high = 0, len(hashes)
        while low < high:  # a block is known only if those before it are, but for what was forgotten
            middle = (low + high + 1) // 2
            short = _short(hashes[middle - 1])
            if short in self._recent or short in self._older:
                low = middle
            else:
                high = middle - 1
        return low

    def _write(self, value: Any) -> None:
        payload = self._encode(value)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        if self._file.write(frame) != len(frame):
            raise OSError("the disk took a part of a record only")
        self.size += len(frame)


def read_journal(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Read what a :class:`JournalWriter` wrote, as far as it came.

    Requests that had not ended have no output and an unknown stop reason. ``source["unread_bytes"]`` says how much of
    a file that ends within a frame was left out.

    Raises:
        TraceError: not a journal, of another version, without a request, or with a record that cannot be; names the
            file and the row.
        OSError: the file cannot be opened.
    """
    content = Path(path).read_bytes()
    if not content.startswith(MAGIC):
        raise TraceError(f"{path}: not a journal: it does not start with {MAGIC.decode().strip()}")
    frames = _frames(content)
    _, header = next(frames, (0, None))
    if not isinstance(header, dict) or header.get("version") != 1:
        raise TraceError(f"{path}: not a journal of version 1: its header is damaged or missing")
    rows = _Rows(str(path))
    end = len(MAGIC)
    for at, record in frames:
        rows.take(record)
        end = at
        if progress is not None and rows.count % 10_000 == 0:
            progress(at, len(content), "reading")
    source = {**header.get("source", {}), "unread_bytes": len(content) - max(end, rows.header_end(content))}
    return rows.trace(str(header.get("name", "")), int(header.get("block_tokens", 0)), source)


class _Rows:
    """The records of a journal as columns and a prefix tree."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._arrivals: list[tuple[float, int, int, int, float | None]] = []
        self._ends: dict[int, tuple[int, int, str | None, float]] = {}
        self._home: dict[int, int] = {}
        self._parent: list[int] = []
        self._shared: list[int] = []
        self._new: list[int] = []

    @property
    def count(self) -> int:
        """Requests so far."""
        return len(self._arrivals)

    @staticmethod
    def header_end(content: bytes) -> int:
        """Where the header's frame ends."""
        length, _ = _FRAME.unpack_from(content, len(MAGIC))
        return int(len(MAGIC) + _FRAME.size + length)

    def take(self, record: Any) -> None:
        """Add an arrival or an end; TraceError for anything else."""
        try:
            if record[0] == 0:
                self._arrive(*record[1:])
            else:
                _, row, output_tokens, stop, tool, seconds = record
                if not 0 <= row < self.count or stop not in set(StopReason):
                    raise ValueError(f"an end of row {row} with stop reason {stop}")
                self._ends[row] = (output_tokens, stop, tool, seconds)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise TraceError(f"{self._path}: row {self.count}: a record that cannot be: {error}") from error

    def _arrive(
        self,
        row: int,
        seconds: float,
        input_tokens: int,
        session: int,
        turn: int,
        gap: float | None,
        last: int,
        shared: int,
        packed: bytes,
    ) -> None:
        if row != self.count:
            raise ValueError(f"row {row} out of order")
        new: list[int] = np.frombuffer(packed, dtype="<u8").tolist()
        parent = self._home[last] if shared else -1
        known = 0
        while known < len(new) and new[known] in self._home:
            parent = self._home[new[known]]
            known += 1
        self._home.update(dict.fromkeys(new[known:], row))
        self._arrivals.append((seconds, input_tokens, session, turn, gap))
        self._parent.append(parent)
        self._shared.append(shared + known)
        self._new.append(len(new) - known)

    def trace(self, name: str, block_tokens: int, source: dict[str, Any]) -> Trace:
        """The finished trace."""
        if not self._arrivals:
            raise TraceError(f"{self._path}: no request in the journal; a trace needs at least one")
        tools: dict[str, int] = {}
        columns = RequestColumns()
        for row, (seconds, input_tokens, session, turn, gap) in enumerate(self._arrivals):
            output_tokens, stop, tool, api_time = self._ends.get(row, (0, 0, None, None))
            columns.append(
                seconds,
                input_tokens,
                output_tokens,
                session=session,
                turn=turn,
                stop=StopReason(stop),
                tool=-1 if tool is None else tools.setdefault(str(tool), len(tools)),
                gap=gap,
                api_time=api_time,
            )
        prefix = PrefixTrace(
            np.array(self._parent, dtype=np.int32),
            np.array(self._shared, dtype=np.uint32),
            np.array(self._new, dtype=np.uint32),
        )
        return Trace.from_columns(
            prefix,
            columns.finish(),
            name=name,
            block_tokens=block_tokens,
            tool_names=tuple(tools),
            source=source,
        )


def _frames(content: bytes) -> Iterator[tuple[int, Any]]:
    """Each whole frame's end and value, up to the first that is cut short or damaged."""
    import msgspec

    at = len(MAGIC)
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        payload = content[at + _FRAME.size : at + _FRAME.size + length]
        if length > _LONGEST or len(payload) < length or zlib.crc32(payload) != checksum:
            return
        at += _FRAME.size + length
        yield at, msgspec.msgpack.decode(payload)


def _short(block_hash: bytes) -> int:
    return int.from_bytes(block_hash[:8], "little")
