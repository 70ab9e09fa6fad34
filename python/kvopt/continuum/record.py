"""What a client may say of a request: one record, whatever the names its fields came by.

| field | also called | meaning |
|---|---|---|
| session_id | job_id, program_id, conversation_id | the session: a text of at most 256 characters, or a whole number |
| last_turn | is_last_step | true: the session does not come back |
| tool | tools, this_func_call | the tool called at the end of this turn; a list when several run side by side |
| after_tool | last_func_call | the tool whose result this request carries |
| expected_gap | predict_time, estimated_duration_s | seconds until it comes back |
| progress | | share of the running tools' work that is done, above 0 to 1 |
| priority | | 0 to 100, as of a retention range |
| ttl | ttl_s, retention_seconds; ttl_ms, duration_ms | seconds (or milliseconds) to hold the blocks at least |
| lifetime | ttl_mode, ttl_type | "fixed", or "refresh": a hit begins the TTL anew |
| token_ranges | token_range_retention_configs | a list of {start, end, priority, duration (s) or duration_ms} |

A value of None counts as absent. The record is parsed once, when the request arrives, never in a scheduler's loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kvopt.errors import ClientFieldError, ConfigError
from kvopt.policies.retention import RetentionRange, check_ranges

LONGEST_NAME = 256
MOST_TOOLS = 32
MOST_RANGES = 64
LONGEST_GAP = 1e6
"""Seconds, some 11 days: of an expected gap and of a TTL."""


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """The fields of one request; see the module. What the client did not say has its default.

    `problems` names the fields that were left out because they are unknown or bad (only when parsed leniently).
    """

    session_id: str | None = None
    last_turn: bool = False
    tools: tuple[str, ...] = ()
    after_tool: str | None = None
    expected_gap: float | None = None
    progress: float | None = None
    priority: int | None = None
    ttl: float | None = None
    lifetime: Literal["fixed", "refresh"] = "fixed"
    token_ranges: tuple[RetentionRange, ...] = ()
    problems: tuple[str, ...] = ()


def parse_record(fields: Mapping[str, Any], *, strict: bool = True) -> ClientRecord:
    """The record of the fields that a client sent.

    Raises ClientFieldError, naming field, value and limit, for an unknown field, a bad value, and a field said twice
    with different values. With `strict` false such fields are left out, and named in `problems`.
    """
    values: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    problems: list[str] = []
    for name, raw in fields.items():
        if raw is None:
            continue
        try:
            field, value = _read(name, raw)
            if field in values and values[field] != value:
                raise ClientFieldError(f"{name}: {raw!r} contradicts {said_by[field]}, {fields[said_by[field]]!r}")
        except ClientFieldError:
            if strict:
                raise
            problems.append(str(name)[:LONGEST_NAME])
            continue
        values[field] = value
        said_by[field] = name
    return ClientRecord(**values, problems=tuple(problems))


def _read(name: object, raw: Any) -> tuple[str, Any]:
    known = _FIELDS.get(name) if isinstance(name, str) else None
    if known is None:
        raise ClientFieldError(f"unknown field {str(name)[:LONGEST_NAME]!r}; known: {', '.join(_FIELDS)}")
    field, read = known
    return field, read(str(name), raw)


def _session(name: str, raw: Any) -> str:
    if isinstance(raw, int) and not isinstance(raw, bool):
        raw = str(raw)
    return _name(name, raw)


def _name(name: str, raw: Any) -> str:
    if not isinstance(raw, str) or not 0 < len(raw) <= LONGEST_NAME:
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be a text of 1 to {LONGEST_NAME} characters")
    return raw


def _tools(name: str, raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        return (_name(name, raw),)
    if not isinstance(raw, list | tuple) or not 0 < len(raw) <= MOST_TOOLS:
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be a name or a list of 1 to {MOST_TOOLS} names")
    return tuple(sorted(_name(name, tool) for tool in raw))


def _flag(name: str, raw: Any) -> bool:
    if not isinstance(raw, bool):
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be true or false")
    return raw


def _number(low: float, high: float, unit: str, scale: float = 1.0) -> Callable[[str, Any], float]:
    def read(name: str, raw: Any) -> float:
        number = math.nan
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            # A whole number of many digits does not convert.
            number = float(raw) * scale if abs(raw) < 1e300 else math.inf
        if not low <= number <= high:
            limits = f"{low / scale:g} to {high / scale:g}{unit}"
            raise ClientFieldError(f"{name}: {_shown(raw)}; it must be a number from {limits}")
        return number

    return read


def _share(name: str, raw: Any) -> float:
    number = _number(0.0, 1.0, "")(name, raw)
    if number <= 0.0:
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be above 0, at most 1")
    return number


def _priority(name: str, raw: Any) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= 100:
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be a whole number from 0 to 100")
    return raw


def _lifetime(name: str, raw: Any) -> str:
    text = raw.lower() if isinstance(raw, str) else ""
    if text not in {"fixed", "refresh"}:
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be 'fixed' or 'refresh'")
    return text


def _ranges(name: str, raw: Any) -> tuple[RetentionRange, ...]:
    if not isinstance(raw, list | tuple) or len(raw) > MOST_RANGES:
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be a list of at most {MOST_RANGES} ranges")
    try:
        return tuple(check_ranges([_range(f"{name}[{i}]", piece) for i, piece in enumerate(raw)]))
    except ConfigError as error:
        raise ClientFieldError(f"{name}: {error}") from None


def _range(name: str, raw: Any) -> RetentionRange:
    if not isinstance(raw, Mapping):
        raise ClientFieldError(f"{name}: {_shown(raw)}; it must be a range with start and end")
    values: dict[str, Any] = {}
    for key, value in raw.items():
        field = _RANGE_FIELDS.get(key)
        if field is None:
            raise ClientFieldError(f"{name}: unknown field {_shown(key)}; known: {', '.join(_RANGE_FIELDS)}")
        if value is not None:
            scale = 1e-3 if key == "duration_ms" else 1.0
            values[field] = (
                _number(0.0, LONGEST_GAP, " ", scale)(f"{name}.{key}", value) if field == "duration" else value
            )
    return RetentionRange(**{"start": 0, **values})


def _shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 80 else f"{text[:77]}..."


_seconds = _number(0.0, LONGEST_GAP, " s")
_milliseconds = _number(0.0, LONGEST_GAP, " ms", 1e-3)

_FIELDS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "session_id": ("session_id", _session),
    "job_id": ("session_id", _session),
    "program_id": ("session_id", _session),
    "conversation_id": ("session_id", _session),
    "last_turn": ("last_turn", _flag),
    "is_last_step": ("last_turn", _flag),
    "tool": ("tools", _tools),
    "tools": ("tools", _tools),
    "this_func_call": ("tools", _tools),
    "after_tool": ("after_tool", _name),
    "last_func_call": ("after_tool", _name),
    "expected_gap": ("expected_gap", _seconds),
    "predict_time": ("expected_gap", _seconds),
    "estimated_duration_s": ("expected_gap", _seconds),
    "progress": ("progress", _share),
    "priority": ("priority", _priority),
    "ttl": ("ttl", _seconds),
    "ttl_s": ("ttl", _seconds),
    "retention_seconds": ("ttl", _seconds),
    "ttl_ms": ("ttl", _milliseconds),
    "duration_ms": ("ttl", _milliseconds),
    "lifetime": ("lifetime", _lifetime),
    "ttl_mode": ("lifetime", _lifetime),
    "ttl_type": ("lifetime", _lifetime),
    "token_ranges": ("token_ranges", _ranges),
    "token_range_retention_configs": ("token_ranges", _ranges),
}

_RANGE_FIELDS = {
    "start": "start",
    "token_start": "start",
    "end": "end",
    "token_end": "end",
    "priority": "priority",
    "duration": "duration",
    "duration_s": "duration",
    "duration_ms": "duration",
}
