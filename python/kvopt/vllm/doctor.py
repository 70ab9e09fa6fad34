"""What of KVopt would run in the vLLM of this environment, and what would fall back and why; nothing is started."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvopt.errors import ConfigError, PatchError, PolicyStateError
from kvopt.vllm.config import Config, parse_text, read_config
from kvopt.vllm.patching import State, examine_patch
from kvopt.vllm.versions import check_names, check_version, is_patched

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked at, "ok", "note" or "problem", and what was found."""

    subject: str
    state: str
    found: str


def examine(environment: Mapping[str, str] | None = None, given: str | None = None) -> list[Finding]:
    """All findings for the configuration that is `given` (as ``--config``), or this environment's, or the process's.

    Imports vLLM where it is installed.
    """
    findings = [_versions(), _vllm()]
    if findings[-1].state != PROBLEM:
        findings.append(_names())
        findings.append(_patch())
        findings.append(_entry_point())
    config, finding = _config(environment, given)
    findings.append(finding)
    if config is not None:
        findings += [check(config) for check in _CHECKS]
    return findings


def _versions() -> Finding:
    import kvopt

    return Finding("kvopt", OK, f"{kvopt.__version__}, Python {platform.python_version()}, {platform.machine()}")


def _vllm() -> Finding:
    if importlib.util.find_spec("vllm") is None:
        return Finding("vLLM", PROBLEM, "not installed in this environment")
    import vllm

    version = str(getattr(vllm, "__version__", "unknown"))
    problem = check_version(version)
    if problem is not None:
        return Finding("vLLM", PROBLEM, f"{problem}; it would run untouched")
    return Finding("vLLM", OK, f"{version}, supported")


def _names() -> Finding:
    missing = check_names()
    if missing:
        return Finding("hooks", PROBLEM, f"vLLM lacks {', '.join(missing)}; it would run untouched")
    return Finding("hooks", OK, "everything that is hooked is there")


def _patch() -> Finding:
    import vllm

    try:
        found = examine_patch(os.path.dirname(vllm.__file__))
    except PatchError as error:
        return Finding("patch", NOTE, str(error))
    if found.state == State.PATCHED:
        return Finding("patch", OK, f"vLLM's own code asks KVopt, patched in {found.root}")
    if is_patched():
        found_state = found.problem() or f"partly patched; put it back: kvopt vllm patch --revert {found.root}"
        return Finding("patch", PROBLEM, found_state)
    return Finding("patch", NOTE, f"none in {found.root}: the plugin hooks vLLM as it starts")


def _entry_point() -> Finding:
    if is_patched():
        return Finding("plugin", OK, "not needed: vLLM is patched")
    found = importlib.metadata.entry_points(group="vllm.general_plugins", name="kvopt")
    if not found:
        return Finding("plugin", PROBLEM, "no entry point: install the package, a path alone does not register it")
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and "kvopt" not in allowed.split(","):
        return Finding("plugin", PROBLEM, f"VLLM_PLUGINS={allowed!r} leaves it out; add kvopt")
    return Finding("plugin", OK, "vLLM loads it in every process")


def _config(environment: Mapping[str, str] | None, given: str | None) -> tuple[Config | None, Finding]:
    try:
        config = read_config(None, environment) if given is None else parse_text(given, "--config")
    except ConfigError as error:
        return None, Finding("configuration", PROBLEM, str(error))
    if config is None:
        found = "nobody asks: vLLM runs untouched; set KVOPT_CONFIG or --additional-config"
        return None, Finding("configuration", NOTE, found)
    return config, Finding("configuration", OK, f"from {config.source}: {config.describe()}")


def _pool(config: Config) -> Finding:
    if config.pool == "off":
        return Finding("block pool", NOTE, "vLLM's own, with its own order: pool is off")
    what = "native" if config.pool == "native" else "vLLM's own, in the policy's order"
    return Finding("block pool", OK, f"{what}; an engine with a feature it does not cover keeps vLLM's and says so")


def _hashing(config: Config) -> Finding:
    if config.hashing == "vllm" or config.pool != "native":
        return Finding("block hashes", NOTE, "vLLM computes them")
    return Finding(
        "block hashes", OK, "native, equal to vLLM's byte for byte; prompts with extra keys are left to vLLM"
    )


def _retention(config: Config) -> Finding:
    if config.retention == "off":
        return Finding("retention", NOTE, "off")
    if config.prefill is None:
        why = "a loss is taken to cost 8 ms a step and 0.03 ms a token; set prefill to the server's own"
        return Finding("retention", NOTE, f"{config.retention}; {why}")
    return Finding("retention", OK, f"{config.retention}, waiting order {config.order}")


def _metrics(config: Config) -> Finding:
    if not config.metrics:
        return Finding("metrics", NOTE, "off")
    if importlib.util.find_spec("prometheus_client") is None:
        return Finding("metrics", PROBLEM, "prometheus_client is missing")
    return Finding("metrics", OK, "kvopt:* beside vLLM's on /metrics")


def _recording(config: Config) -> Finding:
    if config.record is None:
        return Finding("recording", NOTE, "off")
    from kvopt.output_file import check_output

    try:
        check_output(config.record)
    except ConfigError as error:
        return Finding("recording", PROBLEM, str(error))
    return Finding("recording", OK, f"hashes only, to {config.record}, at most {config.record_limit} bytes")


def _learned(config: Config) -> Finding:
    if config.policy_state is None:
        return Finding("learned state", NOTE, "not kept")
    if ".py:" in config.policy:
        return Finding("learned state", NOTE, f"{config.policy_state}: only a server can tell whether it is taken")
    from kvopt.vllm.learned_state import check_file

    try:
        there = check_file(config.policy_state, config.policy)
    except (PolicyStateError, OSError) as error:
        return Finding("learned state", PROBLEM, str(error))
    return Finding("learned state", OK, f"{config.policy_state}, {'taken' if there else 'new'}")


def _policy(config: Config) -> Finding:
    from kvopt.policies.python_file import load_policy

    try:
        load_policy(config.policy)
    except Exception as error:
        return Finding("policy", PROBLEM, str(error))
    return Finding("policy", OK, config.policy)


_CHECKS: tuple[Callable[[Config], Finding], ...] = (
    _policy,
    _learned,
    _pool,
    _hashing,
    _retention,
    _metrics,
    _recording,
)
