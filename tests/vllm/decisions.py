"""What engines decide, block for block; as a program, in a patched vLLM: ``python decisions.py MODEL OUT.json``."""

from __future__ import annotations

import functools
import itertools
import json
import logging
import os
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engines import Engine, engine_config
from kvopt.errors import ConfigError
from kvopt.vllm import plugin, pools, runtime
from kvopt.vllm.doctor import examine
from test_pools import workload

OPTIONS: dict[str, dict[str, Any]] = {
    "lru": {"policy": "lru"},
    "lru, asynchronous": {"policy": "lru", "simulation": {"asynchronous": True}},
    "cost-aware": {"policy": "cost-aware", "retention": "index", "waiting": "sessions"},
    "vLLM's pool": {"policy": "s3-fifo", "pool": "vllm"},
}


@contextmanager
def counting_clock() -> Iterator[None]:
    """Let pools and hooks read a clock that goes on by a millisecond a look, so that two runs agree."""
    looks = itertools.count()

    def clock() -> float:
        return next(looks) / 1000

    settings, hooks = pools.PoolSettings, runtime.Hooks
    pools.PoolSettings = functools.partial(settings, clock=clock)  # type: ignore[misc, assignment]
    runtime.Hooks = functools.partial(hooks, clock=clock)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        pools.PoolSettings, runtime.Hooks = settings, hooks  # type: ignore[misc]


def decide(model: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Every block handed out, the answers, what was counted, and what the engine was built of."""
    with counting_clock():
        simulation = {"time": "virtual", **options.get("simulation", {})}
        server = Engine(model, kvopt={**options, "simulation": simulation}, blocks=40)
        manager = server.scheduler.kv_cache_manager
        allocate = manager.allocate_slots
        taken: list[Any] = []

        def watched(request: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = allocate(request, *args, **kwargs)
            taken.append([request.request_id, blocks and blocks.get_block_ids()])
            return blocks

        manager.allocate_slots = watched
        answers = workload(server)
        snapshot = server.scheduler.kvopt.metrics.snapshot()
        built = [type(part).__name__ for part in (server.scheduler, manager.block_pool)]
        built.append(server.core.request_block_hasher.__module__)
        server.shutdown()
    values = {name: value for name, value in snapshot["values"].items() if name != "decision_seconds"}
    found = {"blocks": taken, "answers": answers, "values": values, "built": built, "info": snapshot["info"]}
    read: dict[str, Any] = json.loads(json.dumps(found))
    return read


class Sealed(types.ModuleType):
    """A module whose names nobody may swap."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "freeze_gc_heap":  # which engines.py swaps
            raise AssertionError(f"{self.__name__}.{name} was swapped")
        super().__setattr__(name, value)


def seal(*names: str) -> None:
    for name in names:
        sys.modules[name].__class__ = Sealed


def check_plugin_stands_back(model: Path) -> list[str]:
    """What KVopt logs while engines are configured and the plugin is on too, however often it is loaded."""
    from vllm.config import SchedulerConfig
    from vllm.engine.arg_utils import EngineArgs

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    plugin.logger.addHandler(handler)
    plugin.logger.setLevel(logging.INFO)
    before = SchedulerConfig.get_scheduler_cls, EngineArgs.create_engine_config
    plugin.register()
    plugin.register()
    for _ in range(2):
        engine_config(model, kvopt={})
    assert (SchedulerConfig.get_scheduler_cls, EngineArgs.create_engine_config) == before
    plugin.logger.removeHandler(handler)
    return lines


def check_vllm_alone(model: Path) -> None:
    """Nobody asks for KVopt: everything is vLLM's own."""
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.sched.scheduler import Scheduler

    server = Engine(model)
    assert type(server.scheduler) is Scheduler
    assert type(server.scheduler.kv_cache_manager.block_pool) is BlockPool
    assert server.core.request_block_hasher.__module__ == "vllm.v1.core.kv_cache_utils"
    server.shutdown()


def said_of_bad_option(model: Path) -> str:
    try:
        engine_config(model, kvopt={"polcy": "lru"})
    except ConfigError as error:
        return str(error)
    return ""


def several_api_servers() -> bool:
    """Whether the registry that one of several API servers makes holds the engines' snapshots."""
    from vllm.v1.metrics.prometheus import get_prometheus_registry

    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        registry = get_prometheus_registry()
    return any(type(known).__name__ == "SnapshotCollector" for known in registry._collector_to_names)


if __name__ == "__main__":
    model, out = Path(sys.argv[1]), Path(sys.argv[2])
    import vllm.v1.engine.core
    import vllm.v1.metrics.prometheus

    core = ("kv_cache_coordinator", "kv_cache_manager", "kv_cache_utils", "block_pool")
    seal("vllm.v1.engine.core", "vllm.v1.metrics.prometheus", *(f"vllm.v1.core.{name}" for name in core))
    check_vllm_alone(model)
    found = {
        "vllm": vllm.__file__,
        "plugin": check_plugin_stands_back(model),
        "bad option": said_of_bad_option(model),
        "decisions": {name: decide(model, options) for name, options in OPTIONS.items()},
        "doctor": {finding.subject: finding.state for finding in examine({"KVOPT_CONFIG": "{}"})},
        "several API servers": several_api_servers(),
    }
    out.write_text(json.dumps(found))
