"""Calling libkvopt.so through ctypes: structures set up, answers checked."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint64
from typing import Any

import c_library
from c_library import API_VERSION, STATUS


class Caller:
    """Calls functions by name, and checks what they answer."""

    def __init__(self) -> None:
        self.library = c_library.load()

    def status(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*arguments))

    def ok(self, name: str, *arguments: Any) -> None:
        if self.status(name, *arguments) != 0:
            raise AssertionError(f"{name}: {self.message}")

    def refused(self, status: str, text: str, name: str, *arguments: Any) -> None:
        assert (self.status(name, *arguments), text in self.message) == (STATUS[status], True), self.message

    @property
    def message(self) -> str:
        return self.library.kvopt_last_error().decode()  # type: ignore[no-any-return]

    def made(self, structure: type, **fields: Any) -> Any:
        """A structure as its ..._init function sets it up, then with these fields."""
        (init,) = (name for name, made in c_library.INITIALISED.items() if made is structure)
        value = structure()
        self.ok(init, byref(value), ctypes.sizeof(value))
        for name, given in fields.items():
            setattr(value, name, given)
        return value

    def info(self, now: float, **fields: Any) -> Any:
        return byref(self.made(c_library.RequestInfo, now=now, **fields))

    def pool(self, **options: Any) -> int:
        pool = c_uint64()
        self.ok("kvopt_pool_create", API_VERSION, byref(self.made(c_library.PoolOptions, **options)), byref(pool))
        return pool.value

    def stats(self, pool: int) -> dict[str, int]:
        stats = c_library.PoolStats(size=ctypes.sizeof(c_library.PoolStats))
        self.ok("kvopt_pool_get_stats", pool, byref(stats))
        return {name: getattr(stats, name) for name, *_ in stats._fields_}

    def violations(self, kind: str, pool: int) -> tuple[int, str]:
        count, text = c_size_t(99), ctypes.create_string_buffer(1000)
        self.ok(f"kvopt_{kind}_verify", pool, byref(count), text, len(text))
        return count.value, text.value.decode()


def keys(*values: int) -> tuple[Any, int]:
    return (c_uint64 * len(values))(*values), len(values)
