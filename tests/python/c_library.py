"""libkvopt.so as a foreign program has it: through ctypes, with nothing of the Python package but its path."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

import pytest

from kvopt import _core, config

SOURCES = Path(__file__).resolve().parents[2] / "python" / "kvopt"

API_VERSION = 1
NO_LIMIT = ctypes.c_size_t(-1).value

STATUS = {
    "OK": 0,
    "ConfigError": 1,
    "UnknownPolicyError": 2,
    "PolicyLibraryError": 3,
    "PoolError": 4,
    "NotEnoughBlocksError": 5,
    "StaleBlockError": 6,
    "ReferenceCountError": 7,
    "LeaseError": 8,
    "PolicyError": 9,
    "invalid handle": 10,
    "null pointer": 11,
    "version mismatch": 12,
    "PolicyStateError": 16,
}
"""The status of each class of kvopt.errors, and of what only the C interface refuses."""


class PolicyFunctions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("user", c_void_p), ("rank", c_void_p), ("destroyed", c_void_p)]


class PoolOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("policy", c_char_p),
        ("functions", POINTER(PolicyFunctions)),
        *((name, c_uint32) for name in ("capacity", "rule", "key_bytes", "lease_budget", "retention", "block_tokens")),
        ("p_star", c_double),
    ]


class EngineOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("policy", c_char_p),
        ("functions", POINTER(PolicyFunctions)),
        *((name, c_uint32) for name in ("blocks", "caching", "block_tokens", "reserved")),
        ("p_star", c_double),
    ]


class RequestInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("now", c_double),
        ("request", c_int64),
        *((name, c_int32) for name in ("session", "turn", "tool")),
        ("output_tokens", c_uint32),
        *((name, c_float) for name in ("gap", "expected_gap", "return_probability")),
        *((name, c_int32) for name in ("steps", "stop")),
        ("subagent", c_uint8),
        ("last_turn", c_uint8),
        ("reserved", c_uint8 * 2),
    ]


class FullBlocks(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("blocks", POINTER(c_uint32)),
        ("hashes", c_char_p),
        ("count", c_size_t),
        ("hash_bytes", c_size_t),
        *((name, c_uint32) for name in ("first", "before", "group", "block_tokens")),
    ]


class PoolStats(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        *((name, c_uint32) for name in ("capacity", "empty", "evictable", "referenced", "leased", "runs")),
        *((name, c_uint64) for name in ("requests", "hit_blocks", "new_blocks", "stored_blocks")),
        *((name, c_uint64) for name in ("evicted_blocks", "explicit_blocks", "cleared_blocks", "forgotten_blocks")),
        *((name, c_uint64) for name in ("leases_expired", "leases_reclaimed", "retentions_expired", "bytes")),
    ]


class EngineStats(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("blocks", c_uint32),
        ("free_blocks", c_uint32),
        *((name, c_uint64) for name in ("keys", "evictions", "bytes")),
        ("policy_failed", c_uint32),
        ("reserved", c_uint32),
    ]


INITIALISED = {
    "kvopt_pool_options_init": PoolOptions,
    "kvopt_engine_options_init": EngineOptions,
    "kvopt_request_info_init": RequestInfo,
    "kvopt_full_blocks_init": FullBlocks,
    "kvopt_policy_functions_init": PolicyFunctions,
}

# Handles are structures of one number, which cross as that number does.
_ARGUMENTS: dict[str, list[type]] = {
    "kvopt_check_version": [c_uint32],
    "kvopt_policy_check": [c_char_p],
    "kvopt_policy_names": [c_char_p, c_size_t, POINTER(c_size_t)],
    "kvopt_load_policies": [c_char_p],
    **{name: [c_void_p, c_size_t] for name in INITIALISED},
    "kvopt_pool_create": [c_uint32, POINTER(PoolOptions), POINTER(c_uint64)],
    "kvopt_pool_destroy": [c_uint64],
    "kvopt_pool_match": [c_uint64, c_void_p, c_size_t, POINTER(c_size_t)],
    "kvopt_pool_acquire": [
        *(c_uint64, c_void_p, c_size_t, c_size_t, c_size_t, c_uint32, POINTER(RequestInfo), POINTER(c_uint64)),
        POINTER(c_size_t),
    ],
    "kvopt_pool_extend": [c_uint64, c_uint64, c_size_t, c_uint32, POINTER(RequestInfo)],
    "kvopt_pool_commit": [c_uint64, c_uint64, c_void_p, c_size_t, POINTER(RequestInfo)],
    "kvopt_pool_release": [c_uint64, c_uint64, POINTER(RequestInfo)],
    "kvopt_pool_allocation": [c_uint64, c_uint64, POINTER(c_size_t), POINTER(c_size_t), POINTER(c_size_t)],
    "kvopt_pool_blocks": [c_uint64, c_uint64, POINTER(c_uint32), c_size_t],
    "kvopt_pool_lease": [c_uint64, c_uint64, c_size_t, c_double, c_double, POINTER(c_uint64)],
    "kvopt_pool_end_lease": [c_uint64, c_uint64, c_double],
    "kvopt_pool_retain": [c_uint64, c_uint64, c_size_t, c_size_t, c_uint32, c_double, c_uint32, c_double],
    "kvopt_pool_expire": [c_uint64, c_double, POINTER(c_size_t)],
    "kvopt_pool_evict": [c_uint64, c_size_t, c_double, POINTER(c_uint32)],
    "kvopt_pool_forget": [c_uint64, POINTER(c_uint32), c_size_t],
    "kvopt_pool_reset": [c_uint64],
    "kvopt_pool_save_state": [c_uint64, c_void_p, c_size_t, POINTER(c_size_t)],
    "kvopt_pool_load_state": [c_uint64, c_void_p, c_size_t],
    "kvopt_pool_get_stats": [c_uint64, POINTER(PoolStats)],
    "kvopt_pool_verify": [c_uint64, POINTER(c_size_t), c_char_p, c_size_t],
    "kvopt_engine_create": [c_uint32, POINTER(EngineOptions), POINTER(c_uint64)],
    "kvopt_engine_destroy": [c_uint64],
    "kvopt_engine_take": [c_uint64, POINTER(c_uint32), c_size_t, POINTER(RequestInfo)],
    "kvopt_engine_hold": [c_uint64, POINTER(c_uint32), c_size_t, c_uint32, POINTER(RequestInfo)],
    "kvopt_engine_release": [c_uint64, POINTER(c_uint32), c_size_t, POINTER(RequestInfo)],
    "kvopt_engine_store": [c_uint64, POINTER(FullBlocks), POINTER(RequestInfo)],
    "kvopt_engine_longest_hit": [
        *(c_uint64, c_char_p, c_size_t, c_size_t, POINTER(c_uint32), c_size_t, POINTER(c_uint32), POINTER(c_size_t)),
    ],
    "kvopt_engine_forget": [c_uint64, c_uint32],
    "kvopt_engine_reset": [c_uint64],
    "kvopt_engine_get_stats": [c_uint64, POINTER(EngineStats)],
    "kvopt_engine_verify": [c_uint64, POINTER(c_size_t), c_char_p, c_size_t],
}


def installed(path: Path) -> Path:
    """A file or folder that an installed package has."""
    if not path.exists():
        if Path(_core.__file__).resolve().parent == SOURCES:
            pytest.skip(f"kvopt runs from its source tree; only an installed package has {path.name}")
        pytest.fail(f"the installed package has no {path}")
    return path


def load() -> ctypes.CDLL:
    """The library, with the types of its functions."""
    library = ctypes.CDLL(str(installed(config.library_dir() / "libkvopt.so")))
    for name, types in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = types
        function.restype = c_int32
    for name in ("kvopt_last_error", "kvopt_version"):
        getattr(library, name).restype = c_char_p
    return library


def functions() -> Iterable[str]:
    """The names of all functions that return a status."""
    return _ARGUMENTS.keys()


def argument_types(name: str) -> list[type]:
    """What a function takes, in order."""
    return _ARGUMENTS[name]
