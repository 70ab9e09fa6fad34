"""The programs of bench/cpp, built against the installed package."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from kvopt import config

SOURCES = Path(__file__).parent / "cpp"


@cache
def programs() -> Path:
    """The folder with the programs, built once a process; skips the test where nothing can build them."""
    beside = Path(sys.executable).parent
    cmake = shutil.which("cmake", path=f"{beside}") or shutil.which("cmake")
    if cmake is None or not config.cmake_dir().is_dir():
        pytest.skip("the programs in C++ need CMake, a compiler and an installed kvopt")
    build = Path(tempfile.mkdtemp(prefix="kvopt-bench-"))
    atexit.register(shutil.rmtree, build, ignore_errors=True)
    for command in (
        [cmake, "-S", SOURCES, "-B", build, f"-Dkvopt_DIR={config.cmake_dir()}", "--log-level=WARNING"],
        [cmake, "--build", build],
    ):
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, timeout=300)
    return build
