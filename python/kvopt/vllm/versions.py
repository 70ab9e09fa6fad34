"""Which vLLM this release knows, and whether the installed one has everything that is hooked."""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OLDEST = (0, 30)
NEWEST = (0, 33)
SUPPORTED = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"

HOOKS = "kvopt_hooks"
"""The name by which modules of a patched vLLM know their hooks (`kvopt vllm patch`)."""

HOOKED: dict[str, tuple[str, ...]] = {
    "vllm.config": ("SchedulerConfig.get_scheduler_cls", "VllmConfig"),
    "vllm.v1.core.sched.scheduler": (
        "Scheduler.schedule",
        "Scheduler.add_request",
        "Scheduler.finish_requests",
        "Scheduler._free_request",
        "Scheduler._free_blocks",
        "Scheduler._preempt_request",
        "Scheduler.update_from_output",
        "Scheduler.reset_prefix_cache",
        "Scheduler.shutdown",
    ),
    "vllm.v1.core.sched.async_scheduler": ("AsyncScheduler",),
    "vllm.v1.core.sched.request_queue": ("RequestQueue", "FCFSRequestQueue", "PriorityRequestQueue"),
    "vllm.v1.core.kv_cache_manager": ("KVCacheManager.get_computed_blocks", "KVCacheManager.free"),
    "vllm.v1.core.block_pool": ("BlockPool.get_new_blocks", "BlockPool.touch", "BlockPool.cache_full_blocks"),
    "vllm.v1.request": ("Request", "RequestStatus"),
}
"""Names that the mixin overrides or calls, by module."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """What was found: the version as vLLM gives it, and why it cannot be used (empty: it can)."""

    version: str
    problems: tuple[str, ...]

    @property
    def supported(self) -> bool:
        """Whether KVopt can hook this vLLM."""
        return not self.problems


def parse_version(version: str) -> tuple[int, int] | None:
    """Major and minor of a version such as "0.32.0+cpu"; None for what is none (a development build says "dev")."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def check_version(version: str) -> str | None:
    """Why this version is not supported, or None."""
    parsed = parse_version(version)
    if parsed is None:
        return f"vLLM's version {version!r} is none that KVopt knows; it supports {SUPPORTED}"
    if not OLDEST <= parsed <= NEWEST:
        return f"vLLM {version} is not supported; this KVopt supports {SUPPORTED}"
    return None


def check_names(hooked: dict[str, tuple[str, ...]] | None = None) -> list[str]:
    """What of the hooked names is missing, as ``module.name``."""
    missing = []
    for module, names in (HOOKED if hooked is None else hooked).items():
        try:
            found: Any = importlib.import_module(module)
        except ImportError:
            missing.append(module)
            continue
        for name in names:
            value = found
            for part in name.split("."):
                value = getattr(value, part, None)
            if value is None:
                missing.append(f"{module}.{name}")
    return missing


def is_patched() -> bool:
    """Whether the vLLM of this environment asks KVopt by itself. Imports nothing of it."""
    spec = importlib.util.find_spec("vllm")
    for folder in (spec and spec.submodule_search_locations) or ():
        try:
            return HOOKS.encode() in Path(folder, "v1", "engine", "core.py").read_bytes()
        except OSError:
            continue
    return False


def check_vllm() -> Compatibility:
    """Whether the vLLM of this process can be hooked. Imports its scheduler."""
    import vllm

    version = str(getattr(vllm, "__version__", "unknown"))
    problem = check_version(version)
    if problem is not None:
        return Compatibility(version, (problem,))
    missing = check_names()
    return Compatibility(version, (f"vLLM {version} lacks {', '.join(missing)}",) if missing else ())
