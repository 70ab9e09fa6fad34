"""Lifecycle histories: how long sessions stay away, by class of gap and by tool, learned online.

Gaps form a tree: a path such as ("tool_use", "bash") counts at every level, under one root for all. Each node holds
returns and losses from sight by age, in bins of log time, and the gaps that still run. What was lost from sight (an
aborted or forgotten session) and what still runs is right-censored: it lasted at least so long. Kaplan and Meier's
estimate with the actuarial half bin (JASA 53, 1958) uses both; leaving them out, as Continuum does, makes every tool
look quicker than it is.

A thin node borrows from its parent, in the way of a beta process (Hjort, Annals of Statistics 18, 1990): `shrinkage`
gaps that follow the parent's curve are added to its own, and the root borrows from a prior. So nothing switches at a
count of samples, and where a node has seen nothing its hazard is its parent's. The past is forgotten exponentially.

Memory: `nodes` nodes at most (the one not used for longest goes), some 9 kB each. O(levels) an observation; a curve is
made anew when its node saw one part in sixteen more, O(bins).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from kvopt.continuum.curve import BINS, EDGES, LONGEST, Floats, ReturnCurve, bin_of
from kvopt.continuum.open_gaps import OpenGaps
from kvopt.errors import ConfigError

Path = tuple[str, ...]
"""Class, tool and so on, the coarsest first."""

_PRIOR_GAPS = 2.0
_RENORMALISE = 1e12
_STALE_SECONDS = 60.0


def log_uniform(shortest: float, longest: float) -> ReturnCurve:
    """All scales from `shortest` to `longest` seconds alike: what is assumed before anything was seen."""
    span = math.log(longest / shortest)
    return ReturnCurve.of_law(lambda x: np.clip(np.log(np.maximum(x, shortest) / shortest) / span, 0.0, 1.0))


PRIOR = log_uniform(0.1, 1000.0)


class _Node:
    __slots__ = ("curve", "fresh_at", "lost", "open", "parent", "parts", "returned", "unseen", "weight", "worth")

    def __init__(self, parent: _Node | None) -> None:
        self.parent = parent
        self.parts: tuple[Path, ...] = ()  # of gaps that run side by side
        self.returned: Floats = np.zeros(BINS)
        self.lost: Floats = np.zeros(BINS)
        self.worth = 1.0  # of one observation now; older ones are worth less
        self.weight = 0.0  # of all returns and losses
        self.open = OpenGaps()
        self.curve: ReturnCurve | None = None
        self.fresh_at = -math.inf
        self.unseen = 0.0  # observations since the curve was made


class GapHistory:
    """Histories of gaps in seconds, or in any one unit, by path.

    Options: `shrinkage`, gaps that a parent counts for; `memory`, gaps after which one is worth 1/e; `nodes`, how many
    paths are told apart; `prior`, what the root starts from. Raises ConfigError for values out of range.
    """

    def __init__(
        self, *, shrinkage: float = 15.0, memory: float = 2000.0, nodes: int = 1024, prior: ReturnCurve = PRIOR
    ) -> None:
        if not (math.isfinite(shrinkage) and shrinkage >= 0.0):
            raise ConfigError(f"shrinkage: {shrinkage!r}; it must be a number of gaps from 0")
        if not memory >= 10.0:
            raise ConfigError(f"memory: {memory!r}; it must be at least 10 gaps")
        if nodes < 8:
            raise ConfigError(f"nodes: {nodes!r}; it must be at least 8")
        self._shrinkage = shrinkage
        self._growth = 1.0 / (1.0 - 1.0 / memory)
        self._most_nodes = nodes
        self._prior = _hazards(prior.survival)
        self._root = _Node(None)
        self._nodes: OrderedDict[Path, _Node] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def begin(self, path: Path, now: float) -> None:
        """A gap begins now: it counts as running at every level of its path."""
        for node in self._nodes_of(path):
            node.open.begin(now)
            node.unseen += 1.0

    def end(self, path: Path, began: float, now: float, *, returned: bool = True) -> None:
        """A gap that began then is over now: the session is back, or lost from sight."""
        gap = max(now - began, 0.0)
        for node in self._nodes_of(path):
            node.open.end(began)
            self._count(node, gap, returned)

    def record(self, path: Path, gap: float, *, returned: bool = True) -> None:
        """A whole gap at once. Raises ConfigError unless it is a number of seconds from 0."""
        if not gap >= 0.0:
            raise ConfigError(f"gap: {gap!r} s; it must be 0 or more")
        for node in self._nodes_of(path):
            self._count(node, gap, returned)

    def curve(self, path: Path, now: float) -> ReturnCurve:
        """The law of the gaps on this path, with what it borrows; of the nearest known level when it is unknown."""
        return self._curve(self._known(path), now)

    def join(self, path: Path, parts: Sequence[Path]) -> None:
        """Let this path borrow from the longest of its parts instead of its parent: tools that run side by side."""
        self._nodes_of(path)[-1].parts = tuple(parts)

    def joint_curve(self, parts: Sequence[Path], now: float) -> ReturnCurve:
        """The law of the longest of several gaps that run side by side, taken as independent."""
        returned = np.ones(len(EDGES))
        for path in parts:
            returned = returned * self.curve(path, now).returned
        return ReturnCurve.of_survival(EDGES, 1.0 - returned)

    def weight(self, path: Path) -> float:
        """Gaps seen on exactly this path, those long ago in part; 0 when it is unknown."""
        node = self._nodes.get(path) if path else self._root
        return node.weight / node.worth if node is not None else 0.0

    def running(self, path: Path) -> int:
        """Gaps that run now on exactly this path."""
        node = self._nodes.get(path) if path else self._root
        return node.open.running if node is not None else 0

    def quantile(self, path: Path, p: float, now: float) -> float:
        """The gap that a share `p` of the sessions on this path stay within, in seconds."""
        return self.curve(path, now).quantile(p)

    def within(self, path: Path, x: float, age: float, now: float) -> float:
        """P(returns within `x` seconds | idle for `age`) on this path."""
        return self.curve(path, now).within(x, age)

    def _nodes_of(self, path: Path) -> list[_Node]:
        nodes = [self._root]
        parent = self._root
        for level in range(1, len(path) + 1):
            key = path[:level]
            node = self._nodes.get(key)
            if node is None:
                node = self._nodes[key] = _Node(parent)
            nodes.append(node)
            parent = node
        # The deepest first, so that the node that was not used for longest has no children.
        for level in range(len(path), 0, -1):
            self._nodes.move_to_end(path[:level])
        while len(self._nodes) > self._most_nodes:
            self._nodes.popitem(last=False)
        return nodes

    def _known(self, path: Path) -> _Node:
        for level in range(len(path), 0, -1):
            node = self._nodes.get(path[:level])
            if node is not None:
                return node
        return self._root

    def _count(self, node: _Node, gap: float, returned: bool) -> None:
        node.worth *= self._growth
        if returned and gap < LONGEST:
            node.returned[bin_of(gap)] += node.worth
        else:
            node.lost[bin_of(gap)] += node.worth
        node.weight += node.worth
        node.unseen += 1.0
        if node.worth > _RENORMALISE:
            node.returned /= node.worth
            node.lost /= node.worth
            node.weight /= node.worth
            node.worth = 1.0

    def _curve(self, node: _Node, now: float) -> ReturnCurve:
        if node.curve is not None and node.unseen <= 1.0 + node.weight / node.worth / 16.0:
            changed = node.unseen > 0.0 or node.open.running > 0
            if not changed or now < node.fresh_at + _STALE_SECONDS:
                return node.curve
        if node.parent is None:
            parent, borrowed = self._prior, _PRIOR_GAPS
        else:
            law = self.joint_curve(node.parts, now) if node.parts else self._curve(node.parent, now)
            parent, borrowed = _hazards(law.survival), self._shrinkage
        node.curve = _estimate(node, parent, borrowed, now)
        node.fresh_at = now
        node.unseen = 0.0
        return node.curve


def _hazards(survival: Floats) -> tuple[Floats, Floats]:
    """Of each bin: the share that enters it, and the share of those that return in it."""
    entering = survival[:-1]
    return entering, np.divide(entering - survival[1:], entering, out=np.zeros(BINS), where=entering > 0.0)


def _estimate(node: _Node, parent: tuple[Floats, Floats], borrowed: float, now: float) -> ReturnCurve:
    returned = node.returned / node.worth
    lost = node.lost / node.worth
    if node.open.running:
        ages, counts = node.open.ages(now)
        bins = np.searchsorted(EDGES, ages, side="right") - 1
        lost += np.bincount(np.minimum(bins, BINS - 1), counts, BINS)
    at_risk = np.cumsum((returned + lost)[::-1])[::-1] - lost / 2.0
    entering, hazard = parent
    total = at_risk + borrowed * entering
    share = np.divide(returned + borrowed * entering * hazard, total, out=hazard.copy(), where=total > 1e-9)
    survival = np.concatenate([[1.0], np.cumprod(1.0 - np.clip(share, 0.0, 1.0))])
    return ReturnCurve.of_survival(EDGES, survival)
