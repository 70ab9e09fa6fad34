"""Where the C++ headers of this installation are: ``python -m kvopt.config --include-dir``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvopt import _core


def include_dir() -> Path:
    """The folder to give a compiler with -I, so that ``#include <kvopt/policy.hpp>`` is found."""
    # Beside the extension, because that is where the build installs both; an editable install keeps them apart from
    # the Python files.
    return Path(_core.__file__).resolve().parent / "include"


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m kvopt.config", description="Where to find the C++ headers.")
    parser.add_argument("--include-dir", action="store_true", required=True, help="print the folder of the headers")
    parser.parse_args()
    sys.stdout.write(f"{include_dir()}\n")


if __name__ == "__main__":
    main()
