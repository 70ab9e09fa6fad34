"""The one record that says what KVopt does inside vLLM, and where it is read from.

It comes from ``--additional-config '{"kvopt": {...}}'``, or else from the environment's ``KVOPT_CONFIG``: JSON text, or
the path of a TOML or JSON file. Without either, KVopt leaves vLLM alone.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvopt.errors import ConfigError
from kvopt.vllm.config_values import (
    byte_size,
    flag,
    number,
    one_of,
    optional,
    parquet_file,
    reject_unknown,
    table,
    text,
    token_ids,
    whole,
)

if TYPE_CHECKING:
    from kvopt.cost import PrefillCost

ENVIRONMENT = "KVOPT_CONFIG"
KEY = "kvopt"
"""The key in vLLM's additional config."""

LARGEST_LEASE_SHARE = 0.8
"""Of the pool's blocks: beyond it admissions starve."""


def _policy(name: str, value: Any) -> str:
    from kvopt import _core

    spec: str = text(name, value)
    if ".py:" in spec:
        return spec  # the file is run where the pool is made
    try:
        policy, _ = _core.parse_policy(spec)
    except ValueError as error:
        why = str(error).partition(" Known: ")[0]  # that list has policies, too, that need to know the future
        online = [info.name for info in _core.policies() if not info.offline]
        raise ConfigError(f"{name}: {why} There are {', '.join(online)}, and 'file.py:Class'") from None
    if any(info.offline for info in _core.policies() if info.name == policy):
        raise ConfigError(f"{name}: {value!r} needs to know the future; a server cannot run it")
    return spec


def _prefill(name: str, value: Any) -> PrefillCost:
    from kvopt.cost import PrefillCost, chip_cost, chip_named, model_geometry, prefill_preset

    try:
        if isinstance(value, str):
            return prefill_preset(text(name, value)).cost
        given = table(name, value)
        if "model" not in given:
            reject_unknown(name, given, ("k0", "k1", "k2", "k3", "model", "chip", "tensor_parallel"))
            return PrefillCost(**{"k0": 0.0, "k1": 0.0, "k2": 0.0, "k3": 0.0, **given}, source=name)
        reject_unknown(name, given, ("model", "chip", "tensor_parallel"))
        if "chip" not in given:
            raise ConfigError(f"{name}: a model needs a chip, such as {{'model': {given['model']!r}, 'chip': 'h100'}}")
        chip = chip_named(text(f"{name}.chip", given["chip"]))
        shards = whole(1, 1024)(f"{name}.tensor_parallel", given.get("tensor_parallel", 1))
        return chip_cost(model_geometry(text(f"{name}.model", given["model"])), chip, tensor_parallel=shards)
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(name) else f"{name}: {error}") from None


def _simulation(name: str, value: Any) -> Simulation:
    found: Simulation = _record(Simulation, name, table(name, value))
    return found


@dataclass(frozen=True, slots=True)
class Simulation:
    """What :class:`kvopt.vllm.SimulatedExecutor` does; without effect on a real one.

    Attributes:
        time: "virtual": steps take no time; "real": a step sleeps as long as the profile says.
        asynchronous: schedule a step before the answer of the last is known, as on a GPU; None leaves it to vLLM.
        memory: bytes for the KV cache, where vLLM's own options do not say.
        decode_ms: milliseconds that one more decoding request adds to a step, besides its cost as a token.
        speed: how many times faster than the profile "real" time runs.
        token: id of the token that every step answers.
    """

    time: str = field(default="real", metadata={"check": one_of("real", "virtual")})
    asynchronous: bool | None = field(default=None, metadata={"check": optional(flag)})
    memory: int = field(default=16 << 30, metadata={"check": byte_size})
    decode_ms: float = field(default=0.0, metadata={"check": number(0.0)})
    speed: float = field(default=1.0, metadata={"check": number(1e-3, 1e6)})
    token: int = field(default=100, metadata={"check": lambda name, value: int(number(0, 2**31 - 1)(name, value))})


@dataclass(frozen=True, slots=True)
class Config:
    """All options; see ``docs/vllm.md``.

    Attributes:
        policy: a policy's spec, such as "cost-aware" or "lru-k:k=2", or "path/to/file.py:ClassName".
        pool: "native" replaces vLLM's block pool, "vllm" keeps it and changes its order, "off" leaves both alone.
        hashing: "native" or "vllm": who computes block hashes.
        retention: "off", or the rule that says how long an idle session's blocks are protected.
        retention_ttl: seconds of the rule "fixed".
        lease_share: the largest share of the pool that leases may pin; 0 protects by order alone.
        waiting: who is admitted first: "vllm" keeps vLLM's order, "returning" puts sessions that come back in front of
            it, "sessions" besides orders by the session's arrival; "auto" is "returning" with retention, else "vllm".
        hints: whether client records in ``vllm_xargs`` and ``kv_hints`` are read.
        policy_state: the file that the policy's learning goes on from and is kept in; None for none.
        policy_state_minutes: how often it is written while the server runs; it is also written at the end.
        record: where a trace of the server's requests is written; None for nowhere.
        record_limit: bytes after which recording stops.
        metrics: whether ``kvopt:*`` metrics appear beside vLLM's.
        strict: whether what would fall back is an error at the start instead.
        tool_call_token_ids: ids that only a tool call's answer contains; None asks the tokenizer.
        prefill: T(q, s), of saved seconds and simulated steps; None for none.
        simulation: options of the simulated executor.
        source: where the record comes from.
    """

    policy: str = field(default="cost-aware", metadata={"check": _policy})
    pool: str = field(default="native", metadata={"check": one_of("native", "vllm", "off")})
    hashing: str = field(default="native", metadata={"check": one_of("native", "vllm")})
    retention: str = field(
        default="off", metadata={"check": one_of("off", "index", "expected-hold", "paper", "infercept", "fixed")}
    )
    retention_ttl: float = field(default=math.nan, metadata={"check": number(0.0, 1e6)})
    lease_share: float = field(default=0.5, metadata={"check": number(0.0, LARGEST_LEASE_SHARE)})
    waiting: str = field(default="auto", metadata={"check": one_of("auto", "vllm", "returning", "sessions")})
    hints: bool = field(default=True, metadata={"check": flag})
    policy_state: str | None = field(default=None, metadata={"check": optional(text)})
    policy_state_minutes: float = field(default=10.0, metadata={"check": number(0.1, 1e6)})
    record: str | None = field(default=None, metadata={"check": optional(parquet_file)})
    record_limit: int = field(default=256 << 20, metadata={"check": byte_size})
    metrics: bool = field(default=True, metadata={"check": flag})
    strict: bool = field(default=False, metadata={"check": flag})
    tool_call_token_ids: tuple[int, ...] | None = field(default=None, metadata={"check": token_ids})
    prefill: PrefillCost | None = field(default=None, metadata={"check": optional(_prefill)})
    simulation: Simulation = field(default_factory=Simulation, metadata={"check": _simulation})
    source: str = "defaults"

    @property
    def order(self) -> str:
        """The waiting order, with what "auto" stands for."""
        if self.waiting != "auto":
            return self.waiting
        return "vllm" if self.retention == "off" else "returning"

    @property
    def ageing(self) -> float:
        """Of that order; see :class:`kvopt.continuum.selection.ProgramSelection`."""
        return 1.0 if self.order == "returning" else 0.0

    def describe(self) -> str:
        """The options that are not at their default, and always policy and pool, in one line."""
        shown = [f"policy={self.policy}", f"pool={self.pool}"] if self.pool != "off" else ["pool=off"]
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name not in {"policy", "pool", "source", "simulation", "waiting"} and not _is_default(
                option, value
            ):
                shown.append(f"{option.name}={value.source if option.name == 'prefill' else value}")
        if self.order != "vllm":
            shown.append(f"waiting={self.order}")
        return ", ".join(shown)


def parse_config(options: Mapping[str, Any], source: str = KEY) -> Config:
    """The record of these options.

    Raises ConfigError (UnknownPolicyError is one) for an unknown option or a value that may not be; the message starts
    with `source`, and lists what is allowed.
    """
    config: Config = _record(Config, source, table(source, options), source=source)
    if config.retention == "fixed" and math.isnan(config.retention_ttl):
        raise ConfigError(f"{source}.retention: 'fixed' needs retention_ttl, in seconds")
    if config.retention != "fixed" and not math.isnan(config.retention_ttl):
        raise ConfigError(f"{source}.retention_ttl: only retention 'fixed' takes it, not {config.retention!r}")
    if config.retention != "off" and config.pool == "off":
        raise ConfigError(f"{source}.retention: {config.retention!r} needs a pool, 'native' or 'vllm', not 'off'")
    if config.policy_state is not None:
        from kvopt.vllm.learned_state import check_learner

        check_learner(f"{source}.policy_state", config.policy, config.pool)
    return config


def read_config(vllm_config: Any = None, environment: Mapping[str, str] | None = None) -> Config | None:
    """What `vllm_config.additional_config` asks for, or else the environment; None when nobody asks.

    Raises ConfigError as `parse_config`, and for text that is neither JSON nor the path of a readable file.
    """
    additional = getattr(vllm_config, "additional_config", None)
    if isinstance(additional, Mapping) and KEY in additional:
        return parse_config(additional[KEY])
    given = (os.environ if environment is None else environment).get(ENVIRONMENT, "").strip()
    return parse_text(given, ENVIRONMENT) if given else None


def parse_text(given: str, source: str) -> Config:
    """The record that JSON text, or a TOML or JSON file of this name, holds. Raises ConfigError as `read_config`."""
    return parse_config(_options_in(given, source), source)


def _options_in(given: str, source: str) -> Any:
    is_toml = given.endswith(".toml")
    try:
        content = given if given.startswith("{") else Path(given).read_text(encoding="utf-8")
        options = tomllib.loads(content) if is_toml else json.loads(content)
    except OSError as error:
        raise ConfigError(f"{source}: {given!r} is neither JSON nor a readable file: {error.strerror}") from error
    except ValueError as error:
        kind = "TOML" if is_toml else "JSON (a file in TOML must be called *.toml)"
        raise ConfigError(f"{source}: {given[:60]!r} is no {kind}: {error}") from error
    return options.get(KEY, options) if isinstance(options, Mapping) else options


def _record(kind: type[Any], where: str, options: Mapping[str, Any], **more: Any) -> Any:
    checks = {option.name: option.metadata["check"] for option in fields(kind) if "check" in option.metadata}
    reject_unknown(where, options, checks)
    return kind(**{key: checks[key](f"{where}.{key}", value) for key, value in options.items()}, **more)


def _is_default(option: Any, value: Any) -> bool:
    return bool(value == option.default) or (value != value and option.default != option.default)
