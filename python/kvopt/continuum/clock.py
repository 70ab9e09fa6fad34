"""The coordinator's clock: passed in by the caller, finite, and never seen to go back."""

from __future__ import annotations

import math

from kvopt.errors import ConfigError


class Clock:
    """The newest time that was passed in, in seconds."""

    __slots__ = ("now", "went_back")

    def __init__(self) -> None:
        self.now = -math.inf
        self.went_back = 0
        """How often an earlier time than before was passed in; it counted as the newest."""

    def at(self, now: float) -> float:
        """The time of an event. Raises ConfigError, with nothing changed, unless it is a finite number."""
        try:
            finite = -math.inf < now < math.inf
        except TypeError:
            finite = False
        if not finite:
            raise ConfigError(f"now: {now!r}; it must be a finite number of seconds")
        if now < self.now:
            self.went_back += 1
            return self.now
        self.now = now
        return now
