from __future__ import annotations

import pytest

from kvopt.cli.compare_table import Standing, verdict
from kvopt.simulator import ReplayRow


def level(capacity: int, saved: dict[str, float], *, evictions: int = 5, skipped: int = 0) -> Standing:
    rows = tuple(
        ReplayRow(policy, capacity, share, share, share, evictions, 10, skipped, 100, 0.1)
        for policy, share in saved.items()
    )
    return Standing(capacity, rows, frozenset({"min", "min-bypass"}))


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        (
            [level(1000, {"lru": 0.10, "lfu": 0.15, "min": 0.30})],
            "At 1,000 blocks lfu saves the most of the online policies and closes 25% of lru's gap to the optimum.",
        ),
        (
            [
                level(10, {"lru": 0.10, "lfu": 0.15, "min": 0.30}),
                level(20, {"lru": 0.20, "lfu": 0.30, "min": 0.40}),
                level(30, {"lru": 0.35, "lfu": 0.31, "min": 0.40}),
                level(40, {"lru": 0.40, "lfu": 0.40, "min": 0.40}, evictions=0),
                level(50, {"lru": 0.40, "lfu": 0.40, "min": 0.40}, evictions=0),
            ],
            (
                "From 10 to 20 blocks lfu saves the most of the online policies and closes 25 to 50% of lru's gap to "
                "the optimum; at 30 blocks lru is the best online policy, 5.0 points of prefill cost below the "
                "optimum; from 40 to 50 blocks memory is slack: nothing is evicted."
            ),
        ),
        ([level(9, {"lru": 0.4, "min": 0.4})], "At 9 blocks lru is the best online policy, with nothing left to gain."),
        ([level(9, {"lru": 0.0, "min": 0.0}, skipped=10)], "At 9 blocks no request fits."),
    ],
)
def test_the_sentence(levels: list[Standing], sentence: str) -> None:
    assert verdict(levels) == sentence


def test_a_difference_that_does_not_show_is_none() -> None:
    assert level(9, {"lru": 0.30, "fifo": 0.3004, "min": 0.4}).best.policy == "lru"
    assert level(9, {"lru": 0.30, "fifo": 0.3006, "min": 0.4}).best.policy == "fifo"
    assert level(9, {"lru": 0.30, "fifo": 0.3006, "min": 0.9}).best.policy == "lru"


def test_an_offline_policy_is_never_the_best_online_one() -> None:
    standing = level(9, {"min-bypass": 0.9, "min": 0.8, "fifo": 0.1, "lru": 0.1})
    assert standing.best.policy == "lru"
    assert standing.gap_closed(standing.best) == 0.0
