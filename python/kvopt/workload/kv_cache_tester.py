"""kv-cache-tester sessions: one JSON file for each session of a coding agent, in a folder, a tar archive or alone.

The format of github.com/callanjfox/kv-cache-tester (traces/). Sessions do not say when they began, so they are merged:

- Sessions go in order of file name; session k starts at the sum of k + 1 draws of
  ``random.Random(seed).expovariate(1 / arrival_gap)``.
- A request's time is its session's start + ``t``; for a sub-agent's request, its session's start + the sub-agent's
  ``t`` + its own ``t``.
- Block ids mean something within one session and sub-agent only.
- Requests are sorted by time; ties stay in the order of sessions, then of the listing, a sub-agent's requests where the
  sub-agent is listed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvopt._core import PrefixTraceBuilder
from kvopt.errors import ConfigError, TraceError
from kvopt.workload.archive import JSON_SUFFIXES, is_archive, member_names, read_members
from kvopt.workload.base import Progress, StopReason, Trace
from kvopt.workload.columns import RequestColumns
from kvopt.workload.compression import InputFile, trace_name
from kvopt.workload.json_records import BlockIds, Seconds, Tokens, block_ids, decode
from kvopt.workload.shared_prefix import SharedPrefixes

STOP_REASONS = {
    "tool_use": StopReason.TOOL_USE,
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "max_tokens": StopReason.LENGTH,
}
"""Reasons that are known by name; the empty one and all others count as unknown."""


class _Request(msgspec.Struct, tag_field="type", tag="n"):
    t: Seconds
    input_tokens: Tokens = msgspec.field(name="in")
    output_tokens: Tokens = msgspec.field(name="out")
    hash_ids: msgspec.Raw
    stop: str | None = ""
    api_time: Seconds | None = None
    think_time: Seconds | None = None
    model: str = ""


class _StreamedRequest(_Request, tag_field="type", tag="s"):
    pass


class _SubAgent(msgspec.Struct, tag_field="type", tag="subagent"):
    t: Seconds
    requests: list[_Entry]
    tool_tokens: Tokens = 0
    system_tokens: Tokens = 0


_Entry: TypeAlias = _Request | _StreamedRequest | _SubAgent


class _Session(msgspec.Struct):
    block_size: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    hash_id_scope: Literal["local"]
    requests: list[_Entry]
    tool_tokens: Tokens = 0
    system_tokens: Tokens = 0


def read_kv_cache_tester(
    path: str | os.PathLike[str],
    *,
    arrival_gap: float = 30.0,
    seed: int = 1,
    share_prefix: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Read and merge sessions. One session is held in memory at a time.

    The gap of a request is its ``think_time``, but unknown for the first of a session or sub-agent, which follows no
    answer.

    Args:
        path: a session's file, a folder of them, or a tar archive; each may be compressed.
        arrival_gap: mean seconds between the starts of two sessions, above 0.
        seed: of the arrivals.
        share_prefix: let the sessions of one model share their leading (tool_tokens + system_tokens) // block_size
            blocks, which the ids of the files do not show.
        progress: called with sessions read and in all.

    Raises:
        ConfigError: ``arrival_gap`` is not a finite number above 0.
        TraceError: a file breaks the format (names file, record, field and value), an archive is damaged or holds an
            unsafe member, or there is no request.
        OSError: a file cannot be opened.
    """
    if not 0 < arrival_gap < float("inf"):
        raise ConfigError(f"arrival_gap {arrival_gap} is not a finite number of seconds above 0")
    names = _session_names(path)
    rank = {name: index for index, name in enumerate(sorted(names))}
    if len(rank) != len(names):
        raise TraceError(f"{path}: two members are named {next(n for n in names if names.count(n) > 1)!r}")
    starts = session_starts(len(names), arrival_gap, seed)
    merge = _Merge(str(path), share_prefix)
    for done, (name, content) in enumerate(_session_contents(path, names)):
        if progress is not None:
            progress(done, len(names), "reading sessions")
        where = str(path) if name == Path(path).name else f"{path}: {name}"
        merge.add(where, content, rank[name], starts[rank[name]])
    if progress is not None:
        progress(len(names), len(names), "reading sessions")
    source = {
        "format": "kv-cache-tester",
        "sessions": len(names),
        "arrival_gap": arrival_gap,
        "seed": seed,
        "share_prefix": share_prefix,
        "file": Path(path).name,
    }
    return merge.trace(trace_name(path), source)


def session_starts(sessions: int, arrival_gap: float, seed: int) -> list[float]:
    """When each session begins, in seconds: a Poisson process with this mean gap."""
    draw = random.Random(seed)
    starts = []
    time = 0.0
    for _ in range(sessions):
        time += draw.expovariate(1 / arrival_gap)
        starts.append(time)
    return starts


def _session_names(path: str | os.PathLike[str]) -> list[str]:
    place = Path(path)
    if place.is_dir():
        names = sorted(p.name for p in place.iterdir() if p.name.endswith(JSON_SUFFIXES) and not p.name.startswith("."))
    elif is_archive(place):
        names = member_names(place)
    else:
        names = [place.name]
    if not names:
        raise TraceError(f"{path}: no session in it: no file named *.json, *.json.gz, *.json.xz or *.json.zst")
    return names


def _session_contents(path: str | os.PathLike[str], names: list[str]) -> Iterator[tuple[str, bytes]]:
    place = Path(path)
    if is_archive(place) and not place.is_dir():
        with InputFile(place) as file:
            yield from read_members(file)
        return
    for name in names:
        with InputFile(place / name if place.is_dir() else place) as file:
            yield name, file.read()


class _Merge:
    """Collects the requests of all sessions, then sorts them."""

    def __init__(self, path: str, share_prefix: bool) -> None:
        self._path = path
        self._sessions: msgspec.json.Decoder[_Session] = msgspec.json.Decoder(_Session)
        self._ids: msgspec.json.Decoder[list[int]] = msgspec.json.Decoder(BlockIds)
        self._builder = PrefixTraceBuilder()
        self._columns = RequestColumns()
        self._scope = 0
        self._block_tokens = 0
        self._shared = SharedPrefixes() if share_prefix else None

    def add(self, where: str, content: bytes, number: int, start: float) -> None:
        session = decode(self._sessions, content, where)
        if self._block_tokens and session.block_size != self._block_tokens:
            raise TraceError(
                f"{where}: block_size: {session.block_size}, but {self._block_tokens} in the sessions before it"
            )
        self._block_tokens = session.block_size
        self._add_entries(where, session, number, start, subagent=False, root="")

    def _add_entries(
        self, where: str, group: _Session | _SubAgent, number: int, start: float, subagent: bool, root: str
    ) -> None:
        scope = self._scope
        self._scope += 1
        shared_blocks = (group.tool_tokens + group.system_tokens) // self._block_tokens
        turn = 0
        last = 0.0
        for index, entry in enumerate(group.requests):
            field = f"{root}.requests[{index}]"
            if entry.t < last:
                raise TraceError(
                    f"{where}: {field.lstrip('.')}.t: {entry.t:g} is before {last:g}, that of the entry before it"
                )
            last = entry.t
            if isinstance(entry, _SubAgent):
                self._add_entries(where, entry, number, start + entry.t, subagent=True, root=field)
                continue
            ids = self._request_ids(where, field, entry)
            if self._shared is None:
                self._builder.append(ids, scope)
            else:
                self._builder.append(self._shared.globalized(ids, scope, entry.model, shared_blocks))
            self._columns.append(
                start + entry.t,
                entry.input_tokens,
                entry.output_tokens,
                session=number,
                turn=turn,
                stop=STOP_REASONS.get(entry.stop or "", StopReason.UNKNOWN),
                gap=entry.think_time if turn else None,
                subagent=subagent,
                api_time=entry.api_time,
            )
            turn += 1

    def _request_ids(self, where: str, field: str, request: _Request) -> NDArray[np.uint64]:
        name = f"{field}.hash_ids"
        listed: list[int] = decode(self._ids, request.hash_ids, where, name)
        ids = block_ids(listed, where, name.lstrip("."))
        room = request.input_tokens // self._block_tokens
        if len(ids) > room:
            raise TraceError(
                f"{where}: {name.lstrip('.')}: {len(ids)} ids, but {request.input_tokens} tokens (in) hold {room} "
                f"full blocks of {self._block_tokens}"
            )
        return ids

    def trace(self, name: str, source: dict[str, Any]) -> Trace:
        requests = len(self._columns)
        if not requests:
            raise TraceError(f"{self._path}: no request in any session; a trace needs at least one")
        # Sessions may be stored in another order than that of their names, hence the session as second key.
        emitted = np.arange(requests)
        order = np.lexsort((emitted, self._columns.column("session"), self._columns.column("time")))
        return Trace.from_columns(
            self._builder.finish().reordered(order),
            self._columns.finish(order),
            name=name,
            block_tokens=self._block_tokens,
            source=source,
        )
