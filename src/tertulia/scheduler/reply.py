"""How a message is answered: by the whole chain of tasks that it caused."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from tertulia.protocol.ids import TaskId
from tertulia.protocol.usage import Usage

NOT_STORED = "not_stored"
"""The code of an answer that was given, and whose text cannot be given again."""
ReplyStatus = Literal["completed", "failed", "interrupted"]


class Failure(msgspec.Struct, frozen=True):
    """Why a task failed: a stable code, and a sentence."""

    code: str
    message: str


class Reply(msgspec.Struct, frozen=True):
    """The answer to a message. A failed task is an answer too: look at `status`."""

    text: str | None
    """The last thing the model said, of the last continuation; partial if the task failed."""
    status: ReplyStatus
    usage: Usage
    """Every model request of the task and of the chain it caused."""
    tool_calls: int
    duration: float
    """How long it took, in seconds."""
    task_id: TaskId
    """The first task of the chain."""
    trace_id: str
    error: Failure | None = None
    last_seq: int = 0
    """The last event of the chain; a client that orders answers after events waits for it."""


def without_text(reply: Reply) -> Reply:
    """How it ended, for a message that is sent again when its text is not there any more. One without a text stays."""
    if reply.text is None:
        return reply
    message = f"this message was answered before ({reply.status}); the text of the answer is not stored"
    return replace(reply, text=None, error=reply.error or Failure(NOT_STORED, message))
