"""Patching a tree without vLLM: strict diffs, files swapped all or none, the installer's list, what is refused."""

from __future__ import annotations

import base64
import difflib
import fcntl
import hashlib
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvopt.errors import PatchError
from kvopt.vllm import file_swap, patching
from kvopt.vllm.file_swap import swap_files
from kvopt.vllm.installer_record import update_record
from kvopt.vllm.patching import State, apply_patch, examine_patch, revert_patch
from kvopt.vllm.unified_diff import ABSENT, digest, parse_diff

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"  c\n", b"\n", b"-- d\n", b"++ e\n"]), max_size=30)


def diff_of(path: str, before: bytes | None, after: bytes) -> bytes:
    old, new = ((content or b"").decode().splitlines(keepends=True) for content in (before, after))
    text = "".join(difflib.unified_diff(old, new, "/dev/null" if before is None else f"a/{path}", f"b/{path}"))
    return f"sha256 {digest(before)} {digest(after)}\n{text}".encode()


@given(LINES, LINES)
def test_a_diff_goes_forth_and_back(old: list[bytes], new: list[bytes]) -> None:
    before, after = b"".join(old), b"".join(new)
    if before == after:
        return
    (diff,) = parse_diff(b"prose\n\n" + diff_of("x.py", before, after), "x.patch")
    assert diff.path == "x.py"
    assert diff.apply(before) == after
    assert diff.reverse(after) == before
    for wrong in (after, before + b"a\n", None):
        with pytest.raises(PatchError, match=r"x\.py: the digest is"):
            diff.apply(wrong)


def test_a_diff_that_makes_a_file() -> None:
    (diff,) = parse_diff(diff_of("new.py", None, b"1\n2\n"), "x.patch")
    assert diff.before == ABSENT
    assert diff.apply(None) == b"1\n2\n"
    assert diff.reverse(b"1\n2\n") is None


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: b"nothing\n", "there is no diff with digests"),
        (lambda text: text.replace(b"+++ b/x.py\n", b""), "line 2: '---' and '\\+\\+\\+ b/' must follow"),
        (lambda text: text.rsplit(b"\n", 2)[0] + b"\n", "the hunk is not as long as its head says"),
        (lambda text: text.replace(b"+three\n", b"three\n"), "line 7: the hunk is not as long"),
    ],
)
def test_a_damaged_diff_is_refused(damage: Any, said: str) -> None:
    with pytest.raises(PatchError, match=said):
        parse_diff(damage(diff_of("x.py", b"one\ntwo\nend\n", b"one\nthree\nend\n")), "x.patch")


def test_digests_are_not_believed_without_the_lines() -> None:
    text = diff_of("x.py", b"one\ntwo\n", b"one\nthree\n")
    (diff,) = parse_diff(text.replace(b"-two", b"-2wo"), "x.patch")
    with pytest.raises(PatchError, match="lines 1 to 2 are not those of the diff"):
        diff.apply(b"one\ntwo\n")
    (diff,) = parse_diff(text.replace(b"+three", b"+3hree"), "x.patch")
    with pytest.raises(PatchError, match=r"x\.py: the digest is"):
        diff.apply(b"one\ntwo\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("__init__.py", "a.py", "b.py", "c.py"):
        (tmp_path / name).write_bytes(name.encode())
        (tmp_path / name).chmod(0o640)
    compiled = tmp_path / "__pycache__"
    compiled.mkdir()
    for name in ("a.cpython-311.pyc", "a.cpython-312.opt-1.pyc", "ab.cpython-311.pyc"):
        (compiled / name).write_bytes(b"compiled")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_files_are_swapped_with_their_permissions(folder: Path) -> None:
    (folder / "a.py").chmod(0o755)
    swap_files({folder / "new.py": b"new", folder / "a.py": b"A", folder / "b.py": None})
    assert content(folder) == {"__init__.py": b"__init__.py", "a.py": b"A", "c.py": b"c.py", "new.py": b"new"}
    assert [(folder / name).stat().st_mode & 0o777 for name in ("a.py", "new.py")] == [0o755, 0o640]
    assert [path.name for path in (folder / "__pycache__").iterdir()] == ["ab.cpython-311.pyc"]


def test_links_to_elsewhere_are_cut(folder: Path) -> None:
    (folder / "store").mkdir()
    os.link(folder / "a.py", folder / "store" / "a.py")
    (folder / "b.py").rename(folder / "store" / "b.py")
    (folder / "b.py").symlink_to(folder / "store" / "b.py")
    swap_files({folder / "a.py": b"A", folder / "b.py": b"B"})
    assert content(folder / "store") == {"a.py": b"a.py", "b.py": b"b.py"}
    assert ((folder / "a.py").read_bytes(), (folder / "b.py").read_bytes()) == (b"A", b"B")


CHANGES: dict[str, bytes | None] = {"new.py": b"new", "a.py": b"A", "b.py": None, "c.py": b"C"}
FULL = OSError(28, "No space left on device", "there")


@pytest.mark.parametrize("failing", range(len(CHANGES)))
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_an_error_puts_everything_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int, error: BaseException
) -> None:
    before = content(folder)
    put, calls = file_swap._put, itertools.count()

    def fails(staged: Path | None, path: Path) -> None:
        if next(calls) == failing:
            raise error
        put(staged, path)

    monkeypatch.setattr(file_swap, "_put", fails)
    with pytest.raises(PatchError if error is FULL else KeyboardInterrupt):
        swap_files({folder / name: new for name, new in CHANGES.items()})
    assert content(folder) == before


def test_a_full_disk_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, calls = content(folder), itertools.count()

    def fails(_: int) -> None:
        if next(calls) == 2:
            raise FULL

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(PatchError, match="there: No space left on device; nothing was changed"):
        swap_files({folder / name: new for name, new in CHANGES.items()})
    assert content(folder) == before


def test_what_cannot_be_put_back_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, calls = file_swap._put, itertools.count()

    def fails(staged: Path | None, path: Path) -> None:
        if next(calls) >= 2:
            raise FULL
        put(staged, path)

    monkeypatch.setattr(file_swap, "_put", fails)
    with pytest.raises(PatchError, match=r"a\.py.*new\.py: changed, and cannot be put back now"):
        swap_files({folder / name: new for name, new in CHANGES.items()})


def test_readers_see_one_file_or_the_other(folder: Path) -> None:
    path = folder / "a.py"
    contents = {b"x" * 100_000, b"y" * 50_000}
    path.write_bytes(b"x" * 100_000)
    seen: set[bytes] = set()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            for new in contents:
                swap_files({path: new})
    finally:
        ended.set()
        reader.join()
    assert seen <= contents


def record_line(name: str, content: bytes) -> bytes:
    found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={found},{len(content)}".encode()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_the_installers_list_goes_forth_and_back(ending: bytes) -> None:
    lines = [b"x/RECORD,,", record_line("x/a.py", b"a"), b"x/__pycache__/a.pyc,,", record_line("x/b.py", b"b")]
    record = ending.join(lines) + ending
    changed = update_record(record, {"x/new.py": (None, b"new"), "x/a.py": (b"a", b"AA")})
    assert changed.split(ending) == [
        lines[0],
        record_line("x/new.py", b"new"),
        record_line("x/a.py", b"AA"),
        *lines[2:],
        b"",
    ]
    assert update_record(changed, {"x/a.py": (b"AA", b"a"), "x/new.py": (b"new", None)}) == record
    assert update_record(record, {"x/new.py": (None, b"new"), "x/a.py": (b"other", b"AA")}) == record


A, B, NEW = "vllm/v1/core/a.py", "vllm/v1/core/b.py", "vllm/kvopt_hooks.py"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like vLLM 7.1, and patches for 7.1 and 7.10 that differ."""
    root, patches = tmp_path / "tree", tmp_path / "patches"
    patches.mkdir()
    (root / "vllm" / "v1" / "core").mkdir(parents=True)
    for path, text in {A: "a = 1\n", B: "b = 1\n", "vllm/__init__.py": "", "vllm/version.py": ""}.items():
        (root / path).write_text(text)
    (root / "vllm" / "_version.py").write_text("__version__ = version = '7.1.3+cpu'\n")
    for version, old in {"7.1": b"1", "7.10": b"2"}.items():
        diffs = [diff_of(path, path[13:14].encode() + b" = " + old + b"\n", b"hooked\n") for path in (A, B)]
        (patches / f"{version}.patch").write_bytes(b"".join([diff_of(NEW, None, b"hooks\n"), *diffs]))
    monkeypatch.setattr(patching, "PATCHES", patches)
    return root


def test_the_patch_is_of_the_version(tree: Path) -> None:
    found = examine_patch(tree)
    assert (found.version, found.patch and found.patch.name, found.state) == ("7.1.3+cpu", "7.1.patch", State.RELEASED)
    (tree / "vllm" / "_version.py").write_text("__version__ = version = '7.10.0'\n")
    found = examine_patch(tree)
    assert (found.patch and found.patch.name, found.state) == ("7.10.patch", State.MODIFIED)
    (tree / "vllm" / "_version.py").unlink()  # then the files themselves tell
    assert (found := examine_patch(tree)).patch is not None
    assert (found.patch.name, found.state) == ("7.1.patch", State.RELEASED)
    (tree / A).write_text("a = 3\n")
    with pytest.raises(
        PatchError, match=r"vLLM of unknown version in .*: there is no patch for it, only for 7.1, 7.10"
    ):
        apply_patch(tree)


@pytest.mark.parametrize("killed_after", [1, 2])
def test_what_a_killed_run_leaves_is_put_back(tree: Path, killed_after: int) -> None:
    before = {path: (tree / path).read_bytes() for path in (A, B)}
    for path, hooked in [(NEW, "hooks\n"), (A, "hooked\n")][:killed_after]:
        (tree / path).write_text(hooked)
    assert examine_patch(tree).state == State.PARTLY
    with pytest.raises(PatchError, match="partly patched, by a run that was killed; put it back with --revert first"):
        apply_patch(tree)
    assert revert_patch(tree).state == State.RELEASED
    assert {path: (tree / path).read_bytes() for path in (A, B)} == before
    assert not (tree / NEW).exists()


def test_two_runs_at_once_are_refused(tree: Path) -> None:
    held = os.open(tree / "vllm", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PatchError, match="another run is patching it; nothing was changed"):
            apply_patch(tree)
    finally:
        os.close(held)
    assert apply_patch(tree).state == State.PATCHED


def test_shipped_patches_are_whole() -> None:
    shipped = sorted(patching.PATCHES.glob("*.patch"))
    assert [patch.stem for patch in shipped] == ["0.32", "0.33"]
    made = set()
    for patch in shipped:
        diffs = {diff.path: diff for diff in parse_diff(patch.read_bytes(), patch.name)}
        hooks = diffs.pop("vllm/kvopt_hooks.py")
        made.add(hooks.apply(None))
        added = [line for diff in diffs.values() for hunk in diff.hunks for line in set(hunk.new) - set(hunk.old)]
        assert len(diffs) == 5
        assert all(diff.before != ABSENT for diff in diffs.values())
        assert len(added) <= 15  # hooks, no policy
    assert len(made) == 1
