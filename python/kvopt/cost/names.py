"""Looking a thing up by name: any case, and the nearest known name in the error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from kvopt.errors import ConfigError

Named = TypeVar("Named")


def look_up(kind: str, name: str, known: Mapping[str, Named]) -> Named:
    """The entry of this name (any case). Raises ConfigError with the nearest name, and all names."""
    found = known.get(name.strip().lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.strip().lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"unknown {kind} {name!r}: {hint}known: {', '.join(known)}")
