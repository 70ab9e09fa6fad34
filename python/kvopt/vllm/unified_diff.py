"""Unified diffs of whole files, each with the digests of its file before and after, applied without any tolerance.

In front of each file's diff stands a line ``sha256 BEFORE AFTER``, hexadecimal, with ``absent`` for a file that the
diff makes; other text between files is prose. Files are bytes, and every line ends.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from kvopt.errors import PatchError

ABSENT = "absent"
"""The digest of a file that is not there."""

_DIGESTS = re.compile(rb"sha256 ([0-9a-f]{64}|absent) ([0-9a-f]{64})\n")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*\n")


def digest(content: bytes | None) -> str:
    """SHA-256 in hexadecimal; :data:`ABSENT` for no file."""
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines `old` from line `start` on, the first being 0; and `new`, which replace them, from line `new_start` on."""

    start: int
    old: tuple[bytes, ...]
    new_start: int
    new: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a diff does to one file.

    Attributes:
        path: from the root of the tree, with ``/``.
        before: digest of the file that it applies to; :data:`ABSENT` where it makes the file.
        after: digest of the file that comes out.
        hunks: from the top of the file down.
    """

    path: str
    before: str
    after: str
    hunks: tuple[Hunk, ...]

    def apply(self, content: bytes | None) -> bytes:
        """The file after the diff. Raises PatchError unless `content` is the file before it, byte for byte."""
        self._check(content, self.before)
        made = _replace(self.path, content or b"", [(hunk.start, hunk.old, hunk.new) for hunk in self.hunks])
        self._check(made, self.after)
        return made

    def reverse(self, content: bytes | None) -> bytes | None:
        """The file before the diff, None for none. Raises PatchError unless `content` is the file after it."""
        self._check(content, self.after)
        made = _replace(self.path, content or b"", [(hunk.new_start, hunk.new, hunk.old) for hunk in self.hunks])
        found = None if self.before == ABSENT and not made else made
        self._check(found, self.before)
        return found

    def _check(self, content: bytes | None, wanted: str) -> None:
        if (found := digest(content)) != wanted:
            raise PatchError(f"{self.path}: the digest is {found}, not {wanted}")


def parse_diff(text: bytes, name: str) -> tuple[FileDiff, ...]:
    """The diffs of a patch, in its order. Raises PatchError, with `name` and the line, for what is none."""
    lines = text.splitlines(keepends=True)
    diffs = []
    place = 0
    while place < len(lines):
        digests = _DIGESTS.fullmatch(lines[place])
        place += 1
        if digests is None:
            continue
        path = _path(lines, place, name)
        place += 2
        hunks = []
        while place < len(lines) and (head := _HUNK.fullmatch(lines[place])):
            hunk, place = _hunk(head, lines, place + 1, name)
            hunks.append(hunk)
        diffs.append(FileDiff(path, digests[1].decode(), digests[2].decode(), tuple(hunks)))
    if not diffs:
        raise PatchError(f"{name}: there is no diff with digests in it")
    return tuple(diffs)


def _path(lines: list[bytes], place: int, name: str) -> str:
    if place + 1 < len(lines) and lines[place].startswith(b"--- ") and lines[place + 1].startswith(b"+++ b/"):
        return lines[place + 1][len(b"+++ b/") :].decode().split("\t")[0].rstrip("\n")
    raise PatchError(f"{name}, line {place + 1}: '---' and '+++ b/' must follow the digests")


def _hunk(head: re.Match[bytes], lines: list[bytes], place: int, name: str) -> tuple[Hunk, int]:
    start, new_start = int(head[1]), int(head[3])
    wanted = [1 if head[2] is None else int(head[2]), 1 if head[4] is None else int(head[4])]
    old: list[bytes] = []
    new: list[bytes] = []
    while [len(old), len(new)] != wanted:
        line = lines[place] if place < len(lines) else b""
        if line[:1] not in (b" ", b"-", b"+") or len(old) > wanted[0] or len(new) > wanted[1]:
            raise PatchError(f"{name}, line {place + 1}: the hunk is not as long as its head says")
        if line[:1] != b"+":
            old.append(line[1:])
        if line[:1] != b"-":
            new.append(line[1:])
        place += 1
    # A head counts lines from 1, but names the line in front where a side is empty.
    return Hunk(start - bool(old), tuple(old), new_start - bool(new), tuple(new)), place


def _replace(path: str, content: bytes, changes: list[tuple[int, tuple[bytes, ...], tuple[bytes, ...]]]) -> bytes:
    lines = content.splitlines(keepends=True)
    for start, old, new in reversed(changes):
        if tuple(lines[start : start + len(old)]) != old:
            raise PatchError(f"{path}: lines {start + 1} to {start + len(old)} are not those of the diff")
        lines[start : start + len(old)] = new
    return b"".join(lines)
