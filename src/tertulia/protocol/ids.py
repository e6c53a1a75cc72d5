"""The four identities of the runtime. The type checker keeps them apart; at run time they are plain strings.

Ids of sessions, conversations and tasks are UUIDs. A call id is whatever the model said.
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
    # Not uuid.uuid4(): its object costs more than the text we keep, and ids are made several times a turn.
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
