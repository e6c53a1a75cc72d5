"""The events of one message as they come, and its reply when they are over."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, Self, TypeVar

from tertulia.errors import ClosedError
from tertulia.protocol.events import Event
from tertulia.scheduler.reply import Reply
from tertulia.session.submission import Submission

R = TypeVar("R", bound=Reply)


class ReplyStream(Generic[R]):
    """Every event of a message's answer: iterate with `async for`. Nothing is sent before the first step.

    Leaving the loop early stops the task, when this object is closed or no longer held.
    """

    def __init__(self, submit: Callable[[], Submission], as_reply: Callable[[Reply], R]) -> None:
        self._sent: list[Submission] = []
        self._events = _events(submit, self._sent)
        self._as_reply = as_reply

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop the task, unless it is over or another caller waits for it, and read no further events."""
        await self._events.aclose()

    async def reply(self) -> R:
        """The reply. Events that were not read yet are passed over.

        Returns:
            What `Conversation.message` would have returned; with an `output_type` its `output` is typed.

        Raises:
            ClosedError: The stream was closed before the message was sent.
            TertuliaError: The message was not accepted, as with `Conversation.message`.
        """
        async for _ in self._events:
            pass
        if not self._sent:
            raise ClosedError("the stream was closed before its message was sent")
        return self._as_reply(await self._sent[0].reply())


async def _events(submit: Callable[[], Submission], sent: list[Submission]) -> AsyncGenerator[Event, None]:
    # Not a method: a generator that holds its stream would keep both alive after a loop was left.
    sent.append(submit())
    async with aclosing(sent[0].events()) as events:
        async for event in events:
            yield event
