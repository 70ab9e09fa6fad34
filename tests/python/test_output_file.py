from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kvopt.errors import ConfigError
from kvopt.output_file import check_output, write_output


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    path.chmod(0o640)
    write_output(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_output(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_output(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_output(os.devnull, b"gone")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    ("name", "message"), [("missing/out.json", "there is no folder"), (".", "is a folder"), ("file/out", "no folder")]
)
def test_places_that_cannot_be_written(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=message):
        check_output(tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
