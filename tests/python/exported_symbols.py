"""What libkvopt.so shows. Prints the list that test_linking.py compares: ``python tests/python/exported_symbols.py``.

A line is a symbol as the linker has it and, in C++, its meaning. What goes from the list, or changes, breaks programs
that were linked before: raise KVOPT_API_VERSION (C) or the version (C++).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvopt import config

LIST = Path(__file__).parent / "data" / "exported_symbols.txt"


def exported(library: Path, *options: str) -> list[str]:
    """Symbols that a shared library defines for others, in the order of the linker's table."""
    if shutil.which("nm") is None:
        pytest.skip("there is no nm: install binutils")
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", "--no-sort", *options, str(library)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    # A name that nm demangles has spaces; after it stand its kind, value and size.
    return [line.rsplit(maxsplit=3)[0] for line in lines]


def is_type_table(symbol: str) -> bool:
    """Whether this is a table of a type, which every library that throws or derives from it has as well."""
    return symbol.startswith("_ZT")


def main() -> None:
    """Print the list of this installation."""
    library = config.library_dir() / "libkvopt.so"
    for symbol, meaning in sorted(zip(exported(library), exported(library, "-C"), strict=True)):
        if not is_type_table(symbol):
            sys.stdout.write(symbol + (f"  {meaning}" if meaning != symbol else "") + "\n")


if __name__ == "__main__":
    main()
