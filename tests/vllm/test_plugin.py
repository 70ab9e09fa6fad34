"""Switching on: inert without a configuration, errors at the start, one mixin over every scheduler class."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from engines import Engine, engine_config
from kvopt.errors import ConfigError
from kvopt.vllm import plugin, scheduler, versions

VIRTUAL = {"time": "virtual"}


def test_entry_point_is_installed() -> None:
    found = [point for point in entry_points(group="vllm.general_plugins") if point.name == "kvopt"]
    assert [point.value for point in found] == ["kvopt.vllm.plugin:register"]


def test_register_again_changes_nothing() -> None:
    from vllm.config import SchedulerConfig

    plugin.register()
    before = SchedulerConfig.get_scheduler_cls
    plugin.register()
    assert SchedulerConfig.get_scheduler_cls is before


def test_without_configuration_the_scheduler_is_vllms_own(engine: Callable[..., Any]) -> None:
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.sched.scheduler import Scheduler

    server = engine()
    assert type(server.scheduler) is Scheduler
    assert type(server.scheduler.kv_cache_manager.block_pool) is BlockPool
    assert not vars(server.scheduler.kv_cache_manager).get("get_computed_blocks")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_sync_and_async_schedulers_are_carried(engine: Callable[..., Any], asynchronous: bool, log: list[str]) -> None:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    server = engine(
        kvopt={"record_limit": "9MB", "pool": "off", "simulation": {**VIRTUAL, "asynchronous": asynchronous}}
    )
    assert isinstance(server.scheduler, scheduler.KVoptMixin)
    assert isinstance(server.scheduler, AsyncScheduler) is asynchronous
    (line,) = [line for line in log if "active" in line]
    assert "pool=off, record_limit=9000000" in line
    assert "from kvopt" in line


def test_named_scheduler_class_needs_no_configuration(engine: Callable[..., Any]) -> None:
    server = engine(scheduler_cls="kvopt.vllm.Scheduler")
    assert type(server.scheduler).__name__ == "KVoptScheduler"
    assert server.scheduler.kvopt.config.source == "--scheduler-cls"
    server.add("a", range(10, 90), max_tokens=3)
    server.run()
    assert len(server.outputs["a"]) == 3


def test_a_users_own_class_is_carried(engine: Callable[..., Any]) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    class Own(Scheduler):  # type: ignore[misc]
        calls = 0

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            Own.calls += 1
            return super().schedule(*args, **kwargs)

    server = engine(kvopt={"pool": "off", "simulation": VIRTUAL}, scheduler_cls=Own)
    assert type(server.scheduler).__name__ == "KVoptOwn"
    server.add("a", range(10, 90), max_tokens=3)
    server.run()
    assert Own.calls >= 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"polcy": "lru"}, "unknown option 'polcy': did you mean 'policy'?"),
        ({"policy": "lrru"}, "lru"),
        ({"policy": "min"}, "needs to know the future"),
        ({"pool": "nativ"}, "did you mean 'native'? there are native, vllm, off"),
        ({"simulation": {"tme": "real"}}, "kvopt.simulation: unknown option 'tme'"),
        ({"record": "nowhere/trace.parquet", "pool": "off"}, "there is no folder"),
    ],
)
def test_bad_options_are_errors_at_the_start(tiny_model: Path, options: dict[str, Any], said: str) -> None:
    make = Engine if "record" in options else engine_config  # the folder is looked at where the engine runs
    with pytest.raises(ConfigError, match=re.escape(said)):
        make(tiny_model, kvopt=options)


def test_environment_asks_too(engine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "kvopt.toml"
    file.write_text('[kvopt]\npolicy = "slru"\npool = "off"\n')
    monkeypatch.setenv("KVOPT_CONFIG", str(file))
    assert engine().scheduler.kvopt.config.policy == "slru"
    monkeypatch.setenv("KVOPT_CONFIG", json.dumps({"policy": "fifo", "pol": 1}))
    with pytest.raises(ConfigError, match="KVOPT_CONFIG: unknown option 'pol'"):
        plugin.register()


@pytest.mark.parametrize("broken", ["version", "name"])
def test_an_unknown_vllm_runs_untouched(
    engine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, log: list[str], broken: str
) -> None:
    import vllm
    from vllm.v1.core.sched.scheduler import Scheduler

    if broken == "version":
        monkeypatch.setattr(vllm, "__version__", "0.99.1")
        said = "vLLM 0.99.1 is not supported; this KVopt supports 0.30 to 0.33"
    else:
        monkeypatch.setitem(versions.HOOKED, "vllm.v1.core.sched.scheduler", ("Scheduler.gone",))
        said = "lacks vllm.v1.core.sched.scheduler.Scheduler.gone"
    server = engine(kvopt={"policy": "lru", "simulation": VIRTUAL})
    assert type(server.scheduler) is Scheduler
    warnings = [line for line in log if "off" in line]
    assert len(warnings) == 1
    assert said in warnings[0]
    with pytest.raises(ConfigError, match="strict"):
        engine(kvopt={"policy": "lru", "strict": True, "simulation": VIRTUAL})
