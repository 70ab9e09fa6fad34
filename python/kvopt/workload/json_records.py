"""Decoding JSON into typed records, with errors that name the place, the field and the value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvopt.errors import TraceError

Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
BlockId: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
BlockIds: TypeAlias = list[BlockId]

_Record = TypeVar("_Record")
_PATH = re.compile(r" - at `\$([^`]*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_LONGEST_VALUE = 60


def decode(decoder: msgspec.json.Decoder[_Record], data: bytes | msgspec.Raw, where: str, root: str = "") -> _Record:
    """Decode one record.

    Args:
        decoder: of the record's type.
        data: the JSON text.
        where: file and line or member, for errors.
        root: path of the record within its document, for errors.

    Raises:
        TraceError: not JSON, or a field is missing, of the wrong type or out of range.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise TraceError(f"{where}: {_describe(str(error), bytes(data), root)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{where}: not valid JSON: {error}") from None


def block_ids(ids: Sequence[int], where: str, field: str) -> NDArray[np.uint64]:
    """The ids as uint64[n]; TraceError names the first that does not fit."""
    try:
        return np.array(ids, dtype=np.uint64)
    except OverflowError:
        index, value = next((i, v) for i, v in enumerate(ids) if v >= 2**64)
        raise TraceError(f"{where}: {field}[{index}]: block id {value} is above {2**64 - 1}") from None


def _describe(message: str, data: bytes, root: str) -> str:
    """A message of msgspec with the path first and the offending value added."""
    found = _PATH.search(message)
    path = found.group(1) if found else ""
    said = _PATH.sub("", message)
    field = (root + path).lstrip(".") or "record"
    try:
        value = _value_at(msgspec.json.decode(data), path)
    except (msgspec.DecodeError, LookupError, TypeError, UnicodeDecodeError, RecursionError):
        return f"{field}: {said}"
    if isinstance(value, (dict, list)):
        return f"{field}: {said}"
    text = repr(value)
    if len(text) > _LONGEST_VALUE:
        text = text[:_LONGEST_VALUE] + "..."
    return f"{field}: {text}: {said}"


def _value_at(document: Any, path: str) -> Any:
    for name, index in _STEP.findall(path):
        document = document[name] if name else document[int(index)]
    return document
