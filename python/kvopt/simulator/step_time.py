"""How long one engine step takes: a seam to kvopt.cost, and a linear model with presets.

Model. A step computes chunks of q new tokens behind s cached ones, and one token for each of n decoding requests whose
contexts add up to S tokens:

    step = k0 + Σ over chunks (k1·q + k2·s + k3·q·s) + d1·n + d2·S      milliseconds

The prefill part is T(q, s) of Preble (arXiv 2407.00023), with k0 paid once a step. A decoding token costs the
arithmetic of one more token (d1, k1 unless measured) and one pass over its context's keys and values (d2: their bytes
over the memory bandwidth). Reading the weights is in k0.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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


# 500 TFLOP/s of arithmetic and 3.35 TB/s of memory; f(p) = 2·7.5e9 + 4·32·4096·p FLOP a token, 16.1 GB of weights,
# 131,072 bytes of keys and values a token.
_LLAMA_8B_H100 = LinearStepTime(k0=4.8, k1=0.02999, k2=3.9e-5, k3=1.0486e-6, d1=0.02999, d2=3.9e-5)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "llama-3.1-8b-h100",
            _LLAMA_8B_H100,
            "computed: Llama-3.1-8B in BF16 at 500 TFLOP/s and 3.35 TB/s (H100 SXM)",
        ),
        Profile(
            "llama-3.1-70b-2xh100",
            LinearStepTime(k0=18.67, k1=0.0799, k2=0.00269, k3=7.44e-7, d1=0.0799, d2=4.9e-5),
            "prefill: Preble's fit on Llama-70B, 2 H100; d2 computed: 327,680 bytes a token at 2 · 3.35 TB/s",
        ),
        Profile(
            "llama-3.1-70b-2xa100",
            LinearStepTime(k0=28.93, k1=0.182, k2=0.0040, k3=2.55e-6, d1=0.182, d2=8.0e-5),
            "prefill: Preble's fit on Llama-70B, 2 A100; d2 computed: 327,680 bytes a token at 2 · 2.04 TB/s",
        ),
    )
}
"""The presets by name."""

DEFAULT_PROFILE = "llama-3.1-8b-h100"


def load_profile(spec: str) -> Profile:
    """A preset by name, coefficients such as "k0=5,k1=0.03", or a JSON file of an object with such keys.

    Raises ConfigError for an unknown name (with the nearest), an unknown or bad coefficient, or a broken file; OSError
    when the file cannot be read.
    """
    text = spec.strip()
    if text in PROFILES:
        return PROFILES[text]
    if "=" in text:
        values: dict[str, Any] = {}
        for piece in text.split(","):
            key, _, number = (part.strip() for part in piece.partition("="))
            try:
                value = float(number)
            except ValueError:
                raise ConfigError(f"profile {spec!r}: {key} is {number!r}, not a number of milliseconds") from None
            if key in values:
                raise ConfigError(f"profile {spec!r}: {key} is given twice")
            values[key] = value
        return Profile(spec, _linear(spec, values), "given")
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
    near = difflib.get_close_matches(text, PROFILES, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(
        f"unknown profile {spec!r}: {hint}known: {', '.join(PROFILES)}; or coefficients k0=..,k1=.., or a .json file"
    )


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
