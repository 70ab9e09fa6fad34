"""An installer's list of files (RECORD in a dist-info folder), kept true when some of the files change.

So uninstalling removes a file that was added, and what verifies installations finds the digests right. Only lines that
are exactly what an installer writes for the file as it was are touched; undoing a change restores the list's bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

Change = tuple[bytes | None, bytes | None]
"""A file before and after; None: no file."""


def update_record(record: bytes, changes: Mapping[str, Change]) -> bytes:
    """The list with these files, by their path in it, changed; the same where it lists none of them as they were."""
    lines = record.splitlines(keepends=True)
    bare = [line.rstrip(b"\r\n") for line in lines]
    place = -1
    for name, (before, after) in changes.items():
        if before is None or (line := _line(name, before)) not in bare:
            continue
        at = bare.index(line)
        ending = lines[at][len(line) :]
        if after is None:
            del bare[at], lines[at]
        else:
            bare[at], lines[at] = _line(name, after), _line(name, after) + ending
            place = at
    if place >= 0:
        ending = lines[place][len(bare[place]) :] or b"\n"
        lines[place:place] = [
            _line(name, after) + ending
            for name, (before, after) in changes.items()
            if before is None and after is not None
        ]
    return b"".join(lines)


def _line(name: str, content: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return b"%s,sha256=%s,%d" % (name.encode(), digest, len(content))
