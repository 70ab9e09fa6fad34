"""The C interface of libkvopt.so, called through ctypes as a foreign program would, mistakes included."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from ctypes import byref, c_size_t, c_uint32, c_uint64
from typing import Any

import pytest

import c_library
from c_caller import Caller, keys
from c_library import API_VERSION, NO_LIMIT, STATUS
from kvopt import __version__
from kvopt.policies import policies


@pytest.fixture
def c() -> Caller:
    return Caller()


@pytest.fixture
def pool(c: Caller) -> Iterator[int]:
    pool = c.pool(capacity=8)
    yield pool
    c.status("kvopt_pool_destroy", pool)


def acquire(c: Caller, pool: int, *values: int, now: float = 0.0) -> int:
    allocation = c_uint64()
    arguments = (*keys(*values), len(values), NO_LIMIT, 0, c.info(now), byref(allocation), None)
    c.ok("kvopt_pool_acquire", pool, *arguments)
    return allocation.value


def test_the_version_is_that_of_the_package(c: Caller) -> None:
    assert c.library.kvopt_version().decode() == __version__
    c.ok("kvopt_check_version", API_VERSION)
    for version in (0, API_VERSION + 1, 2**32 - 1):
        c.refused("version mismatch", f"version {version} of the C interface", "kvopt_check_version", version)
        options = c.made(c_library.PoolOptions, capacity=4)
        c.refused("version mismatch", f"version {version}", "kvopt_pool_create", version, byref(options), c_uint64())


@pytest.mark.parametrize("init", c_library.INITIALISED)
def test_a_structure_has_the_size_that_the_library_says(c: Caller, init: str) -> None:
    size = ctypes.sizeof(c_library.INITIALISED[init])
    c.ok(init, ctypes.create_string_buffer(size), size)
    c.refused("version mismatch", f"must be {size} or more", init, ctypes.create_string_buffer(size), size - 1)


def test_every_function_takes_null_and_nonsense(c: Caller, pool: int) -> None:
    """No call may crash, whatever handles and null pointers it is given, and none of these may change the pool."""
    held = acquire(c, pool, 1, 2)
    before = c.stats(pool)
    answered = set()
    for name in c_library.functions():
        types = c_library.argument_types(name)
        for handle in (0, 1, held, pool, 2**64 - 1):
            if handle == pool and name == "kvopt_pool_destroy":
                continue
            given: dict[Any, Any] = {c_uint64: handle, c_uint32: API_VERSION, c_size_t: 1, ctypes.c_double: -1.0}
            answered.add(c.status(name, *(given.get(kind) for kind in types)))
    assert answered >= {STATUS[status] for status in ("OK", "invalid handle", "null pointer")}
    assert answered <= set(STATUS.values())
    assert c.stats(pool) == before


def test_handles_that_are_over_or_of_something_else_are_refused(c: Caller, pool: int) -> None:
    other = c.pool(capacity=8)
    held = acquire(c, pool, 1, 2)
    c.refused("invalid handle", "no live allocation of this pool", "kvopt_pool_release", other, held, c.info(0))
    c.refused("invalid handle", "no live block pool", "kvopt_pool_release", held, held, c.info(0))
    c.refused("invalid handle", "no live engine pool", "kvopt_engine_reset", pool)
    c.ok("kvopt_pool_release", pool, held, c.info(0))
    for function in ("release", "commit"):
        arguments = (c.info(0),) if function == "release" else (*keys(1), c.info(0))
        c.refused("invalid handle", "no live allocation", f"kvopt_pool_{function}", pool, held, *arguments)
    again = acquire(c, pool, 1)
    assert again != held
    c.ok("kvopt_pool_destroy", other)
    c.refused("invalid handle", f"handle {other} is no live block pool", "kvopt_pool_destroy", other)
    c.refused("invalid handle", "no live block pool", "kvopt_pool_match", other, *keys(1), byref(c_size_t()))


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ({}, "ConfigError", "capacity is 0 blocks"),
        ({"capacity": 2**31 + 1}, "ConfigError", "capacity is 2147483649"),
        ({"capacity": 4, "policy": b"lur"}, "UnknownPolicyError", "did you mean 'lru'"),
        ({"capacity": 4, "policy": b"lru:depth=1"}, "ConfigError", "depth"),
        ({"capacity": 4, "policy": b"min"}, "ConfigError", "knows the future"),
        ({"capacity": 4, "policy": None}, "null pointer", "options.policy"),
        ({"capacity": 4, "rule": 2}, "ConfigError", "rule is 2"),
        ({"capacity": 4, "key_bytes": 65}, "ConfigError", "key_bytes is 65"),
        ({"capacity": 4, "lease_budget": 4}, "ConfigError", "lease_budget is 4"),
        ({"capacity": 4, "retention": 2}, "ConfigError", "retention is 2"),
        ({"capacity": 4, "block_tokens": 0}, "ConfigError", "block_tokens is 0"),
        ({"capacity": 4, "p_star": float("nan")}, "ConfigError", "p_star is nan"),
        ({"capacity": 4, "size": 8}, "version mismatch", "said to have 8 bytes"),
    ],
)
def test_bad_options_are_refused(c: Caller, options: dict[str, Any], status: str, text: str) -> None:
    pool = c_uint64(5)
    given = byref(c.made(c_library.PoolOptions, **options))
    c.refused(status, text, "kvopt_pool_create", API_VERSION, given, byref(pool))
    assert pool.value == 5


def test_policies_are_listed_and_checked(c: Caller) -> None:
    length = c_size_t()
    c.ok("kvopt_policy_names", None, 0, byref(length))
    text = ctypes.create_string_buffer(length.value + 1)
    c.ok("kvopt_policy_names", text, len(text), None)
    assert text.value.decode().split("\n") == [info.name for info in policies()]
    short = ctypes.create_string_buffer(b"????????", 8)
    c.ok("kvopt_policy_names", short, 4, None)
    assert short.raw == text.value[:3] + b"\0????"
    c.ok("kvopt_policy_check", b"s3-fifo:small=0.2")
    c.refused("ConfigError", "knows the future", "kvopt_policy_check", b"min")
    c.refused("PolicyLibraryError", "no such file", "kvopt_load_policies", b"/nowhere/none.so")


def test_a_function_of_our_own_ranks(c: Caller) -> None:
    seen = []

    class Run(ctypes.Structure):
        _fields_ = [
            *((name, c_uint32) for name in ("id", "length", "depth", "hits")),
            ("key", c_uint64),
            ("last_use", ctypes.c_double),
            ("priority", c_uint32),
            ("reserved", c_uint32),
        ]

    def newest_first(user: int, run: Any, now: float) -> float:
        shown = run.contents
        seen.append((user, shown.key, shown.depth, shown.length, shown.hits, shown.priority, shown.last_use, now))
        return -float(shown.last_use)

    prototype = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.POINTER(Run), ctypes.c_double)
    called_back = prototype(newest_first)  # alive as long as the pool
    rank = ctypes.cast(called_back, ctypes.c_void_p).value
    functions = c.made(c_library.PolicyFunctions, rank=rank, user=17)
    pool = c.pool(capacity=4, functions=ctypes.pointer(functions))
    for now, key in enumerate((100, 200, 300)):
        held = acquire(c, pool, key, now=now)
        c.ok("kvopt_pool_commit", pool, held, *keys(key), c.info(now))
        c.ok("kvopt_pool_release", pool, held, c.info(now))
    assert seen == [(17, key, 0, 1, 0, 35, now, now) for now, key in enumerate((100, 200, 300))]
    c.ok("kvopt_pool_evict", pool, 1, 3.0, None)
    found = c_size_t()
    cached = []
    for key in (100, 200, 300):
        c.ok("kvopt_pool_match", pool, *keys(key), byref(found))
        cached.append(found.value)
    assert cached == [1, 1, 0]
    c.ok("kvopt_pool_destroy", pool)


def test_an_engine_pool_hands_out_stores_and_finds(c: Caller) -> None:
    engine = c_uint64()
    options = c.made(c_library.EngineOptions, blocks=6)
    c.ok("kvopt_engine_create", API_VERSION, byref(options), byref(engine))
    blocks = (c_uint32 * 4)()
    c.ok("kvopt_engine_take", engine, blocks, 3, c.info(1))
    hashes = b"first hash 16 byother hash 16 bythird hash 16 by"
    full = c.made(c_library.FullBlocks, blocks=blocks, hashes=hashes, count=3, hash_bytes=16, before=2**32 - 1)
    c.ok("kvopt_engine_store", engine, byref(full), c.info(1))
    c.refused("StaleBlockError", "cached already", "kvopt_engine_store", engine, byref(full), c.info(1))
    c.refused("PoolError", "3 blocks are held", "kvopt_engine_reset", engine)
    c.refused("PoolError", "go back", "kvopt_engine_take", engine, blocks, 1, c.info(0))
    c.refused("NotEnoughBlocksError", "4 blocks are needed; 2", "kvopt_engine_take", engine, blocks, 4, c.info(1))
    c.ok("kvopt_engine_release", engine, blocks, 3, c.info(2))
    c.refused("ReferenceCountError", "nobody holds it", "kvopt_engine_release", engine, blocks, 1, c.info(2))
    found, groups, hit = (c_uint32 * 3)(), (c_uint32 * 1)(0), c_size_t()
    c.ok("kvopt_engine_longest_hit", engine, hashes, 3, 16, groups, 1, found, byref(hit))
    assert (hit.value, list(found)) == (3, list(blocks)[:3])
    wide = (hashes, 1, 37, groups, 1, found, byref(hit))
    c.refused("ConfigError", "hash_bytes is 37", "kvopt_engine_longest_hit", engine, *wide)
    c.ok("kvopt_engine_hold", engine, found, 2, 1, c.info(3))
    c.ok("kvopt_engine_forget", engine, found[1])
    c.ok("kvopt_engine_longest_hit", engine, hashes, 3, 16, groups, 1, found, byref(hit))
    assert hit.value == 1
    stats = c_library.EngineStats(size=ctypes.sizeof(c_library.EngineStats))
    c.ok("kvopt_engine_get_stats", engine, byref(stats))
    assert (stats.blocks, stats.free_blocks, stats.keys, stats.evictions, stats.policy_failed) == (6, 3, 2, 0, 0)
    assert c.violations("engine", engine.value) == (0, "")
    c.ok("kvopt_engine_destroy", engine)
    c.refused("invalid handle", "no live engine pool", "kvopt_engine_destroy", engine)


def test_what_a_policy_has_learned_goes_from_pool_to_pool(c: Caller, pool: int) -> None:
    one, other = (c.pool(capacity=8, policy=b"cost-aware") for _ in range(2))
    held = acquire(c, one, 1, 2, now=1)
    c.ok("kvopt_pool_commit", one, held, *keys(1, 2), c.info(2))
    c.ok("kvopt_pool_release", one, held, c.info(3))
    length = c_size_t()
    c.ok("kvopt_pool_save_state", one, None, 0, byref(length))
    state = ctypes.create_string_buffer(length.value)
    c.ok("kvopt_pool_save_state", one, state, length, byref(length))
    c.refused("PolicyStateError", "", "kvopt_pool_load_state", other, state, length.value - 1)
    c.ok("kvopt_pool_load_state", other, state, length)
    again = ctypes.create_string_buffer(length.value)
    c.ok("kvopt_pool_save_state", other, again, length, byref(length))
    assert again.raw == state.raw
    c.refused("PolicyStateError", "learns nothing", "kvopt_pool_save_state", pool, None, 0, byref(length))


def test_messages_belong_to_their_thread(c: Caller) -> None:
    c.refused("UnknownPolicyError", "'lur'", "kvopt_policy_check", b"lur")
    other: list[str] = []

    def fail_elsewhere() -> None:
        other.append(c.message)
        c.status("kvopt_policy_check", None)
        other.append(c.message)

    thread = threading.Thread(target=fail_elsewhere)
    thread.start()
    thread.join()
    assert other == ["", "policy is a null pointer"]
    assert "'lur'" in c.message
