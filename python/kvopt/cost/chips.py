"""GPUs by name, and the prefill cost of a model on one.

Peaks are those of dense matrices (data sheets often state twice that, "with sparsity"), the host link is one direction.
What is achieved is less: a stated efficiency, by default half of the peak, which large prefill steps reach on current
engines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvopt.cost.geometry import ModelGeometry
from kvopt.cost.names import look_up
from kvopt.cost.prefill import PrefillCost
from kvopt.errors import ConfigError

DEFAULT_EFFICIENCY = 0.5
"""Share of a chip's peak that prefill reaches where nothing else is said."""

WEIGHT_BYTES = {"bf16": 2, "fp8": 1}
"""Types of matrices, and bytes of one parameter."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One GPU.

    Attributes:
        name: the name it is asked for by.
        bf16_tflops: peak of dense matrices in BF16, in 10¹² operations a second.
        fp8_tflops: the same in FP8; None where the chip has none.
        memory_gb: memory in 10⁹ bytes.
        memory_gb_s: memory bandwidth in 10⁹ bytes a second.
        host_gb_s: link to the host's memory, one direction, in 10⁹ bytes a second.
        source: where the figures are from.
    """

    name: str
    bf16_tflops: float
    fp8_tflops: float | None
    memory_gb: float
    memory_gb_s: float
    host_gb_s: float
    source: str

    def peak_flops(self, dtype: str = "bf16") -> float:
        """Peak operations a second of matrices in `dtype`. Raises ConfigError when the chip has no such units."""
        if dtype not in WEIGHT_BYTES:
            raise ConfigError(f"dtype {dtype!r} is unknown; known: {', '.join(WEIGHT_BYTES)}")
        tflops = self.bf16_tflops if dtype == "bf16" else self.fp8_tflops
        if tflops is None:
            raise ConfigError(f"{self.name} has no {dtype} matrix units")
        return tflops * 1e12


CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("a10", 125.0, None, 24.0, 600.0, 32.0, "NVIDIA A10 data sheet; PCIe 4.0 x16"),
        Chip("a100-40gb", 312.0, None, 40.0, 1555.0, 32.0, "NVIDIA A100 data sheet, SXM 40 GB; PCIe 4.0 x16"),
        Chip("a100", 312.0, None, 80.0, 2039.0, 32.0, "NVIDIA A100 data sheet, SXM 80 GB; PCIe 4.0 x16"),
        Chip("l4", 121.0, 242.0, 24.0, 300.0, 32.0, "NVIDIA L4 data sheet; PCIe 4.0 x16"),
        Chip("l40s", 362.0, 733.0, 48.0, 864.0, 32.0, "NVIDIA L40S data sheet; PCIe 4.0 x16"),
        Chip("rtx-4090", 165.2, 330.3, 24.0, 1008.0, 32.0, "NVIDIA Ada architecture paper, FP32 sums; PCIe 4.0 x16"),
        Chip("h20", 148.0, 296.0, 96.0, 4000.0, 64.0, "NVIDIA H20 data sheet; PCIe 5.0 x16"),
        Chip("h100-pcie", 756.0, 1513.0, 80.0, 2000.0, 64.0, "NVIDIA H100 data sheet, PCIe; PCIe 5.0 x16"),
        Chip("h100", 989.4, 1978.9, 80.0, 3350.0, 64.0, "NVIDIA H100 data sheet, SXM; PCIe 5.0 x16"),
        Chip("h200", 989.4, 1978.9, 141.0, 4800.0, 64.0, "NVIDIA H200 data sheet, SXM; PCIe 5.0 x16"),
        Chip("gh200", 989.4, 1978.9, 96.0, 4000.0, 450.0, "NVIDIA GH200 data sheet, 96 GB; NVLink-C2C"),
        Chip("b200", 2250.0, 4500.0, 180.0, 8000.0, 64.0, "NVIDIA HGX B200 data sheet, an eighth of it; PCIe 5.0 x16"),
        Chip("gb200", 2500.0, 5000.0, 186.0, 8000.0, 450.0, "NVIDIA GB200 NVL72 data sheet, a 72nd of it; NVLink-C2C"),
        Chip("mi300x", 1307.4, 2614.9, 192.0, 5300.0, 64.0, "AMD Instinct MI300X data sheet; PCIe 5.0 x16"),
        Chip("mi325x", 1307.4, 2614.9, 256.0, 6000.0, 64.0, "AMD Instinct MI325X data sheet; PCIe 5.0 x16"),
        Chip("mi355x", 2516.6, 5033.2, 288.0, 8000.0, 64.0, "AMD Instinct MI355X data sheet; PCIe 5.0 x16"),
    )
}
"""The chips by name."""


def chip_named(name: str) -> Chip:
    """The chip of this name (any case). Raises ConfigError that names the nearest one."""
    return look_up("chip", name, CHIPS)


def compute_cost(model: ModelGeometry, flops_per_second: float) -> PrefillCost:
    """The prefill cost of a model on hardware that achieves `flops_per_second`, and costs nothing besides.

    k1 is a token's cost far from the start, its windows full, and k3 what full attention adds for each token of
    context; k0 = k2 = 0. Raises ConfigError unless the rate is a finite number above 0.
    """
    if not 0.0 < flops_per_second < math.inf:
        raise ConfigError(f"operations a second: {flops_per_second!r} is not a finite number above 0")
    per_ms = flops_per_second / 1000.0
    source = f"{model.name} at {flops_per_second / 1e12:,.0f} TF/s"
    return PrefillCost(0.0, model.local_flops / per_ms, 0.0, model.full_pair_flops / per_ms, source)


def chip_cost(
    model: ModelGeometry,
    chip: Chip,
    *,
    tensor_parallel: int = 1,
    efficiency: float = DEFAULT_EFFICIENCY,
    dtype: str = "bf16",
) -> PrefillCost:
    """The prefill cost of a model on `tensor_parallel` chips that reach `efficiency` of their peak in `dtype`.

    k1 and k3 as `compute_cost`. k0 is the time to read all weights once a step (all experts too: a step has enough
    tokens to need them), k2 that to read the cache of full attention; both at the peak memory bandwidth, without
    communication. Raises ConfigError for an efficiency that is not above 0 and at most 1, for a `dtype` that the chip
    lacks, and where the heads do not divide.
    """
    model.check_tensor_parallel(tensor_parallel)
    if not 0.0 < efficiency <= 1.0:
        raise ConfigError(f"efficiency: {efficiency!r} is not above 0 and at most 1")
    compute = compute_cost(model, chip.peak_flops(dtype) * tensor_parallel * efficiency)
    per_ms = chip.memory_gb_s * 1e6
    k0 = model.total_parameters * WEIGHT_BYTES[dtype] / tensor_parallel / per_ms
    k2 = model.growing_bytes(tensor_parallel) / per_ms
    gpus = "" if tensor_parallel == 1 else f"{tensor_parallel} × "
    return PrefillCost(
        k0, compute.k1, k2, compute.k3, f"{model.name} on {gpus}{chip.name} at {efficiency:.0%} of its {dtype} peak"
    )
