"""Multi-turn chat: people who ask, read the answer and ask again, under one system prompt of several."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from kvopt.workload.base import Progress, StopReason, Trace, Workload
from kvopt.workload.parameters import check_parameters, parameter
from kvopt.workload.session_chains import SessionChains


@dataclass(frozen=True, slots=True)
class MultiTurnChat(Workload):
    """Chats that start as a Poisson process; each turn's prompt is the whole conversation so far.

    The number of turns is geometric; questions, answers and the time that a person takes are lognormal with the medians
    given. The defaults are round figures for an assistant, not those of one published trace.

    Raises:
        ConfigError: a parameter is out of range.
    """

    sessions: int = parameter(2000, "chats", minimum=1, maximum=10**7)
    arrival_gap: float = parameter(2.0, "mean seconds between the starts of chats", minimum=1e-6, maximum=1e6)
    seed: int = parameter(1, "seed of all draws", maximum=2**63 - 1)
    block_tokens: int = parameter(64, "tokens in a block", minimum=1, maximum=2**20)
    turns_mean: float = parameter(4.0, "mean turns of a chat", minimum=1, maximum=1000)
    think_median: float = parameter(45.0, "median seconds between an answer and the next question", maximum=1e6)
    question_tokens: int = parameter(120, "median tokens of a question", minimum=1, maximum=10**6)
    answer_tokens: int = parameter(300, "median tokens of an answer", minimum=1, maximum=10**6)
    prompts: int = parameter(8, "different system prompts", minimum=1, maximum=10**6)
    prompt_tokens: int = parameter(800, "mean tokens of a system prompt", minimum=1, maximum=10**6)

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def name(self) -> str:
        """Always ``chat``."""
        return "chat"

    def load(self, progress: Progress | None = None) -> Trace:
        """Generate the trace; the same parameters give the same trace."""
        draw = np.random.default_rng(self.seed)
        chains = SessionChains(self.block_tokens)
        starts = np.cumsum(draw.exponential(self.arrival_gap, self.sessions))
        turns = draw.geometric(1 / self.turns_mean, self.sessions)
        prompt = draw.integers(self.prompts, size=self.sessions)
        prompt_tokens = np.maximum(1, (self.prompt_tokens * draw.uniform(0.5, 1.5, self.prompts)).astype(np.int64))
        for session in range(self.sessions):
            if progress is not None and session % 256 == 0:
                progress(session, self.sessions, "generating chats")
            count = int(turns[session])
            head = int(prompt_tokens[prompt[session]])
            question = np.maximum(1, draw.lognormal(np.log(self.question_tokens), 0.9, count)).astype(np.int64)
            answer = np.maximum(1, draw.lognormal(np.log(self.answer_tokens), 0.8, count)).astype(np.int64)
            gap = self.think_median * draw.lognormal(0.0, 1.1, count)
            gap[0] = np.nan
            api_time = 0.3 + 0.02 * answer
            inputs = head + np.cumsum(question) + np.concatenate(([0], np.cumsum(answer[:-1])))
            chains.add_chain(
                {
                    "time": starts[session] + np.concatenate(([0.0], np.cumsum(gap[1:] + api_time[:-1]))),
                    "input_tokens": inputs,
                    "output_tokens": answer,
                    "session": session,
                    "turn": np.arange(count),
                    "stop": StopReason.END_TURN,
                    "gap": gap,
                    "api_time": api_time,
                },
                np.concatenate(([head], inputs[:-1])),
                prompt=int(prompt[session]),
            )
        if progress is not None:
            progress(self.sessions, self.sessions, "generating chats")
        return chains.trace(self.name, {"format": "generated", "kind": "chat", **asdict(self)})
