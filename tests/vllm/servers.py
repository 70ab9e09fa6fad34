"""A vLLM server in processes of its own, over HTTP on the loopback."""

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
from pathlib import Path
from typing import Any

from kvopt.vllm.publisher import FOLDER

SECONDS_TO_START = 400


class Server:
    """A vLLM server in processes of its own."""

    def __init__(
        self, model: Path, folder: Path, options: dict[str, Any] | None, arguments: dict[str, str] | None = None
    ) -> None:
        """Start it, with KVopt's options, or vLLM alone for None; `arguments` go over those below."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.log = folder / "server.log"
        given = {
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
        } | (arguments or {})
        if options is not None:
            given["additional-config"] = json.dumps({"kvopt": options})
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
        command += [f"--{name}={value}" if value else f"--{name}" for name, value in given.items()]
        # Not this process's own folder of metrics, which an engine in it may have named.
        environment = {name: value for name, value in os.environ.items() if name != FOLDER}
        environment |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_LOGGING_LEVEL": "INFO"}
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


def until(what: Any, wanted: Any, seconds: float = 15.0) -> Any:
    """What `what()` gives once it is `wanted`, or at last."""
    deadline = time.monotonic() + seconds
    while (found := what()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found
