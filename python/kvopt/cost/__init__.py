"""What a KV-cache block costs: its memory, and the prefill time or the reload that losing it adds."""

from __future__ import annotations

from kvopt.cost.chips import CHIPS, Chip, chip_cost, chip_named, compute_cost
from kvopt.cost.fit import PrefillFit, fit_points, fit_prefill, fit_prefill_csv
from kvopt.cost.geometry import KV_BYTES, LayerGroup, ModelGeometry, kv_dtype_name
from kvopt.cost.memory import blocks_in_memory, parse_bytes
from kvopt.cost.model_config import geometry_from_config
from kvopt.cost.models import MODELS, model_geometry
from kvopt.cost.points import PrefillPoints, prefill_points, read_points
from kvopt.cost.prefill import DEFAULT_P_STAR, DEFAULT_STEP_TOKENS, PrefillCost, check_p_star, prefill_cost
from kvopt.cost.prefill_profile import PrefillProfile
from kvopt.cost.presets import PRESETS, PrefillPreset, prefill_preset
from kvopt.cost.reload import LostPrefix, Restore, Tier, parse_tier
from kvopt.cost.source import cost_source, p_star_of

__all__ = [
    "CHIPS",
    "DEFAULT_P_STAR",
    "DEFAULT_STEP_TOKENS",
    "KV_BYTES",
    "MODELS",
    "PRESETS",
    "Chip",
    "LayerGroup",
    "LostPrefix",
    "ModelGeometry",
    "PrefillCost",
    "PrefillFit",
    "PrefillPoints",
    "PrefillPreset",
    "PrefillProfile",
    "Restore",
    "Tier",
    "blocks_in_memory",
    "check_p_star",
    "chip_cost",
    "chip_named",
    "compute_cost",
    "cost_source",
    "fit_points",
    "fit_prefill",
    "fit_prefill_csv",
    "geometry_from_config",
    "kv_dtype_name",
    "model_geometry",
    "p_star_of",
    "parse_bytes",
    "parse_tier",
    "prefill_cost",
    "prefill_points",
    "prefill_preset",
    "read_points",
]
