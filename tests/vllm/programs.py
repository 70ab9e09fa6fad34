"""Random programs for a server: what is sent, aborted and reset in front of which step. The same for every server."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

BLOCK = 4
"""Tokens a block, of all programs."""


@dataclass(frozen=True)
class Sent:
    """A request. Its answer is scripted, so what the next turn of its session repeats is known beforehand."""

    name: str
    prompt: Sequence[int]
    answer: Sequence[int]
    session: int
    priority: int = 0
    salt: str | None = None

    @property
    def tokens(self) -> list[int]:
        """Prompt and answer."""
        return [*self.prompt, *self.answer]


@dataclass
class Turn:
    """What happens in front of a step."""

    sent: list[Sent] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    """Blocks that lose their content."""
    reset: bool = False
    reset_running: bool = False
    """The reset preempts who runs, so that it succeeds."""


@dataclass(frozen=True)
class Program:
    """A server's limits and what happens to it; block 0 of `blocks` is vLLM's null block."""

    seed: int
    blocks: int
    budget: int
    """Tokens a step."""
    sequences: int
    turns: list[Turn]

    @property
    def sent(self) -> list[Sent]:
        """All requests, in the order in which they come."""
        return [request for turn in self.turns for request in turn.sent]


def random_program(
    seed: int,
    *,
    steps: int = 24,
    calm: bool = False,
    priorities: bool = False,
    least_blocks: int = 10,
    groups: int = 1,
    reset_running: bool = True,
) -> Program:
    """Prompts that share their beginnings, next turns, equal prompts at once; too much for the pool.

    Each request takes blocks from `groups` KV groups. Without `calm` requests are aborted, some by the dozen, blocks
    lose their content and the cache is reset, with `reset_running` also under those who run.
    """
    r = random.Random(seed)
    blocks = least_blocks + r.randrange(30)
    longest = (blocks - 1) // groups * BLOCK
    heads = [[100 + r.randrange(50_000) for _ in range(r.randrange(1, longest // 2))] for _ in range(3)]
    turns = [Turn() for _ in range(steps)]
    sent: list[tuple[int, Sent]] = []
    for step, turn in enumerate(turns):
        for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
            answer = [100 + r.randrange(50_000) for _ in range(r.randrange(1, 20))]
            session, prompt = len(sent), [*r.choice(heads), *(r.randrange(9) for _ in range(r.randrange(1, 12)))]
            last = {request.session: (when, request) for when, request in sent}
            early = [before for when, before in last.values() if when + len(before.answer) < step]
            if early and r.random() < 0.45:  # the next turn of a session
                before = r.choice(early)
                session, prompt = before.session, [*before.tokens, *(r.randrange(9) for _ in range(r.randrange(1, 8)))]
            elif sent and r.random() < 0.25:  # the same prompt once more, perhaps at once
                prompt = list(r.choice(sent[-4:])[1].prompt)
            prompt = prompt[: longest - len(answer) - BLOCK] or [1]
            priority = r.choice([0, 0, 1, 2]) if priorities else 0
            salt = None if calm or r.random() < 0.9 else "salt"
            request = Sent(f"r{len(sent)}", prompt, answer, session, priority, salt)
            sent.append((step, request))
            turn.sent.append(request)
        if calm or not sent:
            continue
        roll = r.random()
        if roll < 0.12:
            turn.aborted = [request.name for _, request in r.sample(sent, min(len(sent), r.choice([1, 2, 12])))]
        elif roll < 0.16:
            turn.dropped = r.sample(range(1, blocks), 2)
        elif roll < 0.20:
            turn.reset, turn.reset_running = True, reset_running and r.random() < 0.5
    return Program(seed, blocks, budget=r.choice([8, 16, 64]), sequences=r.choice([3, 8]), turns=turns)
