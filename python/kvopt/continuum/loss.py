"""What losing a session's blocks costs it: seconds to compute them again, or to load them where that is quicker."""

from __future__ import annotations

from collections.abc import Callable

from kvopt.cost import ModelGeometry, PrefillCost, PrefillProfile, Tier
from kvopt.errors import ConfigError

LossSeconds = Callable[[int, int], float]
"""Seconds that losing `new` tokens costs, behind `cached` ones that stay."""


class LossOfTokens:
    """Seconds by a prefill cost, or by a profile that learns; with a tier, of a reload where that is quicker.

    `tier` is where evicted blocks go, and `model` says how many bytes they have. A split between both, which
    :meth:`kvopt.cost.PrefillProfile.restore` finds, is left out: it takes too long for a decision, and saves little
    where a tier is much quicker. Raises ConfigError for a tier without a model.
    """

    def __init__(
        self,
        cost: PrefillCost | PrefillProfile,
        *,
        tier: Tier | None = None,
        model: ModelGeometry | None = None,
        tensor_parallel: int = 1,
    ) -> None:
        if tier is not None and model is None:
            raise ConfigError(f"tier {tier.name}: name the model too, whose blocks it holds")
        if model is not None:
            model.check_tensor_parallel(tensor_parallel)
        self._given = cost if isinstance(cost, PrefillCost) else None
        self._profile = cost if isinstance(cost, PrefillProfile) else None
        self._tier = tier
        self._model = model
        self._tensor_parallel = tensor_parallel

    def __call__(self, new: int, cached: int) -> float:
        """Seconds that losing `new` tokens costs, behind `cached` ones that stay."""
        cost = self._given if self._profile is None else self._profile.cost
        assert cost is not None
        ms = cost.prefill_ms(new, cached)
        if self._tier is not None and self._model is not None:
            size = self._model.kv_bytes(new + cached, cached=cached, tensor_parallel=self._tensor_parallel)
            ms = min(ms, self._tier.reload_ms(size))
        return ms / 1000.0
