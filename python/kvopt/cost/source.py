"""One name for what has a prefill cost: a model, a `config.json`, or a published preset."""

from __future__ import annotations

from kvopt.cost.geometry import ModelGeometry
from kvopt.cost.models import MODELS, is_model, model_geometry
from kvopt.cost.names import look_up
from kvopt.cost.presets import PRESETS, PrefillPreset

LARGEST_P_STAR = 1e12
"""Stands for an infinite p*, where attention costs nothing: no prompt is long enough to tell."""


def cost_source(name: str) -> ModelGeometry | PrefillPreset:
    """The preset of T(q, s) of this name, or else the model or `config.json`.

    Raises ConfigError that names the nearest of both when there is neither, and as `model_geometry` for a file.
    """
    if is_model(name):
        return model_geometry(name)
    known: dict[str, ModelGeometry | PrefillPreset] = {**MODELS, **PRESETS}
    return look_up("model or prefill preset", name, known)


def p_star_of(source: str | ModelGeometry | PrefillPreset) -> float:
    """p* in tokens, finite: that of a name as in `cost_source`, a geometry or a preset. Raises as `cost_source`."""
    found = cost_source(source) if isinstance(source, str) else source
    p_star = found.cost.p_star if isinstance(found, PrefillPreset) else found.p_star
    return min(p_star, LARGEST_P_STAR)
