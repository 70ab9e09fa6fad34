"""Shared system prompts: single requests that begin with one of many prompts, a few of them popular."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kvopt.workload.base import Progress, StopReason, Trace, Workload
from kvopt.workload.lengths_csv import LengthsOnly
from kvopt.workload.parameters import check_parameters, parameter
from kvopt.workload.session_chains import SessionChains


@dataclass(frozen=True, slots=True)
class SharedPrompts(Workload):
    """Requests that share nothing but their system prompt; prompt number i is drawn with weight i ** -popularity.

    With ``arrivals`` the times and lengths of a BurstGPT or Azure trace are taken, and each request begins with as much
    of its system prompt as its length holds; ``requests``, ``request_gap``, ``question_tokens`` and ``answer_tokens``
    are not used then.

    Raises:
        ConfigError: a parameter is out of range.
    """

    requests: int = parameter(20000, "requests", minimum=1, maximum=10**8)
    request_gap: float = parameter(0.5, "mean seconds between requests", minimum=1e-6, maximum=1e6)
    seed: int = parameter(1, "seed of all draws", maximum=2**63 - 1)
    block_tokens: int = parameter(64, "tokens in a block", minimum=1, maximum=2**20)
    prompts: int = parameter(200, "different system prompts", minimum=1, maximum=10**7)
    popularity: float = parameter(1.0, "exponent of the prompts' popularity; 0 is uniform", maximum=10)
    prompt_tokens: int = parameter(2000, "median tokens of a system prompt", minimum=1, maximum=10**7)
    question_tokens: int = parameter(200, "median tokens that follow it", minimum=1, maximum=10**7)
    answer_tokens: int = parameter(200, "median tokens of an answer", minimum=1, maximum=10**7)
    arrivals: LengthsOnly | None = None

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def name(self) -> str:
        """``prompts``, or ``prompts-`` and the name of the arrivals."""
        return "prompts" if self.arrivals is None else f"prompts-{self.arrivals.name}"

    def load(self, progress: Progress | None = None) -> Trace:
        """Generate the trace; the same parameters give the same trace."""
        draw = np.random.default_rng(self.seed)
        weight = np.arange(1, self.prompts + 1) ** -float(self.popularity)
        prompt_tokens = np.maximum(1, draw.lognormal(np.log(self.prompt_tokens), 0.7, self.prompts)).astype(np.int64)
        requests = self.requests if self.arrivals is None else self.arrivals.requests
        prompt = draw.choice(self.prompts, requests, p=weight / weight.sum())
        columns: dict[str, Any] = {"session": np.arange(requests), "turn": 0, "stop": StopReason.END_TURN}
        if self.arrivals is None:
            question = np.maximum(1, draw.lognormal(np.log(self.question_tokens), 0.9, requests)).astype(np.int64)
            answer = np.maximum(1, draw.lognormal(np.log(self.answer_tokens), 0.8, requests)).astype(np.int64)
            columns["time"] = np.cumsum(draw.exponential(self.request_gap, requests))
            columns["input_tokens"] = prompt_tokens[prompt] + question
            columns["output_tokens"] = answer
        else:
            columns["time"] = self.arrivals.time
            columns["input_tokens"] = self.arrivals.input_tokens
            columns["output_tokens"] = self.arrivals.output_tokens
        chains = SessionChains(self.block_tokens)
        chains.add_single(columns, prompt_tokens[prompt], prompt)
        return chains.trace(self.name, {"format": "generated", "kind": "prompts", **self._told()})

    def _told(self) -> dict[str, Any]:
        told = asdict(replace(self, arrivals=None))
        told["arrivals"] = None if self.arrivals is None else self.arrivals.name
        return told
