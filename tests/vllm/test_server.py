"""One server end to end over HTTP on the loopback: sessions, metrics, a trace."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvopt.workload import read_trace
from vllm_copies import PATCH

pytestmark = pytest.mark.slow

SECONDS_TO_START = 400


class Server:
    """A vLLM server in processes of its own."""

    def __init__(self, model: Path, folder: Path, options: dict[str, Any]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.log = folder / "server.log"
        arguments = {
            "model": str(model),
            "served-model-name": "tiny",
            "host": "127.0.0.1",
            "port": str(self.port),
            "load-format": "dummy",
            "dtype": "float32",
            "block-size": "32",
            "num-gpu-blocks-override": "128",
            "kv-cache-memory-bytes": str(1 << 28),
            "max-model-len": "2048",
            "max-num-seqs": "8",
            "additional-config": json.dumps({"kvopt": options}),
            "distributed-executor-backend": "kvopt.vllm.SimulatedExecutor",
        }
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
        command += [f"--{name}={value}" for name, value in arguments.items()]
        environment = os.environ | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_LOGGING_LEVEL": "INFO"}
        self._out = self.log.open("w")
        self.process = subprocess.Popen(command, stdout=self._out, stderr=subprocess.STDOUT, env=environment)

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"the server does not answer:\n{self.log.read_text()[-4000:]}")

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        return self._ask("GET", path)

    def chat(self, content: str, **fields: Any) -> dict[str, Any]:
        """The answer to one user's message."""
        body = {"model": "tiny", "messages": [{"role": "user", "content": content}], "temperature": 0.0} | fields
        status, text = self._ask("POST", "/v1/chat/completions", json.dumps(body))
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels."""
        page = self.get("/metrics")[1]
        found = [line for line in page.splitlines() if re.match(rf"{re.escape(name)}(\{{|\s)", line)]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in found
            if all(f'{label}="{value}"' in line for label, value in labels.items())
        )

    def stop(self) -> None:
        """End it in order, then for good."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)
        self._out.close()

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def servers(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, Server]]:
    """One with KVopt by the plugin, one with it patched in and without plugins; together, as starting takes long."""
    made: dict[str, Server] = {}
    try:
        for name in ["plugin"] if PATCH is None else ["plugin", "patched"]:
            environment = request.getfixturevalue("patched_vllm") if name == "patched" else {}
            folder = tmp_path_factory.mktemp(name)
            options = {
                "record": str(folder / "trace.parquet"),
                "prefill": {"k1": 0.01},
                "simulation": {"time": "real", "speed": 100.0},
            }
            with pytest.MonkeyPatch.context() as patch:
                for variable, value in environment.items():
                    patch.setenv(variable, value)
                made[name] = Server(tiny_model, folder, options)
        yield made
    finally:
        for server in made.values():
            server.stop()


def until(what: Any, wanted: Any, seconds: float = 15.0) -> Any:
    """What `what()` gives once it is `wanted`, or at last."""
    deadline = time.monotonic() + seconds
    while (found := what()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


@pytest.mark.parametrize(
    "hooks",
    [
        "plugin",
        pytest.param("patched", marks=pytest.mark.skipif(PATCH is None, reason="there is no patch for this vLLM")),
    ],
)
def test_sessions_metrics_and_a_trace(servers: dict[str, Server], hooks: str) -> None:
    server = servers[hooks]
    server.wait()
    long = "the agent calls a tool and reads its answer " * 12
    xargs = {"kvopt_session_id": "agent-1", "kvopt_tool": "bash"}
    first = server.chat(long, max_tokens=8, ignore_eos=True, vllm_xargs=xargs)
    assert first["usage"]["completion_tokens"] == 8
    second = server.chat(long + "again", max_tokens=8, ignore_eos=True, vllm_xargs=xargs)
    server.chat("a one-off chat", max_tokens=3, ignore_eos=True, vllm_xargs={"kvopt": "not json"})
    prompt_tokens = first["usage"]["prompt_tokens"] + second["usage"]["prompt_tokens"]
    assert until(lambda: server.metric("kvopt:requests_total", stop="length"), 3.0) == 3.0
    cached = first["usage"]["prompt_tokens"] // 32 * 32
    assert server.metric("kvopt:hit_tokens_total") == server.metric("vllm:prefix_cache_hits_total") == cached > 0
    assert server.metric("kvopt:prompt_tokens_total") > prompt_tokens
    assert server.metric("kvopt:saved_prefill_seconds_total") == pytest.approx(cached * 0.01 / 1000)
    assert server.metric("kvopt:hint_errors_total") == 1.0
    assert server.metric("kvopt:observer_errors_total") == 0.0
    assert server.metric("kvopt:info", model_name="tiny", hooks=hooks) == 1.0
    assert "KVopt is active" in server.log.read_text()
    server.stop()
    trace = read_trace(next(server.log.parent.glob("trace.parquet*")))
    assert trace.requests == 3
    assert trace.session.tolist() == [0, 0, 1]
    assert trace.tool_names == ("bash",)
