"""Scans of one-off requests: prompts that share nothing and never return, as batch jobs and crawlers send them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from kvopt.workload.base import Progress, StopReason, Trace, Workload
from kvopt.workload.parameters import check_parameters, parameter
from kvopt.workload.session_chains import NO_PROMPT, SessionChains


@dataclass(frozen=True, slots=True)
class OneOffRequests(Workload):
    """Requests without any reuse, evenly spread or in bursts.

    Raises:
        ConfigError: a parameter is out of range.
    """

    requests: int = parameter(2000, "requests", minimum=1, maximum=10**8)
    request_gap: float = parameter(1.0, "mean seconds between requests", minimum=1e-6, maximum=1e6)
    seed: int = parameter(1, "seed of all draws", maximum=2**63 - 1)
    block_tokens: int = parameter(64, "tokens in a block", minimum=1, maximum=2**20)
    input_tokens: int = parameter(8000, "median tokens of a prompt", minimum=1, maximum=10**7)
    input_spread: float = parameter(0.8, "standard deviation of the logarithm of its tokens", maximum=3)
    answer_tokens: int = parameter(200, "median tokens of an answer", minimum=1, maximum=10**7)
    burst: int = parameter(1, "requests that arrive at once", minimum=1, maximum=10**6)

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def name(self) -> str:
        """Always ``scans``."""
        return "scans"

    def load(self, progress: Progress | None = None) -> Trace:
        """Generate the trace; the same parameters give the same trace."""
        draw = np.random.default_rng(self.seed)
        bursts = -(-self.requests // self.burst)
        starts = np.cumsum(draw.exponential(self.request_gap * self.burst, bursts))
        inputs = np.maximum(1, draw.lognormal(np.log(self.input_tokens), self.input_spread, self.requests))
        answers = np.maximum(1, draw.lognormal(np.log(self.answer_tokens), 0.8, self.requests))
        chains = SessionChains(self.block_tokens)
        chains.add_single(
            {
                "time": np.repeat(starts, self.burst)[: self.requests],
                "input_tokens": np.minimum(inputs, 2**31),
                "output_tokens": np.minimum(answers, 2**31),
                "session": np.arange(self.requests),
                "turn": 0,
                "stop": StopReason.END_TURN,
            },
            np.zeros(self.requests),
            np.full(self.requests, NO_PROMPT),
        )
        return chains.trace(self.name, {"format": "generated", "kind": "scans", **asdict(self)})
