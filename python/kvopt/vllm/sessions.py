"""Which session a request belongs to: by the client's name for it, else by the prefix that an answer left behind.

Without a name, a request continues the session whose last request's blocks it starts with. Structure: two tables in
order of last use, bounded by `most`. Cost: O(1) with a name; without, a look-up a block from the prompt's end, at most
`longest_walk` of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Turn(NamedTuple):
    """A request's place: the session's number, its position in it from 0, seconds since the last answer, or None."""

    session: int
    turn: int
    gap: float | None


@dataclass(slots=True)
class _Session:
    number: int
    turns: int = 0
    last_answer: float | None = None
    leaf: bytes | None = None


class SessionTable:
    """Sessions of one engine; `most` of them are remembered, those used last."""

    def __init__(self, most: int = 100_000, longest_walk: int = 4096) -> None:
        self._most = most
        self._longest_walk = longest_walk
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._by_name: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._by_leaf: dict[bytes, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def arrive(self, name: str | None, hashes: Sequence[bytes], now: float) -> Turn:
        """The turn of a request that arrives with these block hashes."""
        number = self._by_name.get(name) if name is not None else self._continued(hashes)
        session = self._sessions.get(number) if number is not None else None
        if session is None:
            session = self._new(name)
        self._sessions.move_to_end(session.number)
        gap = None if session.last_answer is None else max(0.0, now - session.last_answer)
        session.turns += 1
        return Turn(session.number, session.turns - 1, gap)

    def finish(self, number: int, hashes: Sequence[bytes], now: float) -> None:
        """Note a session's answer, and the hashes of all its full blocks."""
        session = self._sessions.get(number)
        if session is None:
            return
        session.last_answer = now
        if hashes:
            self._drop_leaf(session)
            session.leaf = bytes(hashes[-1])
            self._by_leaf[session.leaf] = number

    def _continued(self, hashes: Sequence[bytes]) -> int | None:
        if not self._by_leaf:
            return None
        for at in range(len(hashes) - 1, max(-1, len(hashes) - 1 - self._longest_walk), -1):
            number = self._by_leaf.get(hashes[at])
            if number is not None:
                return number
        return None

    def _new(self, name: str | None) -> _Session:
        if len(self._sessions) >= self._most:
            number, old = self._sessions.popitem(last=False)
            self._drop_leaf(old)
            if (forgotten := self._names.pop(number, None)) is not None:
                del self._by_name[forgotten]
        session = _Session(self._next)
        self._next += 1
        self._sessions[session.number] = session
        if name is not None:
            self._by_name[name] = session.number
            self._names[session.number] = name
        return session

    def _drop_leaf(self, session: _Session) -> None:
        if session.leaf is not None and self._by_leaf.get(session.leaf) == session.number:
            del self._by_leaf[session.leaf]
