"""Recording what a live server was asked, as a trace that every command of KVopt reads: hashes, never tokens or text.

While the server runs it writes a journal beside the trace's file, one write a request; an orderly end turns the journal
into the trace and removes it. After a crash the journal stays: ``kvopt trace convert`` reads it.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from kvopt.errors import ConfigError, TraceError
from kvopt.output_file import check_output
from kvopt.vllm import observation as seen
from kvopt.workload.base import StopReason
from kvopt.workload.journal import SUFFIX, JournalWriter, read_journal

logger = logging.getLogger("vllm.kvopt")

_MOST_NAMES = 10_000  # of traces with one stem in a folder


class TraceRecorder:
    """Writes the requests of one engine, until it is closed or `limit` bytes are written.

    A file that exists is never written over: with ``trace.parquet`` there, ``trace-2.parquet`` is made.
    Raises ConfigError when the folder is missing or not writable.

    Attributes:
        path: where the trace will be.
        recorded: requests that were written.
        stopped: why nothing more is written; empty while it records.
    """

    def __init__(self, path: str | os.PathLike[str], block_tokens: int, *, limit: int) -> None:
        wanted = check_output(path)
        self.path, self._journal = _open_free(wanted, block_tokens)
        self._limit = limit
        self._rows: dict[str, int] = {}
        self._start: float | None = None
        self.recorded = 0
        self.stopped = ""

    @property
    def journal_path(self) -> Path:
        """The journal, as long as there is one."""
        return _journal_of(self.path)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._journal.size

    def observe(self, event: seen.Event) -> None:
        """Write arrivals and ends. A disk that refuses ends the recording, once and for all."""
        if self.stopped:
            return
        try:
            if isinstance(event, seen.Arrived):
                self._arrived(event)
            elif isinstance(event, seen.Finished):
                self._ended(event)
        except OSError as error:
            self._stop(str(error))

    def close(self) -> None:
        """Turn the journal into the trace. Where that fails the journal stays, and one log line says so."""
        self._journal.close()
        self.stopped = self.stopped or "closed"
        journal = self.journal_path
        if not self.recorded:
            journal.unlink(missing_ok=True)
            return
        if not journal.exists():
            return
        try:
            from kvopt.workload.parquet import write_parquet

            write_parquet(read_journal(journal), self.path)
        except (OSError, TraceError, ConfigError, ImportError) as error:
            logger.warning("KVopt: the trace stays a journal, %s: %s", journal, error)
            return
        journal.unlink()

    def _arrived(self, event: seen.Arrived) -> None:
        view = event.request
        if self._start is None:
            self._start = event.now
        self._rows[view.request_id] = self._journal.arrival(
            event.now - self._start,
            view.prompt_tokens,
            event.hashes,
            session=view.session,
            turn=view.turn,
            gap=view.gap,
        )
        self.recorded += 1
        if self._journal.size >= self._limit:
            self._stop(f"it reached its limit of {self._limit} bytes")

    def _ended(self, event: seen.Finished) -> None:
        view = event.request
        row = self._rows.pop(view.request_id, None)
        if row is not None:
            tool = view.client.get("tool")
            named = tool[:256] if isinstance(tool, str) else None
            stop = StopReason(int(event.stop))
            self._journal.end(row, event.output_tokens, stop, event.now - view.arrival, named)

    def _stop(self, why: str) -> None:
        self.stopped = why
        logger.warning("KVopt: recording to %s ended after %d requests: %s", self.path, self.recorded, why)


def _open_free(wanted: Path, block_tokens: int) -> tuple[Path, JournalWriter]:
    source = {"format": "kvopt-vllm"}
    for number in range(1, _MOST_NAMES):
        path = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        if path.exists():
            continue
        try:
            return path, JournalWriter(_journal_of(path), block_tokens=block_tokens, name=path.stem, source=source)
        except FileExistsError:
            continue
    raise ConfigError(f"record: {str(wanted)!r} and {_MOST_NAMES} names after it are taken")


def _journal_of(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)
