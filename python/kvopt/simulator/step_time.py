"""How long one engine step takes: a linear model, with coefficients from kvopt.cost.

Model. A step computes chunks of q new tokens behind s cached ones, and one token for each of n decoding requests whose
contexts add up to S tokens:

    step = k0 + Σ over chunks (k1·q + k2·s + k3·q·s) + d1·n + d2·S      milliseconds

The prefill part is T(q, s) of kvopt.cost (Preble, arXiv 2407.00023), with k0 paid once a step. A decoding token costs
the arithmetic of one more token (d1, k1 unless measured) and one pass over its context's keys and values (d2: their
bytes over the memory bandwidth). Reading the weights is in k0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kvopt.cost import Chip, PrefillPreset, chip_cost, chip_named, cost_source, model_geometry
from kvopt.errors import ConfigError


@runtime_checkable
class StepTime(Protocol):
    """What the simulator asks of a model of time; any object with these two methods will do."""

    def step_ms(self, chunks: Sequence[tuple[int, int]], decodes: int, decode_context: int) -> float:
        """Milliseconds of a step with `chunks` of (new tokens, cached tokens before them) and `decodes` requests.

        `decode_context` is the sum of the cached tokens of the decoding requests. Finite and not negative.
        """

    def prefill_ms(self, tokens: int, context: int) -> float:
        """Milliseconds that `tokens` new tokens behind `context` cached ones add to a step."""


@dataclass(frozen=True, slots=True)
class LinearStepTime:
    """The model above; all coefficients in milliseconds, finite, not negative."""

    k0: float = 0.0
    """A step."""
    k1: float = 0.0
    """A new token."""
    k2: float = 0.0
    """A cached token in front of a chunk."""
    k3: float = 0.0
    """A pair of a new and a cached token."""
    d1: float = 0.0
    """A decoding request."""
    d2: float = 0.0
    """A cached token of a decoding request."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise ConfigError(f"profile: {field.name} is {value!r}; it must be a finite number of ms from 0 up")

    def step_ms(self, chunks: Sequence[tuple[int, int]], decodes: int, decode_context: int) -> float:
        """See StepTime."""
        ms = self.k0 + self.d1 * decodes + self.d2 * decode_context
        for tokens, context in chunks:
            ms += self.k1 * tokens + self.k2 * context + self.k3 * tokens * context
        return ms

    def prefill_ms(self, tokens: int, context: int) -> float:
        """See StepTime."""
        return self.k1 * tokens + self.k2 * context + self.k3 * tokens * context


@dataclass(frozen=True, slots=True)
class Profile:
    """A named model of time, and where its coefficients are from."""

    name: str
    step_time: StepTime
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Name, source, and the coefficients where the model is linear."""
        linear = asdict(self.step_time) if isinstance(self.step_time, LinearStepTime) else {}
        return {"name": self.name, "source": self.source, **linear}


DEFAULT_PROFILE = "llama-3.1-8b@h100"

_MODEL_AND_CHIP = re.compile(r"(?P<source>.+)@(?:(?P<gpus>[1-9]\d{0,2})x)?(?P<chip>[\w.-]+)")


def load_profile(spec: str) -> Profile:
    """The model of time that a text names; see docs/simulator.md.

    "MODEL@CHIP" or "MODEL@4xCHIP" (a model, a config.json or a published preset of kvopt.cost, and a chip),
    coefficients such as "k0=5,k1=0.03", or a JSON file of an object with such keys.

    Raises ConfigError for an unknown name (with the nearest), an unknown or bad coefficient, or a broken file; OSError
    when the file cannot be read.
    """
    text = spec.strip()
    if match := _MODEL_AND_CHIP.fullmatch(text):
        return _on_chip(text, match["source"], chip_named(match["chip"]), match["gpus"])
    if "=" in text:
        return Profile(text, _linear(text, _coefficients(text)), "given")
    if text.endswith(".json"):
        try:
            document = json.loads(Path(text).read_bytes())
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"profile {text}: not JSON: {error}") from None
        if not isinstance(document, dict):
            raise ConfigError(f"profile {text}: not a JSON object of coefficients")
        source = document.pop("source", "given")
        name = document.pop("name", Path(text).name)
        return Profile(str(name), _linear(text, document), str(source))
    raise ConfigError(
        f"profile {spec!r}: write a model and a chip, such as {DEFAULT_PROFILE} (see kvopt cost list), coefficients "
        "k0=..,k1=.., or the name of a .json file"
    )


def _on_chip(spec: str, name: str, chip: Chip, gpus: str | None) -> Profile:
    # A published preset says only what prefill costs; reading the cache in decoding is computed from the chip.
    source = cost_source(name)
    if isinstance(source, PrefillPreset):
        if gpus is not None and int(gpus) != source.tensor_parallel:
            raise ConfigError(f"profile {spec!r}: {name} was measured on {source.tensor_parallel} GPUs")
        cost, ranks = source.cost, source.tensor_parallel
        model = None if source.model is None else model_geometry(source.model)
    else:
        model, ranks = source, int(gpus or 1)
        cost = chip_cost(model, chip, tensor_parallel=ranks)
    read = cost.k2 if model is None else model.growing_bytes(ranks) / (chip.memory_gb_s * 1e6)
    time = LinearStepTime(cost.k0, cost.k1, cost.k2, cost.k3, d1=cost.k1, d2=read)
    return Profile(spec, time, f"{cost.source}; decoding reads the cache at the memory bandwidth of {chip.name}")


def _coefficients(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for piece in text.split(","):
        key, _, number = (part.strip() for part in piece.partition("="))
        try:
            value = float(number)
        except ValueError:
            raise ConfigError(f"profile {text!r}: {key} is {number!r}, not a number of milliseconds") from None
        if key in values:
            raise ConfigError(f"profile {text!r}: {key} is given twice")
        values[key] = value
    return values


def check_profile(profile: str | Profile | StepTime) -> Profile:
    """A Profile from a spec, a Profile, or any StepTime. Raises what `load_profile` does."""
    if isinstance(profile, str):
        return load_profile(profile)
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, StepTime):
        return Profile(type(profile).__name__, profile, "given")
    raise ConfigError(f"profile: {profile!r} is neither a profile's name nor a StepTime")


def _linear(where: str, values: dict[str, Any]) -> LinearStepTime:
    known = [field.name for field in fields(LinearStepTime)]
    strange = sorted(set(values) - set(known))
    if strange:
        raise ConfigError(f"profile {where!r}: no coefficient {strange[0]!r}; there are {', '.join(known)}")
    if "k1" in values:
        values.setdefault("d1", values["k1"])
    return LinearStepTime(**values)
