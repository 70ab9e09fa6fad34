"""Prefill cost of a prompt, relative to the cost of its first token.

A token at position p costs 1 + p/p*, because attention reads all earlier tokens; p* is the position where that
doubles the cost. The sum over a prompt of n tokens is F(n) = n + n²/(2·p*).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvopt.errors import ConfigError

DEFAULT_P_STAR = 28_600.0
"""p* of Llama-3.1-8B, in tokens."""


def check_p_star(p_star: float) -> float:
    """Return `p_star` (tokens) as a float; raise ConfigError unless it is a finite number above 0."""
    if isinstance(p_star, bool) or not isinstance(p_star, (int, float, np.integer, np.floating)):
        raise ConfigError(f"p_star: {p_star!r} is not a number of tokens")
    value = float(p_star)
    if not math.isfinite(value) or value <= 0.0:
        raise ConfigError(f"p_star: {p_star!r} is not a finite number of tokens above 0")
    return value


def prefill_cost(tokens: ArrayLike, p_star: float = DEFAULT_P_STAR) -> NDArray[Any]:
    """F(n) of each prompt length, in units of a first token's cost.

    `tokens` has any shape, in tokens (0 or more); the answer is float64 of the same shape. Raises ConfigError for a bad
    `p_star` or a negative length.
    """
    p_star = check_p_star(p_star)
    n = np.asarray(tokens, dtype=np.float64)
    if n.size and not float(n.min()) >= 0.0:
        raise ConfigError(f"tokens: {float(n.min())!r} is below 0 or not a number")
    return n + n * n / (2.0 * p_star)
