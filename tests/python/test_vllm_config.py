"""The configuration record: every option checked, unknown ones refused, where it is read from."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvopt.errors import ConfigError
from kvopt.vllm import Config, parse_config, read_config
from kvopt.vllm.config import Simulation
from kvopt.vllm.metrics import METRICS


def test_defaults() -> None:
    config = parse_config({})
    assert config == Config(source="kvopt")
    assert (config.policy, config.pool, config.retention, config.strict) == ("cost-aware", "native", "off", False)
    assert config.describe() == "policy=cost-aware, pool=native"


def test_every_option_is_taken() -> None:
    given: dict[str, Any] = {
        "policy": "cost-aware",
        "policy_state": "learned.bin",
        "policy_state_minutes": 2,
        "pool": "vllm",
        "hashing": "vllm",
        "retention": "fixed",
        "retention_ttl": 2.5,
        "lease_share": 0.1,
        "waiting": "sessions",
        "hints": False,
        "record": "trace.parquet",
        "record_limit": "10MiB",
        "metrics": False,
        "strict": True,
        "tool_call_token_ids": [3, 4],
        "prefill": {"k0": 1, "k1": 0.5},
        "simulation": {"time": "virtual", "memory": "1GB", "token": 7},
    }
    config = parse_config(given)
    assert config.record_limit == 10 << 20
    assert config.tool_call_token_ids == (3, 4)
    assert config.prefill is not None
    assert (config.prefill.k0, config.prefill.k1, config.prefill.k3) == (1.0, 0.5, 0.0)
    assert (config.simulation.time, config.simulation.memory, config.simulation.token) == ("virtual", 10**9, 7)
    assert math.isnan(Config().retention_ttl)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"polcy": "lru"}, r"kvopt: unknown option 'polcy': did you mean 'policy'\? there are policy, pool, "),
        ({"zz": 1}, "unknown option 'zz': there are policy"),
        ({"policy": "costaware"}, "kvopt.policy: .*cost-aware"),
        ({"policy": "costaware"}, "^(?!.*Known:)(?!.*min-bypass)"),
        ({"policy": "lru", "policy_state": "x"}, "kvopt.policy_state: 'lru' learns nothing.* cost-aware"),
        ({"pool": "off", "policy_state": "x"}, "kvopt.policy_state: there is nothing to keep without a pool"),
        ({"policy_state": 3}, "kvopt.policy_state: 3"),
        ({"policy_state_minutes": 0}, "kvopt.policy_state_minutes: 0"),
        ({"policy": "min"}, "needs to know the future"),
        ({"policy": ""}, "is not a text"),
        ({"pool": "none"}, "kvopt.pool: 'none' is not a choice: there are native, vllm, off"),
        ({"lease_share": 0.9}, "kvopt.lease_share: 0.9 is not a finite number from 0 to 0.8"),
        ({"lease_share": math.nan}, "not a finite number"),
        ({"strict": 1}, "kvopt.strict: 1 is neither true nor false"),
        ({"record_limit": "much"}, "no number of bytes"),
        ({"record_limit": 0}, "no number of bytes"),
        ({"tool_call_token_ids": [-1]}, r"kvopt.tool_call_token_ids\[0\]: -1 is not a whole number"),
        ({"tool_call_token_ids": "none"}, "neither 'auto' nor a list"),
        ({"prefill": {"k1": 0}}, "kvopt.prefill: k1: .* must be above 0"),
        ({"prefill": "prebel"}, "kvopt.prefill: .*preble"),
        ({"prefill": {"model": "llama-3.1-8b", "chip": "h1000"}}, "kvopt.prefill: .*h100"),
        ({"prefill": {"model": "llama-3.1-8b"}}, "kvopt.prefill: a model needs a chip"),
        ({"record": "trace.csv"}, r"kvopt.record: 'trace.csv': .* name a file \*.parquet"),
        ({"prefill": {"k4": 0}}, "unknown option 'k4'"),
        ({"simulation": {"memroy": 1}}, r"kvopt.simulation: unknown option 'memroy': did you mean 'memory'\?"),
        ({"simulation": []}, "kvopt.simulation: .* is not a table"),
        ({"retention": "fixed"}, "'fixed' needs retention_ttl"),
        ({"retention_ttl": 3}, "only retention 'fixed' takes it"),
        ({"retention": "index", "pool": "off"}, "needs a pool"),
    ],
)
def test_what_may_not_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(options)


def test_the_page_on_vllm_tells_every_option_and_metric() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "vllm.md").read_text(encoding="utf-8")
    options = [option.name for record in (Config, Simulation) for option in fields(record) if option.name != "source"]
    assert [name for name in options if f"| `{name}` |" not in page] == []
    assert [name for name in METRICS if not re.search(rf"`kvopt:{name}(_total)?[`{{]", page)] == []


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    dashboard = json.loads((Path(__file__).resolve().parents[2] / "dashboards" / "grafana.json").read_text("utf-8"))
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    suffix = {"counter": "_total", "gauge": "", "histogram": "_bucket"}
    there = {f"kvopt:{name}{suffix[metric.kind]}" for name, metric in METRICS.items()}
    assert set(re.findall(r"kvopt:\w+", asked)) == there
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_nobody_asks() -> None:
    assert read_config(SimpleNamespace(additional_config={}), {}) is None
    assert read_config(SimpleNamespace(additional_config={"other": 1}), {"KVOPT_CONFIG": ""}) is None
    assert read_config(None, {}) is None


def test_additional_config_comes_first() -> None:
    asked = SimpleNamespace(additional_config={"kvopt": {"policy": "lru"}})
    config = read_config(asked, {"KVOPT_CONFIG": '{"policy": "fifo"}'})
    assert config is not None
    assert config.policy == "lru"


def test_environment_as_text_and_files(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text('[kvopt]\npolicy = "fifo"\n[kvopt.simulation]\ntime = "virtual"\n')
    bare = tmp_path / "b.toml"
    bare.write_text('policy = "slru"\n')
    json = tmp_path / "c.json"
    json.write_text('{"policy": "lfu"}')
    found = [
        read_config(None, {"KVOPT_CONFIG": given})
        for given in ('{"policy": "lru"}', '{"kvopt": {"policy": "arc"}}', str(toml), str(bare), str(json))
    ]
    assert [config and config.policy for config in found] == ["lru", "arc", "fifo", "slru", "lfu"]


@pytest.mark.parametrize("given", ["nowhere.toml", "{", "[]", '{"policy": 3}'])
def test_bad_environment(given: str) -> None:
    with pytest.raises(ConfigError, match="KVOPT_CONFIG"):
        read_config(None, {"KVOPT_CONFIG": given})


def test_bad_toml(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("policy = ")
    with pytest.raises(ConfigError, match="KVOPT_CONFIG"):
        read_config(None, {"KVOPT_CONFIG": str(file)})


@pytest.mark.parametrize(
    ("options", "order", "ageing"),
    [
        ({}, "vllm", 0.0),
        ({"retention": "index"}, "returning", 1.0),
        ({"retention": "index", "waiting": "vllm"}, "vllm", 0.0),
        ({"retention": "index", "waiting": "sessions"}, "sessions", 0.0),
        ({"waiting": "returning"}, "returning", 1.0),
    ],
)
def test_retention_brings_its_waiting_order_unless_told_otherwise(
    options: dict[str, object], order: str, ageing: float
) -> None:
    config = parse_config(options)
    assert (config.order, config.ageing) == (order, ageing)
    assert (f"waiting={order}" in config.describe()) == (order != "vllm")
