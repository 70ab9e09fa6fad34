"""What `kvopt cost explain` explains: the model and prefill cost that its options choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvopt.cost import (
    Chip,
    ModelGeometry,
    PrefillCost,
    PrefillPreset,
    Tier,
    chip_cost,
    chip_named,
    compute_cost,
    cost_source,
    model_geometry,
)
from kvopt.cost.chips import DEFAULT_EFFICIENCY
from kvopt.errors import ConfigError

DEFAULT_CHIP = "h100"
SSD = Tier("ssd", 7e9, 100e-6)
"""An NVMe drive on PCIe 4.0 x4."""
HOST_LATENCY = 10e-6
"""Seconds before a copy from the host's memory starts."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A prefill cost, and the model and hardware that it is of.

    Attributes:
        name: what was asked for.
        cost: T(q, s).
        model: the geometry; None for a preset whose model is unknown.
        chip: the GPU; None for a preset or a plain rate.
        tensor_parallel: GPUs that share the model.
        measured: whether the cost is a preset, not computed from the geometry.
    """

    name: str
    cost: PrefillCost
    model: ModelGeometry | None
    chip: Chip | None
    tensor_parallel: int
    measured: bool

    @property
    def p_star(self) -> float:
        """p* in tokens; infinite where context costs nothing."""
        return self.cost.p_star if self.model is None or self.measured else self.model.p_star

    def token_ms(self, position: float) -> float:
        """What one more token at `position` adds to a step: exact where it is computed from the geometry."""
        if self.model is None or self.measured:
            return self.cost.token_ms(position)
        return self.cost.k1 * self.model.token_flops(position) / self.model.local_flops

    @property
    def default_tiers(self) -> tuple[Tier, ...]:
        """The host's memory over the chip's link (PCIe 5.0 x16 where there is no chip), and an SSD."""
        if self.model is None:
            return ()
        link = 64.0 if self.chip is None else self.chip.host_gb_s
        return (Tier("cpu", link * 1e9, HOST_LATENCY), SSD)


def chosen_cost(
    source: str,
    *,
    chip: str | None = None,
    tensor_parallel: int | None = None,
    efficiency: float | None = None,
    tflops: float | None = None,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> Choice:
    """The cost of a model on a chip, of a model at a plain rate (`tflops`), or of a preset.

    Raises ConfigError for names that are unknown and options that contradict each other.
    """
    found = cost_source(source)
    hardware = {"--chip": chip, "--efficiency": efficiency, "--dtype": dtype}
    if isinstance(found, PrefillPreset):
        _refuse(
            hardware | {"--tflops": tflops, "--tp": tensor_parallel}, f"the preset {found.name} was measured as it is"
        )
        model = None if found.model is None else model_geometry(found.model, kv_dtype)
        if model is None:
            _refuse({"--kv-dtype": kv_dtype}, f"the model of {found.name} is not known")
        return Choice(found.name, found.cost, model, None, found.tensor_parallel, True)
    model = found if kv_dtype is None else found.with_kv_dtype(kv_dtype)
    gpus = tensor_parallel or 1
    model.check_tensor_parallel(gpus)
    if tflops is not None:
        _refuse(hardware, "--tflops is what all GPUs achieve together")
        return Choice(model.name, compute_cost(model, tflops * 1e12), model, None, gpus, False)
    gpu = chip_named(chip or DEFAULT_CHIP)
    cost = chip_cost(
        model, gpu, tensor_parallel=gpus, efficiency=efficiency or DEFAULT_EFFICIENCY, dtype=dtype or "bf16"
    )
    return Choice(model.name, cost, model, gpu, gpus, False)


def _refuse(options: Mapping[str, object], why: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ConfigError(f"{', '.join(given)} cannot be given: {why}")
