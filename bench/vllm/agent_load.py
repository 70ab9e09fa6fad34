"""The load of the two benchmarks of agents: what they ask, how long they pause, and what is printed of the answers.

Agents call a tool after each answer and return with its result after a pause, next to chats that come once. All is
drawn from seeds, so that each server is asked the same.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tiny_model import END_ID, TOOL_CALL_ID

BLOCK = 32
LONGEST = 8192  # tokens of a conversation
WORDS = range(300, 500)  # ids of tokens that prompts are made of
CHAT_TOKEN = 300
TOOL_END = TOOL_CALL_ID + 1
WEIGHT: dict[str, Any] = {"policy": "cost-aware", "hints": False}
VARIANTS: dict[str, dict[str, Any] | None] = {
    "vllm": None,
    "lru": {"policy": "lru"},
    "cost-aware": WEIGHT,
    "retention": WEIGHT | {"retention": "index"},
}
"""Options of KVopt for each server that is compared; None for vLLM alone."""
MODEL = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
PREFILL = {"k0": 10.0, "k1": 0.12, "k3": 4e-6}
"""Milliseconds that such a model takes on two busy cores, about."""


@dataclass(frozen=True)
class Load:
    """What a server is asked.

    Attributes:
        agents: how many work at once; each begins a new conversation when one ends.
        conversations: that each of them has.
        system: tokens of the prompt that all agents share.
        pause: median seconds between an answer and the tool's result; a log-normal gap with a sigma of 1.
        chats: of them a second, at random times.
        blocks: in the server's pool.
    """

    agents: int = 12
    conversations: int = 2
    system: int = 256
    pause: float = 1.0
    chats: float = 2.0
    blocks: int = 400

    @property
    def arguments(self) -> dict[str, Any]:
        """vLLM's, by their names in Python."""
        return {
            "block_size": BLOCK,
            "num_gpu_blocks_override": self.blocks,
            "max_model_len": LONGEST,
            "max_num_seqs": 16,
        }


@dataclass(frozen=True)
class Question:
    """One request, the answer that it is given, and how many of the prompt's tokens were sent or received before."""

    agent: bool
    prompt: list[int]
    answer: list[int]
    known: int


@dataclass(frozen=True)
class Answered:
    """What became of one question: tokens that were found cached, and seconds to the first token."""

    asked: Question
    cached: int
    first_token: float


def some_tokens(chance: random.Random, count: int) -> list[int]:
    """Tokens that no other prompt has in this order."""
    return chance.choices(WORDS, k=count)


def turns(load: Load, seed: int, number: int) -> Iterator[tuple[Question, float]]:
    """What one agent asks, and how long it pauses after the answer, in seconds."""
    chance = random.Random(f"agent {seed} {number}")
    system = some_tokens(random.Random("system"), load.system)
    for _ in range(load.conversations):
        context = [*system, *some_tokens(chance, chance.randint(400, 1200))]
        count, known = chance.randint(4, 14), load.system
        for turn in range(count):
            if len(context) > LONGEST - 100:
                break
            length = chance.randint(12, 32)
            answer = [CHAT_TOKEN] * length + [END_ID] if turn == count - 1 else [TOOL_CALL_ID] * length + [TOOL_END]
            yield (
                Question(True, list(context), answer, known),
                min(12.0, load.pause * chance.lognormvariate(0.0, 1.0)),
            )
            context += answer
            known = len(context)
            context += some_tokens(chance, min(600, int(chance.lognormvariate(5.2, 0.6))))


def chats(load: Load, seed: int) -> Iterator[tuple[float, Question]]:
    """Seconds until the next one-off chat, and what it asks; without end."""
    chance = random.Random(f"chats {seed}")
    while True:
        gap = chance.expovariate(load.chats)
        answer = [CHAT_TOKEN] * chance.randint(12, 32) + [END_ID]
        yield gap, Question(False, some_tokens(chance, chance.randint(200, 900)), answer, 0)


def figures(answered: Iterable[Answered]) -> dict[str, float]:
    """What is printed of one server."""
    answers = list(answered)
    agents = [one for one in answers if one.asked.agent]
    prompt, cached = sum(len(one.asked.prompt) for one in agents), sum(one.cached for one in agents)
    reusable = sum(one.asked.known // BLOCK * BLOCK for one in agents)
    result = {"requests": len(answers), "cached": cached / prompt, "of what could be": cached / reusable}
    for who, ones in ("agent", agents), ("chat", [one for one in answers if not one.asked.agent]):
        waits = sorted(one.first_token for one in ones)
        result[f"{who} mean ms"] = 1e3 * statistics.mean(waits)
        result[f"{who} median ms"] = 1e3 * statistics.median(waits)
        result[f"{who} p90 ms"] = 1e3 * waits[int(0.9 * (len(waits) - 1))]
    return result


def table(results: dict[str, list[dict[str, float]]]) -> str:
    """The means over seeds, a row a variant, and how much longer than vLLM alone agents waited in the same seeds."""
    names = [name for name in next(iter(results.values()))[0] if name != "requests"]
    lines = [f"{'':14}" + "".join(f"{name:>18}" for name in names) + f"{'wait of vllm':>18}"]
    for variant, rows in results.items():
        line = f"{variant:14}" + "".join(f"{statistics.mean(row[name] for row in rows):18.3f}" for name in names)
        if "vllm" in results:
            pairs = zip(rows, results["vllm"], strict=False)
            ratios = [row["agent mean ms"] / base["agent mean ms"] for row, base in pairs]
            line += f"{statistics.geometric_mean(ratios):18.3f}"
        lines.append(line)
    return "\n".join(lines)


def options_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that both benchmarks take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--blocks", type=int, default=Load.blocks, help="in the pool, of 32 tokens")
    parser.add_argument("--agents", type=int, default=Load.agents, help="that work at once")
    parser.add_argument("--conversations", type=int, default=Load.conversations, help="of each agent")
    return parser


def load_of(options: argparse.Namespace) -> Load:
    """The load that those options ask for."""
    return Load(agents=options.agents, blocks=options.blocks, conversations=options.conversations)
