"""Gradient-boosted forests as parameters: complete trees of one depth, or any trees, which are padded to such.

An input above a node's threshold goes to the right, else to the left, as in scikit-learn and LightGBM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvopt.errors import ConfigError
from kvopt.scoring.params import INPUTS, ScoreParams, known_inputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_DEPTH = 12


def forest(inputs: ArrayLike, thresholds: ArrayLike, leaves: ArrayLike, base: float = 0.0) -> ScoreParams:
    """Score base + the sum of a leaf of each tree, added in their order in float64.

    `inputs` (numbers of :data:`~kvopt.scoring.INPUTS`) and `thresholds`, [T, 2^d - 1]: the inner nodes of T complete
    trees of depth d in breadth-first order; the children of node n are 2n + 1 and 2n + 2. `leaves` [T, 2^d] from left
    to right. K = 1 + T (3 * 2^d - 2): base, then for each tree inputs, thresholds, leaves. One parameter set;
    np.concatenate joins the `values` of several of one shape. Raises ConfigError.
    """
    nodes = [np.asarray(part, dtype=np.float32) for part in (inputs, thresholds, leaves)]
    shapes = [part.shape for part in nodes]
    depth = int(nodes[2].shape[-1]).bit_length() - 1 if nodes[2].ndim == 2 else 0
    trees = len(nodes[2]) if nodes[2].ndim else 0
    inner = (trees, 2**depth - 1)
    if shapes != [inner, inner, (trees, 2**depth)] or not 1 <= depth <= MOST_DEPTH:
        raise ConfigError(
            f"inputs, thresholds and leaves have the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}; they must be "
            f"[T, 2^d - 1] twice and [T, 2^d], with d 1 to {MOST_DEPTH}"
        )
    values = np.concatenate([np.full(1, base, np.float32), np.concatenate(nodes, axis=1).ravel()])[None]
    return ScoreParams("forest", values, trees=trees, depth=depth)


class NodeTree(NamedTuple):
    """A tree as scikit-learn's `tree_` holds it: arrays over its nodes, of which number 0 is the root."""

    feature: Sequence[int]
    """Which of the model's features the node looks at."""
    threshold: Sequence[float]
    left: Sequence[int]
    """The node's child on the left; -1 for a leaf."""
    right: Sequence[int]
    value: Sequence[float]
    """Of leaves."""


def forest_of_nodes(trees: Sequence[NodeTree], features: Sequence[str], base: float = 0.0) -> ScoreParams:
    """Any trees, padded to the depth of the deepest, as :func:`forest`.

    `features`: the names in :data:`~kvopt.scoring.INPUTS` of the model's features, in its order. Thresholds between two
    float32 numbers are rounded down, which leaves every comparison with a float32 input as it was. Raises ConfigError.
    """
    numbers = [INPUTS.index(name) for name in known_inputs(features)]
    depth = max(1, *(_depth_of(tree) for tree in trees)) if trees else 0
    if not 1 <= depth <= MOST_DEPTH:
        raise ConfigError(f"{len(trees)} trees, the deepest of depth {depth}; there must be some, of 1 to {MOST_DEPTH}")
    inner = 2**depth - 1
    inputs = np.zeros((len(trees), inner), np.float32)
    thresholds = np.zeros((len(trees), inner), np.float32)
    leaves = np.zeros((len(trees), inner + 1), np.float32)
    for t, tree in enumerate(trees):
        # Node of the tree that stands at each place; below a leaf all places are that leaf.
        places: list[int] = [0]
        for place in range(inner):
            node = places[place]
            if tree.left[node] < 0:
                places += [node, node]
                continue
            places += [int(tree.left[node]), int(tree.right[node])]
            inputs[t, place] = numbers[tree.feature[node]]
            thresholds[t, place] = _rounded_down(float(tree.threshold[node]))
        leaves[t] = [tree.value[node] for node in places[inner:]]
    return forest(inputs, thresholds, leaves, base)


def _depth_of(tree: NodeTree) -> int:
    depth = 0
    level = [0]
    while level and depth <= MOST_DEPTH:
        level = [int(child) for n in level if tree.left[n] >= 0 for child in (tree.left[n], tree.right[n])]
        depth += bool(level)
    return depth


def _rounded_down(threshold: float) -> np.float32:
    nearest = np.float32(threshold)
    return nearest if float(nearest) <= threshold else np.float32(np.nextafter(nearest, np.float32(-np.inf)))
