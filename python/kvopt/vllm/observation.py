"""What vLLM's objects say, as plain values, and the life-cycle events that hooks make of them.

An event is a small object with ``now`` in seconds on the engine's monotonic clock. Observers get them in the order in
which things happen; none of them may keep vLLM's objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvopt.policies import RequestInfo, StopReason

PREFIX = "kvopt_"
"""Of the keys of ``vllm_xargs`` that are fields of the client's record."""

ACTION = "kvopt"
"""First word of the action types in a ``kv_hints`` envelope whose payload is a client's record."""

TOOL_CALL_TOKENS = (
    "<tool_call>",
    "<|tool_call|>",
    "<|tool_call>",
    "<function_call>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|eom_id|>",
    "<|call|>",
)
"""Special tokens that models put into an answer only when it calls a tool."""


@dataclass(slots=True)
class RequestView:
    """What KVopt knows of one request while the engine has it.

    Attributes:
        request_id: vLLM's id.
        session: number of the session in this process, from 0.
        session_name: the client's name for it; None where it was told from the prefix tree.
        turn: position within the session, from 0.
        arrival: seconds on the engine's clock.
        prompt_tokens: length of the prompt.
        gap: seconds since the session's last answer; None for its first request.
        client: fields that the client sent, as sent; empty without hints.
        priority: vLLM's.
        hit_tokens: of the prompt, found cached at its first admission; -1 before that.
        preemptions: how often it lost its blocks.
        info: what policies are told of it; None until a pool asks.
    """

    request_id: str
    session: int
    session_name: str | None
    turn: int
    arrival: float
    prompt_tokens: int
    gap: float | None = None
    client: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    hit_tokens: int = -1
    preemptions: int = 0
    info: RequestInfo | None = None


@dataclass(slots=True)
class Event:
    """Base of all events."""

    now: float


@dataclass(slots=True)
class Arrived(Event):
    """A request waits. `hashes` are those of its full prompt blocks, bytes, first block first."""

    request: RequestView
    hashes: Sequence[bytes]
    block_tokens: int


@dataclass(slots=True)
class LookedUp(Event):
    """The prefix cache was asked for a waiting request; repeated only when the answer changes."""

    request: RequestView
    hit_tokens: int


@dataclass(slots=True)
class Scheduled(Event):
    """A request was admitted with `hit_tokens` computed already; `resumed` after a preemption."""

    request: RequestView
    hit_tokens: int
    resumed: bool


@dataclass(slots=True)
class Stepped(Event):
    """A step was scheduled: its tokens, and how many requests run and wait after it."""

    tokens: int
    running: int
    waiting: int


@dataclass(slots=True)
class Preempted(Event):
    """A running request lost its blocks and waits again."""

    request: RequestView


@dataclass(slots=True)
class Finished(Event):
    """A request ended while it still holds its blocks. `tool_call` says whether its answer calls a tool."""

    request: RequestView
    stop: StopReason
    output_tokens: int

    @property
    def tool_call(self) -> bool:
        """Whether the answer ends in a tool call."""
        return self.stop == StopReason.TOOL_USE


@dataclass(slots=True)
class Aborted(Finished):
    """A request ended without an answer: the client is gone, or it failed."""


@dataclass(slots=True)
class Released(Event):
    """A finished request's blocks are about to go back to the pool: at once, or later where a connector reads them."""

    request: RequestView


@dataclass(slots=True)
class BlocksStored(Event):
    """Blocks became hittable."""

    blocks: int


@dataclass(slots=True)
class BlocksHit(Event):
    """Cached blocks were taken by a request."""

    blocks: int


@dataclass(slots=True)
class BlocksEvicted(Event):
    """Cached blocks lost their content to a new use."""

    blocks: int
    reason: str = "capacity"


@dataclass(slots=True)
class Reset(Event):
    """The prefix cache was asked to be cleared; whether it was."""

    done: bool


def session_name(request: Any) -> str | None:
    """The client's name for the session: ``session_id``, else that of ``vllm_xargs``; None when it gave none."""
    given = getattr(request, "session_id", None)
    if given is None:
        extra = extra_arguments(request)
        for key in ("session_id", f"{PREFIX}session_id", f"{PREFIX}job_id", f"{PREFIX}program_id"):
            if (given := extra.get(key)) is not None:
                break
    return str(given)[:256] if isinstance(given, str | int) and not isinstance(given, bool) else None


def extra_arguments(request: Any) -> Mapping[str, Any]:
    """What the client sent as ``vllm_xargs``."""
    params = getattr(request, "sampling_params", None) or getattr(request, "pooling_params", None)
    extra = getattr(params, "extra_args", None)
    return extra if isinstance(extra, Mapping) else {}


def client_fields(request: Any) -> dict[str, Any]:
    """The client's record as it was sent: ``kvopt_*`` keys of ``vllm_xargs``, then ``kv_hints`` actions for KVopt.

    A key ``kvopt`` holds several fields at once, as JSON or a table. Raises ValueError for JSON that is none. Values
    are not checked here; :func:`kvopt.continuum.record.parse_record` does.
    """
    fields: dict[str, Any] = {}
    for key, value in extra_arguments(request).items():
        if key == ACTION:
            table = json.loads(value) if isinstance(value, str) else value
            if not isinstance(table, Mapping):
                raise ValueError(f"vllm_xargs: {ACTION}: {value!r} is not a table of fields")
            fields |= table
        elif key.startswith(PREFIX):
            fields[key.removeprefix(PREFIX)] = value
    for action in getattr(getattr(request, "kv_hints", None), "actions", None) or ():
        if str(action.action_type).partition(".")[0] == ACTION:
            fields |= action.payload
    return fields


def stop_reason(request: Any, tool_call_ids: frozenset[int]) -> StopReason:
    """Why a finished request of vLLM ended; a tool call is told by the ids of its answer."""
    status = getattr(request.status, "name", str(request.status))
    if status == "FINISHED_STOPPED":
        if request.stop_reason in tool_call_ids or not tool_call_ids.isdisjoint(request.output_token_ids):
            return StopReason.TOOL_USE
        return StopReason.END_TURN
    if status in {"FINISHED_LENGTH_CAPPED", "FINISHED_IGNORED", "FINISHED_REPETITION"}:
        return StopReason.LENGTH
    if status in {"FINISHED_ABORTED", "FINISHED_ERROR"}:
        return StopReason.ABORT
    return StopReason.UNKNOWN


def tool_call_ids(vllm_config: Any) -> frozenset[int]:
    """The ids of the tokens that the model's tokenizer has of :data:`TOOL_CALL_TOKENS`; empty without a tokenizer."""
    model = vllm_config.model_config
    if getattr(model, "skip_tokenizer_init", False):
        return frozenset()
    try:
        from vllm.tokenizers import cached_tokenizer_from_config

        vocabulary = cached_tokenizer_from_config(model).get_vocab()
    except Exception:
        return frozenset()
    return frozenset(vocabulary[token] for token in TOOL_CALL_TOKENS if token in vocabulary)
