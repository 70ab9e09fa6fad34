"""Writing files whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kvopt.errors import ConfigError


def check_output(path: str | os.PathLike[str]) -> Path:
    """Make sure, before any work, that a file can be written at `path`; return it as a Path.

    Raises ConfigError when its folder is missing or not writable, or when `path` is itself a folder.
    """
    target = Path(path)
    if target.is_dir():
        raise ConfigError(f"{target}: is a folder, not a file to write")
    folder = target.parent
    if not folder.is_dir():
        raise ConfigError(f"{target}: there is no folder {str(folder)!r} to write it into")
    place = target if _is_special(target) else folder
    if not os.access(place, os.W_OK):
        raise ConfigError(f"{target}: {str(place)!r} is not writable")
    return target


def write_output(path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file: a reader sees the old one or the whole new one, never a part.

    `content` is the bytes, or a function that writes them into the open file that it is given; what it raises is
    raised here. Raises ConfigError as `check_output` does, OSError when the disk refuses; neither leaves a file behind.
    """
    write = content if callable(content) else lambda out: out.write(content)
    target = check_output(path)
    if _is_special(target):  # renaming over /dev/stdout or a named pipe would replace it
        with target.open("wb") as out:
            write(out)
        return
    target = target.resolve()  # a link keeps pointing at the file that it names
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("xb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
