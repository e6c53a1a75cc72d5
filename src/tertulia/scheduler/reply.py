"""How a message is answered: by the whole chain of tasks that it caused."""

from __future__ import annotations

from typing import Literal

import msgspec

from tertulia.protocol.ids import TaskId
from tertulia.protocol.usage import Usage

Status = Literal["completed", "failed", "interrupted"]


class Failure(msgspec.Struct, frozen=True):
    """Why a task failed: a stable code, and a sentence."""

    code: str
    message: str


class Reply(msgspec.Struct, frozen=True):
    """The answer to a message. A failed task is an answer too: look at `status`."""

    text: str | None
    """The last thing the model said, of the last continuation; partial if the task failed."""
    status: Status
    usage: Usage
    """Every model request of the task and of the chain it caused."""
    tool_calls: int
    duration: float
    """Seconds."""
    task_id: TaskId
    """The first task's."""
    trace_id: str
    error: Failure | None = None
    last_seq: int = 0
    """The last event of the chain; whoever orders answers after events waits for it."""
