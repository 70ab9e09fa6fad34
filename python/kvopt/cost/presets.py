"""Published prefill costs: coefficients that others measured, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass

from kvopt.cost.names import look_up
from kvopt.cost.prefill import PrefillCost


@dataclass(frozen=True, slots=True)
class PrefillPreset:
    """A published T(q, s).

    Attributes:
        name: the name it is asked for by.
        cost: the coefficients.
        model: the model's name among ours; None where its authors do not say or it is none of ours.
        tensor_parallel: GPUs that shared the model.
        source: who measured it, on what.
    """

    name: str
    cost: PrefillCost
    model: str | None
    tensor_parallel: int
    source: str


def _preset(
    name: str, k0: float, k1: float, k2: float, k3: float, model: str | None, tensor_parallel: int, source: str
) -> PrefillPreset:
    return PrefillPreset(name, PrefillCost(k0, k1, k2, k3, source), model, tensor_parallel, source)


PRESETS: dict[str, PrefillPreset] = {
    preset.name: preset
    for preset in (
        _preset(
            "preble-llama-70b-h100-tp2",
            18.67,
            0.0799,
            0.00269,
            7.44e-7,
            "llama-3.1-70b",
            2,
            "Preble (ICLR'25), its time model of Llama-3-70B on two H100 under SGLang, where s counts new tokens too",
        ),
        _preset(
            "preble-llama-70b-a100-tp2",
            28.93,
            0.182,
            0.0040,
            2.55e-6,
            "llama-3.1-70b",
            2,
            "Preble (ICLR'25), its time model of Llama-3-70B on two A100 under SGLang, where s counts new tokens too",
        ),
        _preset(
            "infercept",
            15.4,
            0.0279,
            0.0,
            0.0,
            None,
            1,
            "InferCept (ICML'24), the line in its scheduler, which its authors mark to be replaced by a profile; from "
            "384 tokens on, without a cost of context; model and GPU unsaid",
        ),
    )
}
"""The presets by name."""


def prefill_preset(name: str) -> PrefillPreset:
    """The preset of this name (any case). Raises ConfigError that names the nearest one."""
    return look_up("prefill preset", name, PRESETS)
