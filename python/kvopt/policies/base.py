"""The interface of an eviction policy written in Python.

Policies work on *runs*: stretches of consecutive blocks of one prefix that share their whole state (stored by one
request, held, hit and released together since). The pool calls the hooks; the policy keeps an order and answers
:meth:`Policy.choose`. A hook is called once a request, never once a block.

The pool guarantees:
    * :meth:`attach` comes first, once; a policy object serves one pool.
    * A run is evictable for the policy exactly from an :meth:`on_evictable` that names it until the next
      :meth:`on_referenced` or :meth:`on_dropped` that does.
    * Arrays (uint32 run ids) hold the runs of one request, the deepest first.
    * Columns of ``self.runs`` are up to date in every hook; hooks are never called concurrently.
    * What is behind an evictable run is evictable too.

The policy must:
    * name victims in :meth:`choose`: evictable runs with no children (``self.runs.children``), leaf first;
    * keep a run in its order until :meth:`on_dropped`: the pool may take only some blocks off its deep end;
    * never call back into the pool from a hook.

A hook that raises makes the pool's next acquire, extend or evict raise :class:`kvopt.errors.PolicyError`; a
:meth:`choose` that raises or names something else than a victim does so at once. Nothing is evicted then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvopt._core import RequestInfo, RunTable

RunIds = NDArray[np.uint32]


class Policy(ABC):
    """Base of eviction policies written in Python; see the module's text for both sides' duties."""

    runs: RunTable
    """The pool's state by runs: read-only, always current. Set by :meth:`attach`."""

    attached: bool = False
    """Set by the pool that takes this object."""

    honours_priority: bool = False
    """Whether the order depends on ``runs.priority``; pools refuse ``retain`` otherwise."""

    def attach(self, runs: RunTable) -> None:
        """Take the table; its columns have ``runs.capacity`` entries."""
        self.runs = runs

    def on_hit(self, hit: RunIds, info: RequestInfo) -> None:  # noqa: B027
        """Note that a request found these runs cached; its references are not counted yet."""

    def on_stored(self, stored: RunIds, info: RequestInfo) -> None:  # noqa: B027
        """Note that these runs are new and can be hit from now on; the request holds them."""

    def on_split(self, head: int, tail: int) -> None:  # noqa: B027
        """Note that the first part of ``tail`` is now the run ``head``, its parent, in the same state."""

    @abstractmethod
    def on_referenced(self, runs: RunIds) -> None:
        """Take these evictable runs out of the order: a request or a lease holds them now."""

    @abstractmethod
    def on_evictable(self, runs: RunIds, info: RequestInfo) -> None:
        """Put these runs into the order: nobody holds them any longer."""

    def on_dropped(self, runs: RunIds) -> None:
        """Take these evictable runs out of the order: the pool takes them away."""
        self.on_referenced(runs)

    def on_uncovered(self, run: int) -> None:  # noqa: B027
        """Note that an evictable run lost its last child: it is a possible victim now."""

    def on_trimmed(self, run: int) -> None:  # noqa: B027
        """Note that a possible victim lost some blocks off its deep end."""

    def on_priority(self, run: int) -> None:  # noqa: B027
        """Note that the retention priority of this run changed."""

    @abstractmethod
    def choose(self, wanted: int, now: float) -> int | Sequence[int] | RunIds:
        """Return the next victim, or several in order; ``wanted`` blocks (> 0) are still needed, and can be had."""
