"""`kvopt vllm doctor` where vLLM is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvopt.cli.main import main
from kvopt.vllm import versions
from kvopt.vllm.doctor import PROBLEM, examine


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVOPT_CONFIG", raising=False)
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)


def found(options: dict[str, Any] | None = None) -> dict[str, tuple[str, str]]:
    environment = None if options is None else {"KVOPT_CONFIG": json.dumps(options)}
    return {finding.subject: (finding.state, finding.found) for finding in examine(environment)}


def test_all_is_well_without_a_pool(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    config = json.dumps({"pool": "off", "record": str(tmp_path / "trace.parquet")})
    result = CliRunner().invoke(main, ["vllm", "doctor", "--config", config, "--json", str(file)])
    assert result.exit_code == 0, result.output
    entries = {entry["subject"]: entry for entry in json.loads(file.read_text())}
    assert entries["configuration"]["found"].startswith("from --config: pool=off, record=")
    states = {subject: entry["state"] for subject, entry in entries.items()}
    assert PROBLEM not in states.values()
    assert states["vLLM"] == states["hooks"] == states["plugin"] == states["recording"] == "ok"


def test_retention_asks_for_the_servers_own_costs() -> None:
    assert found({})["retention"] == ("note", "off")
    state, said = found({"retention": "index"})["retention"]
    assert state == "note"
    assert "set prefill" in said
    given = found({"retention": "index", "prefill": {"k0": 5, "k1": 0.1}})
    assert given["retention"] == ("ok", "index, waiting order returning")
    assert given["configuration"][1].endswith("waiting=returning")


def test_a_learned_state_is_tried(tmp_path: Path) -> None:
    from kvopt import _core

    file = tmp_path / "learned"
    asked = {"policy": "cost-aware", "policy_state": str(file)}
    assert found({"policy": "cost-aware"})["learned state"] == ("note", "not kept")
    assert found(asked)["learned state"] == ("ok", f"{file}, new")
    state = _core.BlockPool(100, "cost-aware").save_state()
    file.write_bytes(state)
    assert found(asked)["learned state"] == ("ok", f"{file}, taken")
    assert "guard=1" in found(asked | {"policy": "cost-aware:guard=0"})["learned state"][1]
    file.write_bytes(state[:-1])
    state_of_it, said = found(asked)["learned state"]
    assert state_of_it == PROBLEM
    assert "truncated" in said


def test_what_would_fall_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import vllm

    assert found()["configuration"] == (
        "note",
        "nobody asks: vLLM runs untouched; set KVOPT_CONFIG or --additional-config",
    )
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    assert found()["plugin"][0] == PROBLEM
    assert "no folder" in found({"record": str(tmp_path / "gone" / "trace.parquet")})["recording"][1]
    monkeypatch.setitem(versions.HOOKED, "vllm.v1.request", ("Request.gone",))
    assert "lacks vllm.v1.request.Request.gone" in found()["hooks"][1]
    monkeypatch.setattr(vllm, "__version__", "0.12.0")
    assert "0.12.0 is not supported" in found()["vLLM"][1]
