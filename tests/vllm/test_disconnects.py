"""Clients of a real server that hang up, over HTTP on the loopback: nothing stays held for those who are gone."""

from __future__ import annotations

import http.client
import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from servers import Server, until

pytestmark = pytest.mark.slow

BLOCKS = 128
SESSIONS = 8
STORM = 50
WORDS = ("the", "agent", "calls", "a", "tool", "and", "reads", "its", "answer", "before", "the", "next", "turn")


class Stream:
    """A streamed completion; the client may hang up at any time."""

    def __init__(self, server: Server, prompt: str, max_tokens: int, **record: Any) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
        body["vllm_xargs"] = {"kvopt": json.dumps(record)}
        self._connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        self._response: http.client.HTTPResponse | None = None

    def first_token(self) -> None:
        if self._response is None:
            self._response = self._connection.getresponse()
        while not self._response.readline().startswith(b"data: {"):
            pass

    def to_the_end(self) -> None:
        self.first_token()
        assert self._response is not None
        assert b"data: [DONE]" in self._response.read()
        self._connection.close()

    def hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
        self._connection.close()


def words(seed: int, count: int) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choices(WORDS, k=count))


def in_engine(server: Server) -> float:
    return server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting")


def test_a_storm_of_clients_that_hang_up(tiny_model: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "retention": "index",
        "lease_share": 0.5,
        "prefill": {"k0": 10, "k1": 0.01},
        "simulation": {"time": "real"},
    }
    arguments = {
        "distributed-executor-backend": "kvopt.vllm.SimulatedExecutor",
        "num-gpu-blocks-override": str(BLOCKS),
        "max-num-batched-tokens": "64",  # so that prefill takes many steps
    }
    server = Server(tiny_model, tmp_path, options, arguments)
    try:
        server.wait()
        # Sessions end their first turn while others wait for blocks, so that leases are worth their price.
        turns = [Stream(server, words(number, 150), 2, session_id=f"s{number}", ttl=1000) for number in range(SESSIONS)]
        crowd = [Stream(server, words(100 + number, 900), 8, last_turn=True) for number in range(12)]
        readers = [threading.Thread(target=stream.to_the_end) for stream in [*turns, *crowd]]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        ended = SESSIONS + 12
        assert until(lambda: server.metric("kvopt:requests_total", stop="length"), ended) == ended
        assert server.metric("kvopt:leased_blocks") > 0
        assert server.metric("kvopt:free_blocks") < BLOCKS - 1

        decoding = [Stream(server, words(200 + number, 20), 1000) for number in range(4)]
        for stream in decoding:
            stream.first_token()
        others = [
            Stream(server, f"{words(n, 150)} {words(300 + n, 300)}", 1000, session_id=f"s{n}") for n in range(SESSIONS)
        ]
        others += [Stream(server, words(400 + n, 400), 1000) for n in range(STORM - 4 - SESSIONS)]
        assert until(lambda: in_engine(server), STORM) == STORM  # most wait; those that run are at their prompts
        for stream in [*decoding, *others]:
            stream.hang_up()

        assert until(lambda: server.metric("kvopt:requests_total", stop="abort"), STORM) == STORM
        assert until(lambda: in_engine(server), 0.0) == 0.0
        assert until(lambda: server.metric("kvopt:free_blocks"), BLOCKS - 1.0) == BLOCKS - 1
        assert server.metric("kvopt:leased_blocks") == 0.0
        assert server.metric("kvopt:requests_total", stop="length") == ended
        assert server.metric("kvopt:observer_errors_total") == 0.0
        answer = server.chat("after the storm", max_tokens=4, ignore_eos=True)
        assert answer["usage"]["completion_tokens"] == 4
    finally:
        server.stop()
