"""Where this installation has what C and C++ programs are built with: ``python -m kvopt.config --help``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvopt import _core


def _installed() -> Path:
    # Beside the extension, because that is where the build installs both; an editable install keeps them apart from
    # the Python files.
    return Path(_core.__file__).resolve().parent


def include_dir() -> Path:
    """The folder to give a compiler with -I, so that ``#include <kvopt/policy.hpp>`` is found."""
    return _installed() / "include"


def library_dir() -> Path:
    """The folder of ``libkvopt.so`` and ``libkvopt.a``."""
    return _installed() / "lib"


def cmake_dir() -> Path:
    """The folder of the CMake package: give it to CMake as ``-Dkvopt_DIR=...``."""
    return library_dir() / "cmake" / "kvopt"


def pkgconfig_dir() -> Path:
    """The folder of ``kvopt.pc``: put it on ``PKG_CONFIG_PATH``."""
    return library_dir() / "pkgconfig"


def libs() -> str:
    """What links a program with the shared library, which the program then finds where it is now."""
    return f"-L{library_dir()} -Wl,-rpath,{library_dir()} -lkvopt"


ANSWERS = {
    "--include-dir": (include_dir, "print the folder of the headers"),
    "--cmake-dir": (cmake_dir, "print the folder of the CMake package, for -Dkvopt_DIR=..."),
    "--pkgconfig-dir": (pkgconfig_dir, "print the folder of kvopt.pc, for PKG_CONFIG_PATH"),
    "--libs": (libs, "print the linker's options for the shared library"),
}
"""Each option of the command line: who answers it, and how it is described."""


def main() -> None:
    """Print what was asked for, one line each."""
    parser = argparse.ArgumentParser(
        prog="python -m kvopt.config", description="Where to find the C++ headers and libraries."
    )
    for option, (_, described) in ANSWERS.items():
        parser.add_argument(option, action="append_const", const=option, dest="asked", help=described)
    asked = parser.parse_args().asked
    if not asked:
        parser.error(f"name at least one of {', '.join(ANSWERS)}")
    for option in asked:
        answer, _ = ANSWERS[option]
        sys.stdout.write(f"{answer()}\n")


if __name__ == "__main__":
    main()
