"""Qwen-Bailian JSONL: chats of a production service, one request a line, one id for every 16-token block of its input.

The format of the traces that accompany Wang et al., "KVCache Cache in the Wild", ATC '25: ``chat_id``,
``parent_chat_id`` (-1 for a new chat), ``timestamp`` in seconds, ``input_length`` and ``output_length`` in tokens,
``type``, ``turn`` from 1, ``hash_ids``. A chain of chats is a session. The file tells neither when an answer ended nor
why.
"""

from __future__ import annotations

import os
from typing import Annotated

import msgspec

from kvopt.workload.base import Progress, Trace
from kvopt.workload.columns import RequestColumns
from kvopt.workload.hash_ids import HashIdReader, HashIdRecord

BLOCK_TOKENS = 16


class QwenBailianRecord(HashIdRecord):
    """One line."""

    chat_id: int
    parent_chat_id: int = -1
    turn: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 1
    type: str = ""


def read_qwen_bailian(
    path: str | os.PathLike[str], *, drop_partial: bool = False, progress: Progress | None = None
) -> Trace:
    """Read a Qwen-Bailian trace, plain or compressed.

    A request whose parent is not in the file before it starts a session of its own. Gaps, stop reasons and server
    times are unknown.

    Args:
        path: the file.
        drop_partial: leave out the id of a partial last block, which an engine never caches.
        progress: called with bytes of the file read and in all.

    Raises:
        TraceError: the file breaks the format (names file, line, field and value), or holds no request.
        OSError: the file cannot be opened.
    """
    reader = HashIdReader(path, BLOCK_TOKENS, drop_partial)
    columns = RequestColumns()
    session_of_chat: dict[int, int] = {}
    types: dict[str, int] = {}
    sessions = 0
    for record in reader.records(QwenBailianRecord, progress):
        session = session_of_chat.get(record.parent_chat_id, -1) if record.parent_chat_id >= 0 else -1
        if session < 0:
            session = sessions
            sessions += 1
        session_of_chat[record.chat_id] = session
        types[record.type] = types.get(record.type, 0) + 1
        columns.append(
            record.timestamp, record.input_length, record.output_length, session=session, turn=record.turn - 1
        )
    return reader.trace(columns, {"format": "qwen-bailian", "request_types": types})
