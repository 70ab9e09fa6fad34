"""Several files replaced together, all or none, while others may be reading them.

Each file changes in one rename, so a reader sees the old one or the new one whole. An error, or an interrupt, puts back
what was changed. Only a kill between two renames leaves some files new and some old.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kvopt.errors import PatchError

SUFFIX = ".kvopt-partial"
"""What the names of files end in that exist only while a swap is under way."""


def swap_files(changes: Mapping[Path, bytes | None]) -> None:
    """Give these files their new content, in this order; None removes one.

    A file keeps its permissions and owner; a new one gets those of its package's ``__init__.py``. What Python compiled
    of a file goes too. Raises PatchError when a file cannot be written; then everything is as it was, or the message
    says what is not.
    """
    try:
        with _staged(changes) as staged:
            for path in changes:
                for compiled in path.parent.joinpath("__pycache__").glob(f"{path.stem}.*.pyc"):
                    compiled.unlink(missing_ok=True)
            _rename(staged)
    except OSError as error:
        raise PatchError(f"{error.filename}: {error.strerror}; nothing was changed") from error


@contextmanager
def _staged(changes: Mapping[Path, bytes | None]) -> Iterator[list[tuple[Path, Path | None, Path | None]]]:
    """Each path with copies beside it of what it is to hold and of what it holds; None for no file."""
    staged: list[tuple[Path, Path | None, Path | None]] = []
    made: list[Path] = []
    try:
        for path, content in changes.items():
            new, old = (path.with_name(f".{path.name}.{what}{SUFFIX}") for what in ("new", "old"))
            exists = path.exists()
            if content is not None:
                made.append(new)
                _write(new, content, path if exists else path.with_name("__init__.py"))
            if exists:
                made.append(old)
                _write(old, path.read_bytes(), path)
            staged.append((path, new if content is not None else None, old if exists else None))
        yield staged
    finally:
        for path in made:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _rename(staged: list[tuple[Path, Path | None, Path | None]]) -> None:
    done: list[tuple[Path, Path | None]] = []
    try:
        for path, new, old in staged:
            done.append((path, old))
            _put(new, path)
    except BaseException:
        stuck = [str(path) for path, old in reversed(done) if not _put_back(old, path)]
        if stuck:
            raise PatchError(f"{', '.join(stuck)}: changed, and cannot be put back now") from None
        raise


def _put(staged: Path | None, path: Path) -> None:
    if staged is None:
        path.unlink(missing_ok=True)
    else:
        staged.replace(path)


def _put_back(old: Path | None, path: Path) -> bool:
    try:
        _put(old, path)
    except OSError:
        return False
    return True


def _write(path: Path, content: bytes, like: Path) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    known = like.stat()
    if (known.st_uid, known.st_gid) != (os.getuid(), os.getgid()):
        os.chown(path, known.st_uid, known.st_gid)
    shutil.copymode(like, path)
