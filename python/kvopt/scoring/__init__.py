"""Values of many blocks under many parameter sets at once, and the choice of the lowest: see docs/scoring.md."""

from __future__ import annotations

from kvopt.scoring.device_table import DeviceTable
from kvopt.scoring.evaluate import score, score_select, select_k
from kvopt.scoring.forests import NodeTree, forest, forest_of_nodes
from kvopt.scoring.params import (
    INPUTS,
    ScoreParams,
    asymcache,
    cost_per_age,
    frequency,
    network,
    recency,
    retention_index,
    workload_aware,
)

__all__ = [
    "INPUTS",
    "DeviceTable",
    "NodeTree",
    "ScoreParams",
    "asymcache",
    "cost_per_age",
    "forest",
    "forest_of_nodes",
    "frequency",
    "network",
    "recency",
    "retention_index",
    "score",
    "score_select",
    "select_k",
    "workload_aware",
]
