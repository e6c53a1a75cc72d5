"""The ids of sessions, conversations, tasks, calls and items: distinct types for the type checker, strings at run time.

Ids of sessions, conversations and tasks are UUIDs. A call id is the one that the model chose.
"""

from __future__ import annotations

import os
from typing import NewType

SessionId = NewType("SessionId", str)
ConversationId = NewType("ConversationId", str)
TaskId = NewType("TaskId", str)
CallId = NewType("CallId", str)
ItemId = NewType("ItemId", str)


def _uuid4() -> str:
    # Not uuid.uuid4(): only the text is needed, making its object takes longer, and each turn makes several ids.
    b = bytearray(os.urandom(16))
    b[6] = b[6] & 0x0F | 0x40
    b[8] = b[8] & 0x3F | 0x80
    h = b.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def new_session_id() -> SessionId:
    """A fresh random session id."""
    return SessionId(_uuid4())


def new_conversation_id() -> ConversationId:
    """A fresh random conversation id."""
    return ConversationId(_uuid4())


def new_task_id() -> TaskId:
    """A fresh random task id."""
    return TaskId(_uuid4())


def new_item_id() -> ItemId:
    """A fresh random item id."""
    return ItemId(os.urandom(8).hex())


def new_trace_id() -> str:
    """A W3C trace id: 32 hex characters."""
    return os.urandom(16).hex()


def new_span_id() -> str:
    """A W3C span id: 16 hex characters."""
    return os.urandom(8).hex()
