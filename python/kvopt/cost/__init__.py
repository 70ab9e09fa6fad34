"""What a KV-cache block costs: its memory, and the prefill time that losing it adds."""

from __future__ import annotations

from kvopt.cost.geometry import MODELS, ModelGeometry, blocks_in_memory, model_geometry, parse_bytes
from kvopt.cost.prefill import DEFAULT_P_STAR, check_p_star, prefill_cost

__all__ = [
    "DEFAULT_P_STAR",
    "MODELS",
    "ModelGeometry",
    "blocks_in_memory",
    "check_p_star",
    "model_geometry",
    "parse_bytes",
    "prefill_cost",
]
