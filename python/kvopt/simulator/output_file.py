"""Writing result files whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

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


def write_output(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path`: a reader sees the old file or the whole new one, never a part.

    Raises ConfigError as `check_output` does, OSError when the disk refuses; neither leaves a file behind.
    """
    target = check_output(path)
    if _is_special(target):  # renaming over /dev/stdout or a named pipe would replace it
        target.write_bytes(content)
        return
    target = target.resolve()  # a link keeps pointing at the file that it names
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("xb") as out:
            out.write(content)
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
