"""KVopt's hooks in vLLM's own sources: which patch fits a tree, what state it is in, putting the hooks in and out.

The patches in ``patches/``, one a version of vLLM, name each file's digest before and after, so a file is as released,
patched, or neither; nothing else is remembered anywhere. Only a tree whose files are all as released is patched, and
one with a file that is neither is left alone. vLLM is not imported.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kvopt.errors import PatchError
from kvopt.vllm.file_swap import swap_files
from kvopt.vllm.installer_record import update_record
from kvopt.vllm.unified_diff import FileDiff, digest, parse_diff

PATCHES = Path(__file__).parent / "patches"


class State(StrEnum):
    """What a file of vLLM, or a whole tree, is to a patch."""

    RELEASED = "as released"
    PATCHED = "patched"
    PARTLY = "partly patched"
    MODIFIED = "modified"
    MISSING = "missing"
    UNKNOWN = "no patch for it"


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found at a path.

    Attributes:
        root: the folder that holds the package ``vllm``: a source tree or a site-packages.
        version: vLLM's, None where the tree does not say (a checkout that was never built).
        patch: the patch for this version, None for none.
        files: the state of each file that the patch changes, by its path from `root`.
        state: of the whole tree.
    """

    root: Path
    version: str | None
    patch: Path | None
    files: dict[str, State]
    state: State

    @property
    def name(self) -> str:
        """What was found and where, for messages."""
        return f"vLLM {self.version or 'of unknown version'} in {self.root}"

    def problem(self) -> str | None:
        """Why this tree can neither be patched nor put back, or None."""
        if self.state == State.UNKNOWN:
            there = ", ".join(patch.stem for patch in _patches())
            return f"{self.name}: there is no patch for it, only for {there} as released"
        wrong = [f"{path} is {state}" for path, state in self.files.items() if state in {State.MODIFIED, State.MISSING}]
        if wrong:
            return f"{self.name}: {', '.join(wrong)}; a patch fits vLLM as released: install or check it out anew"
        return None


def examine_patch(path: str | os.PathLike[str]) -> Examination:
    """What the vLLM at `path` is: a site-packages folder, a source tree, or the folder ``vllm`` of one.

    Raises PatchError when there is no vLLM, or a file cannot be read.
    """
    root = _find_root(Path(path))
    version = _version(root)
    for patch in _patches():
        if version is not None and not re.match(rf"{re.escape(patch.stem)}(?!\d)", version):
            continue
        files = {diff.path: _file_state(root, diff) for diff in _diffs(patch)}
        state = _tree_state(files)
        if version is not None or state != State.MODIFIED:
            return Examination(root, version, patch, files, state)
    return Examination(root, version, None, {}, State.UNKNOWN)


def apply_patch(path: str | os.PathLike[str]) -> Examination:
    """Put the hooks in; return what is there now. Raises PatchError unless all files are as released."""
    return _change(path, State.RELEASED)


def revert_patch(path: str | os.PathLike[str]) -> Examination:
    """Take the hooks out; every file is what it was, byte for byte. Raises PatchError where no hooks are."""
    return _change(path, State.PATCHED)


def _change(path: str | os.PathLike[str], since: State) -> Examination:
    root = _find_root(Path(path))
    with _alone(root):
        found = examine_patch(root)
        _refuse(found, since)
        assert found.patch is not None
        changes: dict[Path, bytes | None] = {}
        for diff in _diffs(found.patch):
            if found.files[diff.path] == since:
                target = root / diff.path
                changes[target] = (diff.apply if since == State.RELEASED else diff.reverse)(_read(target))
        changes |= _records(root, changes)
        # The new file, which the others import, comes first and goes last.
        swap_files(changes if since == State.RELEASED else dict(reversed(changes.items())))
        return examine_patch(root)


def _refuse(found: Examination, wanted: State) -> None:
    """Raise PatchError unless what was found can be changed; a partly patched tree can be put back."""
    refused = {
        (State.RELEASED, State.PATCHED): "it is patched already",
        (
            State.RELEASED,
            State.PARTLY,
        ): "it is partly patched, by a run that was killed; put it back with --revert first",
        (State.PATCHED, State.RELEASED): "it is not patched",
    }
    problem = found.problem()
    if problem is None and (wanted, found.state) in refused:
        problem = f"{found.name}: {refused[wanted, found.state]}"
    if problem is not None:
        raise PatchError(f"{problem}; nothing was changed")


def _patches() -> list[Path]:
    return sorted(PATCHES.glob("*.patch"))


def _diffs(patch: Path) -> tuple[FileDiff, ...]:
    return parse_diff(patch.read_bytes(), patch.name)


def _find_root(path: Path) -> Path:
    for package in (path / "vllm", path):
        if package.joinpath("version.py").is_file() and package.joinpath("v1", "core").is_dir():
            return Path(os.path.abspath(package)).parent
    raise PatchError(f"{path}: no vLLM there; name a site-packages folder, a source tree, or the folder 'vllm' in it")


def _version(root: Path) -> str | None:
    """What setuptools wrote when vLLM was built."""
    content = _read(root / "vllm" / "_version.py")
    written = re.search(rb"\bversion = ['\"]([^'\"]+)['\"]", content or b"")
    return written[1].decode() if written else None


def _file_state(root: Path, diff: FileDiff) -> State:
    content = _read(root / diff.path)
    states = {diff.after: State.PATCHED, diff.before: State.RELEASED}
    return states.get(digest(content), State.MISSING if content is None else State.MODIFIED)


def _tree_state(files: dict[str, State]) -> State:
    states = set(files.values())
    if states & {State.MODIFIED, State.MISSING}:
        return State.MODIFIED
    return states.pop() if len(states) == 1 else State.PARTLY


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PatchError(f"{path}: {error.strerror}") from error


def _records(root: Path, changes: dict[Path, bytes | None]) -> dict[Path, bytes | None]:
    """The installers' lists of files that list those that change, as they are to be."""
    by_name = {path.relative_to(root).as_posix(): (_read(path), content) for path, content in changes.items()}
    records: dict[Path, bytes | None] = {}
    for path in sorted(root.glob("*.dist-info/RECORD")):
        content = _read(path) or b""
        if (new := update_record(content, by_name)) != content:
            records[path] = new
    return records


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Keep a second run out of the same tree."""
    folder = os.open(root / "vllm", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise PatchError(f"{root}: another run is patching it; nothing was changed") from None
    except OSError:
        pass  # a file system without locks on folders
    try:
        yield
    finally:
        os.close(folder)
