"""Reading what a sweep is to run from a TOML file; docs/sweep.md describes every key."""

from __future__ import annotations

import itertools
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvopt.cost import blocks_in_memory, model_geometry, parse_bytes
from kvopt.errors import ConfigError
from kvopt.simulator.limits import Limits
from kvopt.simulator.replay import check_capacity
from kvopt.simulator.retention import RetentionOptions
from kvopt.simulator.server import SimulationOptions
from kvopt.simulator.step_time import DEFAULT_PROFILE, load_profile
from kvopt.simulator.sweep.cell import Cell, ServerSetup
from kvopt.simulator.sweep.spec_values import Table, numbers, seeds, texts
from kvopt.simulator.tier import TierOptions
from kvopt.workload.builtin import default_workload
from kvopt.workload.open_trace import DEFAULTS, FORMATS, read_trace

if TYPE_CHECKING:
    from kvopt.workload.base import Progress, Trace

TABLES: Mapping[str, tuple[str, ...]] = {
    "trace": ("path", "format", *DEFAULTS),
    "grid": ("policies", "capacities", "memory", "schedulers", "rates", "seeds"),
    "server": (
        "profile", "model", "kv_dtype", "token_budget", "max_sequences", "preemption", "answers", "tier", "retention",
        "exact",
        "policy_libraries",
    ),
    "clients": ("mode", "session_limit", "patience"),
}  # fmt: skip
"""The tables of a spec and their keys."""


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A grid, the server that all cells share, and the trace that they serve."""

    policies: tuple[str, ...]
    setup: ServerSetup
    capacities: tuple[int, ...] = ()
    """Blocks."""
    memory: tuple[int, ...] = ()
    """Bytes of the cache of `model`; cells hold as many blocks as fit."""
    schedulers: tuple[str, ...] = ("fifo",)
    rates: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (0,)
    """0: the arrivals of the trace."""
    model: str | None = None
    kv_dtype: str | None = None
    trace: Path | None = None
    """None: the built-in agent workload."""
    reader: Mapping[str, Any] = field(default_factory=dict)
    """The options of `read_trace`."""

    def load_trace(self, progress: Progress | None = None) -> Trace:
        """The trace. Raises TraceError, ConfigError or OSError."""
        if self.trace is None:
            return default_workload().load(progress)
        return read_trace(self.trace, progress=progress, **self.reader)

    def blocks(self, trace: Trace) -> list[int]:
        """All capacities in blocks, in order, without repeats. Raises ConfigError where memory holds no block."""
        sizes = list(self.capacities)
        if self.memory:
            assert self.model is not None
            model = model_geometry(self.model, self.kv_dtype)
            mean = max(round(trace.block_references * trace.block_tokens / max(trace.requests, 1)), 1)
            sizes += [blocks_in_memory(size, model, trace.block_tokens, mean) for size in self.memory]
        return list(dict.fromkeys(sizes))

    def cells(self, trace: Trace) -> list[Cell]:
        """Every cell, ordered by capacity, scheduler, rate, policy and seed, each as it was listed."""
        grid = itertools.product(self.blocks(trace), self.schedulers, self.rates, self.policies, self.seeds)
        return [Cell(policy, scheduler, size, rate, seed) for size, scheduler, rate, policy, seed in grid]


def read_spec(path: str | os.PathLike[str]) -> SweepSpec:
    """Read a spec; paths in it are relative to its folder.

    Raises OSError when it cannot be read, ConfigError naming the key and what it may be for anything that is unknown,
    missing or out of range.
    """
    file = Path(path)
    try:
        document = tomllib.loads(file.read_bytes().decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from None
    for name, value in document.items():
        if name not in TABLES:
            raise ConfigError(f"{file}: no key {name!r}; there are the tables {', '.join(TABLES)}")
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {name}: {value!r} is no table")
    tables = {name: Table(str(file), name, document.get(name, {}), keys) for name, keys in TABLES.items()}
    return _spec(tables, file.absolute().parent)


def _spec(tables: Mapping[str, Table], folder: Path) -> SweepSpec:
    trace, grid, server = tables["trace"], tables["grid"], tables["server"]
    path = trace.text("path")
    if path is None and trace.given:
        raise trace.error("path", "is missing; the other keys say how to read it")
    reader: dict[str, Any] = {name: trace.like(name, default) for name, default in DEFAULTS.items()}
    reader["format"] = trace.choice("format", ("auto", *FORMATS), "auto")
    policies = grid.take("policies", texts)
    if policies is None:
        raise grid.error("policies", 'is missing; give policies, such as ["lru", "cost-aware"]')
    sizes = grid.take("capacities", lambda value: numbers(value, _blocks)) or ()
    memory = grid.take("memory", lambda value: numbers(value, _bytes)) or ()
    if not sizes and not memory:
        raise grid.error("capacities", 'is missing; give blocks, such as [10000, "30k"], or memory of a model')
    model = server.text("model")
    if memory and model is None:
        raise server.error("model", "is missing; grid.memory is the KV cache of a model")
    kv_dtype = server.text("kv_dtype")
    if model is not None:
        model = _file(folder, model, (".json",))
        server.checked("model", lambda: model_geometry(model, kv_dtype))
    elif kv_dtype is not None:
        raise server.error("kv_dtype", "is of no use without model")
    return SweepSpec(
        policies=tuple(_with_class(folder, each) for each in policies),
        setup=_setup(server, tables["clients"], folder),
        capacities=sizes,
        memory=memory,
        schedulers=tuple(_with_class(folder, each) for each in grid.take("schedulers", texts) or ("fifo",)),
        rates=grid.take("rates", lambda value: numbers(value, _rate)) or (1.0,),
        seeds=grid.take("seeds", seeds) or (0,),
        model=model,
        kv_dtype=kv_dtype,
        trace=None if path is None else folder / path,
        reader=reader,
    )


def _setup(server: Table, clients: Table, folder: Path) -> ServerSetup:
    defaults = Limits()
    budget = server.like("token_budget", defaults.token_budget)
    most = server.like("max_sequences", min(defaults.max_sequences, budget))
    tier = server.text("tier")
    retention = server.text("retention")
    profile = _file(folder, server.text("profile") or DEFAULT_PROFILE, (".json",))
    libraries = server.take("policy_libraries", texts) or ()
    limits = server.checked("", lambda: Limits(budget, most))
    options = server.checked(
        "",
        lambda: SimulationOptions(
            limits=limits,
            preemption=server.text("preemption") or "auto",
            answers=server.text("answers") or "reused",
            exact=server.like("exact", True),
            tier=None if tier is None else TierOptions.parse(tier),
            retention=None if retention is None else RetentionOptions.parse(retention),
        ),
    )
    times = server.checked("profile", lambda: load_profile(profile))
    return clients.checked(
        "",
        lambda: ServerSetup(
            profile=times,
            mode=clients.choice("mode", ("closed", "open"), "closed"),
            session_limit=clients.take("session_limit", lambda value: value),
            patience=clients.take("patience", lambda value: value),
            options=options,
            libraries=tuple(_file(folder, each, (".so", ".dylib")) for each in libraries),
        ),
    )


def _file(folder: Path, text: str, suffixes: tuple[str, ...]) -> str:
    return str(folder / text) if text.endswith(suffixes) else text


def _with_class(folder: Path, spec: str) -> str:
    file, _, name = spec.rpartition(":")
    return f"{folder / file}:{name}" if file.endswith(".py") else spec


_COUNT: Mapping[str, int] = {"k": 1000, "m": 1_000_000}


def _blocks(value: object) -> int:
    if isinstance(value, str):
        scale = _COUNT.get(value[-1:].lower(), 1)
        digits = value[:-1] if scale > 1 else value
        try:
            blocks = float(digits) * scale
        except ValueError:
            blocks = math.nan
        if not blocks.is_integer():
            raise ConfigError(f'{value!r} is not a whole number of blocks, such as 30000, "30k" or "1.5m"')
        value = int(blocks)
    if not isinstance(value, int):
        raise ConfigError(f'{value!r} is not a whole number of blocks, such as 30000, "30k" or "1.5m"')
    return check_capacity(value)


def _bytes(value: object) -> int:
    if not isinstance(value, str):
        raise ConfigError(f'{value!r} is no size such as "40GiB"')
    return parse_bytes(value)


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigError(f"{value!r} is not a finite number above 0")
    return float(value)
