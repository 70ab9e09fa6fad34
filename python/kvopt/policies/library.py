"""Policies in C++ that were compiled outside the project."""

from __future__ import annotations

import os

from kvopt import _core

_loaded: dict[str, None] = {}


def load_library(path: str | os.PathLike[str]) -> list[_core.PolicyInfo]:
    """Make the policies of a shared library known, and return what they are.

    From then on they are named like built-in ones. The library is compiled against kvopt/plugin.hpp (the folder of
    ``python -m kvopt.config --include-dir``); it runs in this process and stays until the process ends. Loading the
    same file again changes nothing. Raises PolicyLibraryError when there is no such file, when it is no shared library
    of policies, when it was compiled for another KVopt, or when a policy of one of its names exists.
    """
    policies = _core.load_policy_library(os.fspath(path))
    _loaded[os.path.abspath(path)] = None
    return policies


def loaded_libraries() -> tuple[str, ...]:
    """The libraries that this process has loaded, in that order: absolute paths."""
    return tuple(_loaded)
