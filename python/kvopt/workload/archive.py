"""The JSON files of a tar archive, one after another, without extracting anything."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, Self, cast

from kvopt.errors import TraceError
from kvopt.workload.compression import CODECS, InputFile

_CHUNK = 2**20
_ARCHIVES = frozenset({".tgz", ".txz", ".tzst"})
JSON_SUFFIXES = (".json", *(f".json{codec}" for codec in CODECS if codec not in _ARCHIVES))


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a tar archive, compressed or not."""
    suffixes = PurePosixPath(path).suffixes
    return bool(suffixes) and (
        suffixes[-1] in (".tar", *_ARCHIVES) or (suffixes[-1] in CODECS and suffixes[-2:-1] == [".tar"])
    )


def member_names(path: str | os.PathLike[str]) -> list[str]:
    """The names of all JSON members, as stored.

    Raises:
        TraceError: the archive is damaged, or any of its members (JSON or not) has an absolute name, a name with
            ``..``, or is a link or device.
    """
    with InputFile(path) as file, _opened(file) as archive:
        names = []
        for member in _members(file, archive):
            _refuse_unsafe(file.path, member)
            if _is_session(member):
                names.append(member.name)
        while file.read(_CHUNK):  # what follows the archive holds the checksum of its compression
            pass
    return names


def read_members(file: InputFile) -> Iterator[tuple[str, bytes]]:
    """Name and decompressed content of every JSON member in the order of storage; raises as :func:`member_names`."""
    with _opened(file) as archive:
        for member in _members(file, archive):
            _refuse_unsafe(file.path, member)
            if not _is_session(member):
                continue
            name = f"{file.path}: {member.name}"
            try:
                content = cast(IO[bytes], archive.extractfile(member))
                yield member.name, InputFile(name, content).read()
            except (tarfile.TarError, EOFError) as error:
                raise TraceError(f"{name}: truncated or corrupt archive: {error}") from error


class _StrictHeader(tarfile.TarInfo):
    """Refuses a broken header; tarfile would take it, after the first member, for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} at byte {tarfile_.offset}") from error


def _opened(file: InputFile) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=cast(IO[bytes], file), mode="r|", tarinfo=_StrictHeader)
    except tarfile.TarError as error:
        raise TraceError(f"{file.path}: truncated or corrupt archive: {error}") from error


def _members(file: InputFile, archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    try:
        while (member := archive.next()) is not None:
            yield member
    except (tarfile.TarError, EOFError) as error:
        raise TraceError(f"{file.path}: truncated or corrupt archive: {error}") from error


def _refuse_unsafe(path: str, member: tarfile.TarInfo) -> None:
    name = member.name
    if name.startswith(("/", "\\")) or PureWindowsPath(name).drive:
        raise TraceError(f"{path}: member {name!r} has an absolute name")
    if ".." in PurePosixPath(name).parts or ".." in PureWindowsPath(name).parts:
        raise TraceError(f"{path}: member {name!r} points outside its folder")
    if not (member.isfile() or member.isdir()):
        raise TraceError(f"{path}: member {name!r} is a link or device, not a file or folder")


def _is_session(member: tarfile.TarInfo) -> bool:
    base = PurePosixPath(member.name).name
    return member.isfile() and base.endswith(JSON_SUFFIXES) and not base.startswith(".")
