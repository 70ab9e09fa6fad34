"""Reading a trace of whatever format: it is told from the suffix and the first record."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from kvopt.errors import ConfigError, TraceError
from kvopt.workload.archive import is_archive
from kvopt.workload.base import Progress, Trace, Workload
from kvopt.workload.compression import CODECS, InputFile, trace_name

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"drop_partial": False, "arrival_gap": 30.0, "seed": 1, "share_prefix": False}
)
"""The options of the readers, as they are when not given."""

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mooncake": ("drop_partial",),
    "qwen-bailian": ("drop_partial",),
    "kv-cache-tester": ("arrival_gap", "seed", "share_prefix"),
    "lengths": (),
    "parquet": (),
    "journal": (),
}
FORMATS = tuple(_OPTIONS)
"""What ``format`` may name, besides ``auto``."""


@dataclass(frozen=True, slots=True)
class TraceFile(Workload):
    """A trace file and how to read it; see :func:`read_trace` for the fields.

    Raises:
        ConfigError: ``format`` is not known.
    """

    path: str | os.PathLike[str]
    format: str = "auto"
    drop_partial: bool = False
    arrival_gap: float = 30.0
    seed: int = 1
    share_prefix: bool = False

    def __post_init__(self) -> None:
        if self.format != "auto" and self.format not in FORMATS:
            raise ConfigError(f"format {self.format!r} is not one of auto, {', '.join(FORMATS)}")

    @property
    def name(self) -> str:
        """The file's name without its suffixes."""
        return trace_name(self.path)

    def load(self, progress: Progress | None = None) -> Trace:
        """As :func:`read_trace`."""
        found = detect_format(self.path) if self.format == "auto" else self.format
        given = {option: getattr(self, option) for option, default in DEFAULTS.items()}
        for option, value in given.items():
            if option not in _OPTIONS[found] and value != DEFAULTS[option]:
                takers = ", ".join(f for f, options in _OPTIONS.items() if option in options)
                raise ConfigError(f"{self.path}: {option} does not apply to a {found} trace, only to {takers}")
        options = {option: given[option] for option in _OPTIONS[found]}
        return _reader(found)(self.path, progress=progress, **options)


def read_trace(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    drop_partial: bool = False,
    arrival_gap: float = 30.0,
    seed: int = 1,
    share_prefix: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Read a trace.

    Args:
        path: a file, plain or .gz, .xz, .zst; or a folder or tar archive of kv-cache-tester sessions.
        format: ``auto``, ``mooncake``, ``qwen-bailian``, ``kv-cache-tester``, ``lengths``, ``parquet`` or ``journal``
            (what a server that was killed leaves of a recording).
        drop_partial: leave out the partial last block of a request (mooncake, qwen-bailian).
        arrival_gap: mean seconds between the starts of sessions (kv-cache-tester).
        seed: of those starts (kv-cache-tester).
        share_prefix: sessions of one model share their tool and system prompt (kv-cache-tester).
        progress: called now and then while reading.

    Raises:
        ConfigError: the format is unknown, or an option does not apply to it.
        TraceError: the file breaks its format; also for CSV traces, which do not tell what requests share
            (:func:`kvopt.workload.lengths_csv.read_lengths` reads those).
        OSError: a file cannot be opened.
    """
    return TraceFile(path, format, drop_partial, arrival_gap, seed, share_prefix).load(progress)


def detect_format(path: str | os.PathLike[str]) -> str:
    """The format of a file or folder, one of :data:`FORMATS`.

    Raises:
        TraceError: it is none of them.
        OSError: the file cannot be opened.
    """
    place = Path(path)
    if place.is_dir() or is_archive(place):
        return "kv-cache-tester"
    suffix = place.with_suffix("").suffix if place.suffix in CODECS else place.suffix
    if suffix == ".csv":
        return "lengths"
    with InputFile(place) as file:
        head = file.read(8)
    if head == b"KVOPTJ1\n":
        return "journal"
    if head[:4] == b"PAR1" or suffix == ".parquet":
        return "parquet"
    return _format_of_records(place)


def _format_of_records(path: Path) -> str:
    from kvopt.workload.lengths_csv import recognizes

    with InputFile(path) as file:
        _, line = next(file.lines(), (1, b""))
    if not line:
        raise TraceError(f"{path}: an empty file; a trace needs at least one request")
    if recognizes(line.decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")):
        return "lengths"
    keys: set[str] = set()
    try:
        record = msgspec.json.decode(line)
        keys = set(record) if isinstance(record, dict) else set()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if line.lstrip().startswith(b"{") and path.suffixes and ".json" in path.suffixes:
            return "kv-cache-tester"  # one document over many lines; its reader says what is wrong with it
    if "chat_id" in keys:
        return "qwen-bailian"
    if "requests" in keys:
        return "kv-cache-tester"
    if "hash_ids" in keys or ".jsonl" in path.suffixes:
        return "mooncake"
    raise TraceError(
        f"{path}: line 1: not a trace of a known format ({', '.join(FORMATS)}): {line[:60].decode(errors='replace')!r}"
    )


def _reader(name: str) -> Callable[..., Trace]:
    if name == "mooncake":
        from kvopt.workload.mooncake import read_mooncake

        return read_mooncake
    if name == "qwen-bailian":
        from kvopt.workload.qwen_bailian import read_qwen_bailian

        return read_qwen_bailian
    if name == "kv-cache-tester":
        from kvopt.workload.kv_cache_tester import read_kv_cache_tester

        return read_kv_cache_tester
    if name == "parquet":
        from kvopt.workload.parquet import read_parquet

        return read_parquet
    if name == "journal":
        from kvopt.workload.journal import read_journal

        return read_journal
    return _refuse_lengths


def _refuse_lengths(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    from kvopt.workload.lengths_csv import read_lengths

    return read_lengths(path, progress=progress).as_trace()
