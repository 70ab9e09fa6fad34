"""One server end to end over HTTP on the loopback: sessions, metrics, a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvopt.workload import read_trace
from servers import Server, until
from vllm_copies import PATCH

pytestmark = pytest.mark.slow

# With no time to end in, vLLM kills the engine before it can write anything.
ARGUMENTS = {"distributed-executor-backend": "kvopt.vllm.SimulatedExecutor", "shutdown-timeout": "30"}


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
                "policy_state": str(folder / "learned.bin"),
                "prefill": {"k1": 0.01},
                "simulation": {"time": "real", "speed": 100.0},
            }
            with pytest.MonkeyPatch.context() as patch:
                for variable, value in environment.items():
                    patch.setenv(variable, value)
                made[name] = Server(tiny_model, folder, options, ARGUMENTS)
        yield made
    finally:
        for server in made.values():
            server.stop()


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
    assert (server.log.parent / "learned.bin").stat().st_size > 100
    assert trace.requests == 3
    assert trace.session.tolist() == [0, 0, 1]
    assert trace.tool_names == ("bash",)
