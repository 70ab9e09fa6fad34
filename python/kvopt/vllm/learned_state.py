"""What an engine's policy has learned, in a file: read at the start, written now and then and at the end.

The file is written whole or not at all, so a server that is killed goes on from the last time. A file that the policy
refuses (of other settings, damaged, none of ours) is left as it is: nothing is read from it and nothing is written.
"""

from __future__ import annotations

import logging
from pathlib import Path

from kvopt.errors import ConfigError, PolicyStateError
from kvopt.output_file import check_output, write_output
from kvopt.vllm.told_policy import ToldPolicy

logger = logging.getLogger("vllm.kvopt")


class LearnedState:
    """The file of one engine; engines after the first have one each, named by their number.

    Attributes:
        path: the file.
        loaded: whether the policy goes on from it.
        refused: why nothing is read from it and written to it; empty otherwise.
    """

    def __init__(
        self, path: str, pool: ToldPolicy, *, minutes: float, now: float, engine: int = 0, strict: bool = False
    ) -> None:
        """Read the file, where there is one.

        Raises ConfigError when no file can be written there; with `strict` PolicyStateError, or OSError, when a file
        that is there cannot be read or is refused.
        """
        wanted = Path(path)
        self.path = check_output(wanted.with_stem(f"{wanted.stem}-{engine}") if engine else wanted)
        self.loaded = False
        self.refused = ""
        self._pool = pool
        self._seconds = minutes * 60.0
        self._due = now + self._seconds
        try:
            self._load()
        except (PolicyStateError, OSError) as error:
            if strict:
                raise
            self.refused = str(error)
            logger.warning("KVopt: the policy starts anew, and what it learns is not kept: %s", error)

    def describe(self) -> str:
        """What was read, for the log."""
        return f"learned state {'refused' if self.refused else 'loaded' if self.loaded else 'new'}"

    def before_step(self, now: float) -> None:
        """Write the file when it is time; `now` in seconds on the engine's clock. Raises as `save`."""
        if now >= self._due:
            self._due = now + self._seconds
            self.save()

    def save(self) -> None:
        """Write what has been learned so far. Raises PolicyStateError when the policy has failed, OSError."""
        if not self.refused:
            write_output(self.path, self._pool.save_learned())

    def _load(self) -> None:
        if not self._pool.learns:
            raise PolicyStateError(f"{self.path}: this policy learns nothing that could be kept")
        if not self.path.exists():
            return
        try:
            self._pool.load_learned(self.path.read_bytes())
        except PolicyStateError as error:
            raise PolicyStateError(f"{self.path}: {error}") from None
        self.loaded = True


def check_file(path: str, policy: str) -> bool:
    """Whether there is a file that a native `policy` would go on from; nothing is changed.

    Raises PolicyStateError when the policy would refuse it; OSError when it cannot be read.
    """
    from kvopt import _core

    if not Path(path).exists():
        return False
    try:
        _core.BlockPool(2, policy).load_state(Path(path).read_bytes())
    except PolicyStateError as error:
        raise PolicyStateError(f"{path}: {error}") from None
    return True


def check_learner(name: str, policy: str, pool: str) -> None:
    """Raise ConfigError, which begins with `name`, when an engine with this policy and pool has nothing to keep."""
    from kvopt import _core

    if pool == "off":
        raise ConfigError(f"{name}: there is nothing to keep without a pool, 'native' or 'vllm', not 'off'")
    if ".py:" in policy or _core.BlockPool(2, policy).learns:
        return
    learners = [info.name for info in _core.policies() if not info.offline and _core.BlockPool(2, info.name).learns]
    raise ConfigError(f"{name}: {policy!r} learns nothing that could be kept; those that do: {', '.join(learners)}")
