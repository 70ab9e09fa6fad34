"""Lifecycle histories: how long sessions stay away, by class of gap and by tool, learned online.

Gaps form a tree: a path such as ("tool_use", "bash") counts at every level, under one root for all. Each node holds
returns and losses from sight by age, in bins of log time, and the gaps that still run. What was lost from sight (an
aborted or forgotten session) and what still runs is right-censored: it lasted at least so long. Kaplan and Meier's
estimate (JASA 53, 1958), by bins, uses both; leaving them out, as Continuum does, makes every tool
look quicker than it is.

A thin node borrows from its parent, in the way of a beta process (Hjort, Annals of Statistics 18, 1990): `shrinkage`
gaps that follow the parent's curve are added to its own, and the root borrows from a prior. So nothing switches at a
count of samples, and where a node has seen nothing its hazard is its parent's. The past is forgotten exponentially.

Memory: `nodes` nodes at most (the one not used for longest goes), some 9 kB each. O(levels) an observation; a curve is
made anew when its node saw a fifth more, O(bins).
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
_WIDTHS: Floats = EDGES[1:] - EDGES[:-1]
_EDGE_LIST: list[float] = EDGES.tolist()
_WIDTH_LIST: list[float] = _WIDTHS.tolist()
_STALE_SECONDS = 60.0


def log_uniform(shortest: float, longest: float) -> ReturnCurve:
    """All scales from `shortest` to `longest` seconds alike: what is assumed before anything was seen."""
    span = math.log(longest / shortest)
    return ReturnCurve.of_law(lambda x: np.clip(np.log(np.maximum(x, shortest) / shortest) / span, 0.0, 1.0))


PRIOR = log_uniform(0.1, 1000.0)


class _Node:
    __slots__ = (
        "above",
        "children",
        "curve",
        "fresh_at",
        "lost",
        "lost_passed",
        "open",
        "parent",
        "parts",
        "returned",
        "unseen",
        "weight",
        "worth",
    )

    def __init__(self, parent: _Node | None) -> None:
        self.parent = parent
        self.above: tuple[_Node, ...] = () if parent is None else (*parent.above, parent)  # from the root
        self.children = 0
        self.parts: tuple[Path, ...] = ()  # of gaps that run side by side
        # Lists, since one entry changes with each gap, and all are read when the curve is made.
        self.returned = [0.0] * BINS
        self.lost = [0.0] * BINS
        self.lost_passed = [0.0] * BINS  # the share of the bin that the lost ones had passed
        self.worth = 1.0  # of one observation now; older ones are worth less
        self.weight = 0.0  # of all returns and losses
        self.open = OpenGaps()
        self.curve: ReturnCurve | None = None
        self.fresh_at = -math.inf
        self.unseen = 0.0  # observations since the curve was made

    def renormalise(self) -> None:
        """Count in units of what an observation is worth now, before numbers grow too large."""
        for bins in (self.returned, self.lost, self.lost_passed):
            bins[:] = [weight / self.worth for weight in bins]
        self.weight /= self.worth
        self.worth = 1.0


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
        for node in self._chain(path):
            node.open.begin(now)
            node.unseen += 0.25  # running gaps move a curve less than ended ones

    def end(self, path: Path, began: float, now: float, *, returned: bool = True) -> None:
        """A gap that began then is over now: the session is back, or lost from sight."""
        nodes = self._chain(path)
        for node in nodes:
            node.open.end(began)
        self._count(nodes, max(now - began, 0.0), returned)

    def record(self, path: Path, gap: float, *, returned: bool = True) -> None:
        """A whole gap at once. Raises ConfigError unless it is a number of seconds from 0."""
        if not gap >= 0.0:
            raise ConfigError(f"gap: {gap!r} s; it must be 0 or more")
        self._count(self._chain(path), gap, returned)

    def curve(self, path: Path, now: float) -> ReturnCurve:
        """The law of the gaps on this path, with what it borrows; of the nearest known level when it is unknown."""
        return self._curve(self._known(path), now)

    def join(self, path: Path, parts: Sequence[Path]) -> None:
        """Let this path borrow from the longest of its parts instead of its parent: tools that run side by side."""
        self._chain(path)[-1].parts = tuple(parts)

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

    def _chain(self, path: Path) -> tuple[_Node, ...]:
        node = self._nodes.get(path)
        if node is None:
            node = self._make(path) if path else self._root
        else:
            self._nodes.move_to_end(path)
        return (*node.above, node)

    def _make(self, path: Path) -> _Node:
        parent = self._root
        for level in range(1, len(path) + 1):
            node = self._nodes.get(path[:level])
            if node is None:
                node = self._nodes[path[:level]] = _Node(parent)
                parent.children += 1
            parent = node
        while len(self._nodes) > self._most_nodes:
            oldest, node = self._nodes.popitem(last=False)
            if node.children or node is parent:
                self._nodes[oldest] = node  # what is behind it was used since
            elif node.parent is not None:
                node.parent.children -= 1
        return parent

    def _known(self, path: Path) -> _Node:
        exact = self._nodes.get(path)
        if exact is not None:
            return exact
        for level in range(len(path) - 1, 0, -1):
            node = self._nodes.get(path[:level])
            if node is not None:
                return node
        return self._root

    def _count(self, nodes: tuple[_Node, ...], gap: float, returned: bool) -> None:
        i = bin_of(gap)
        passed = min((gap - _EDGE_LIST[i]) / _WIDTH_LIST[i], 1.0)
        returned = returned and gap < LONGEST
        for node in nodes:
            worth = node.worth = node.worth * self._growth
            if returned:
                node.returned[i] += worth
            else:
                node.lost[i] += worth
                node.lost_passed[i] += worth * passed
            node.weight += worth
            node.unseen += 1.0
            if worth > _RENORMALISE:
                node.renormalise()

    def _curve(self, node: _Node, now: float) -> ReturnCurve:
        if node.unseen * 5.0 <= node.weight / node.worth + self._shrinkage:
            if node.curve is None:
                if node.parent is not None and not node.parts:
                    return self._curve(node.parent, now)  # what little it has seen would hardly change it
            elif (node.unseen == 0.0 and node.open.running == 0) or now < node.fresh_at + _STALE_SECONDS:
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
    """Of each bin: the share that enters it, and the share of all that returns in it."""
    entering = survival[:-1]
    return entering, entering - survival[1:]


def _estimate(node: _Node, parent: tuple[Floats, Floats], borrowed: float, now: float) -> ReturnCurve:
    unit = 1.0 / node.worth
    returned = np.array(node.returned) * unit
    lost = np.array(node.lost) * unit
    passed = np.array(node.lost_passed) * unit
    if node.open.running:
        ages, counts = node.open.ages(now)
        bins = np.minimum(EDGES.searchsorted(ages, side="right") - 1, BINS - 1)
        lost += np.bincount(bins, counts, BINS)
        passed += np.bincount(bins, counts * np.minimum((ages - EDGES[bins]) / _WIDTHS[bins], 1.0), BINS)
    entering, returning = parent
    # Who is at risk in a bin: all that end in it or later, those lost in it for the part that they passed.
    at_risk = (returned + lost)[::-1].cumsum()[::-1] - lost + passed
    at_risk += borrowed * entering
    returned += borrowed * returning
    share = returned / np.maximum(at_risk, 1e-9)
    survival = np.empty(BINS + 1)
    survival[0] = 1.0
    np.cumprod(1.0 - np.minimum(share, 1.0), out=survival[1:])
    return ReturnCurve.of_survival(EDGES, survival)
