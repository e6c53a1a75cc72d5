"""How a message is answered: by the whole chain of tasks that it caused."""

from __future__ import annotations

from functools import cached_property
from typing import Generic, Literal, Self, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from tertulia.errors import InvalidOutputError, TaskCancelledError, TertuliaError, error_for_code
from tertulia.protocol.ids import TaskId
from tertulia.protocol.items import Usage
from tertulia.protocol.validation_text import explain_validation
from tertulia.protocol.worktree import WorktreeReport
from tertulia.schema.python_types import convert_value

T = TypeVar("T")
NOT_STORED = "not_stored"
"""The code of an answer that was given, and whose text cannot be given again."""
ReplyStatus = Literal["completed", "failed", "interrupted"]


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a task failed: a stable code, and a sentence."""

    code: str
    message: str
    errors: tuple[str, ...] = ()
    """Of `invalid_output`: what is wrong with the answer, each with its place in it."""

    @classmethod
    def of(cls, error: TertuliaError) -> Failure:
        """Describe an error as data.

        Args:
            error: What a task ended with.

        Returns:
            Its code, message and, of an answer that did not fit its schema, what is wrong with it.
        """
        return cls(error.code, error.message, error.errors if isinstance(error, InvalidOutputError) else ())

    def to_error(self) -> TertuliaError:
        """Make an error of it that can be raised.

        Returns:
            An error of the class that has this code, `TertuliaError` for a code that none has.
        """
        if self.code == InvalidOutputError.code:
            return InvalidOutputError(self.message, self.errors)
        return error_for_code(self.code, self.message)


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
    worktree: WorktreeReport | None = None
    """Branch, commit and diffstat of a conversation that has a worktree."""

    def raise_for_status(self) -> Self:
        """The reply itself where the task was completed.

        Returns:
            This reply, so that `(await conversation.message(…)).raise_for_status().text` can be written.

        Raises:
            TertuliaError: The task failed: of the class of `tertulia.errors` that has the code of `error`.
            TaskCancelledError: The task was interrupted.
        """
        if self.status == "completed":
            return self
        if self.error is not None:
            raise self.error.to_error()
        raise TaskCancelledError("the task was interrupted before it was done")


class TypedReply(Reply, Generic[T], frozen=True, kw_only=True, dict=True):
    """The answer to a message that was sent with an `output_type`."""

    output_type: type[T]
    """What the message asked for."""

    @cached_property
    def output(self) -> T:
        """The answer as an object of `output_type`; the same object every time.

        Raises:
            TertuliaError: The task failed, see `raise_for_status`.
            TaskCancelledError: The task was interrupted.
            InvalidOutputError: The answer was given before to the same `message_id`, and it is not stored or was asked
                for as another type.
        """
        self.raise_for_status()
        if self.text is None:
            raise InvalidOutputError("there is no answer" if self.error is None else self.error.message)
        try:
            return convert_value(msgspec.json.decode(self.text), self.output_type)
        except msgspec.ValidationError as error:
            problem = explain_validation(error, self.output_type)
        except ValueError:
            problem = "it is not JSON"
        raise InvalidOutputError(f"the answer is no {self.output_type.__name__}: {problem}", [problem])

    @classmethod
    def of(cls, reply: Reply, output_type: type[T]) -> TypedReply[T]:
        """Give a reply the type of its answer.

        Args:
            reply: What was answered.
            output_type: What the message asked for.

        Returns:
            The same reply, with `output`.
        """
        return TypedReply(**asdict(reply), output_type=output_type)


def without_text(reply: Reply) -> Reply:
    """How it ended, for a message that is sent again when its text is not there any more. One without a text stays."""
    if reply.text is None:
        return reply
    message = f"this message was answered before ({reply.status}); the text of the answer is not stored"
    return replace(reply, text=None, error=reply.error or Failure(NOT_STORED, message))
