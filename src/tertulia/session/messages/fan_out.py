"""Many inputs, each to a conversation of its own: their replies as they finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from tertulia.errors import InvalidParamsError, TertuliaError
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.items import NO_USAGE
from tertulia.scheduler.nursery import Nursery
from tertulia.scheduler.reply import Failure, Reply
from tertulia.session.handle import Conversation


class MappedReply(Reply, frozen=True, kw_only=True):
    """The reply to one of many inputs."""

    index: int
    """Which of the inputs it answers, counted from 0."""
    conversation_id: ConversationId | None
    """Where it was answered; None where no conversation could be opened."""


async def map_inputs(
    open_with: Callable[..., Awaitable[Conversation]],
    fields: Mapping[str, Any],
    inputs: Iterable[str],
    *,
    max_parallel: int,
    keep: bool,
    nursery: Nursery,
) -> AsyncGenerator[MappedReply, None]:
    """Answer inputs in at most so many conversations at once; leaving early closes those that were opened."""
    _check(fields, inputs, max_parallel)

    def open_one() -> Awaitable[Conversation]:
        return open_with(**fields)

    coming = enumerate(inputs)
    running: set[asyncio.Task[MappedReply]] = set()
    try:
        while True:
            for index, text in coming:
                running.add(nursery.start(_answer(open_one, index, text, keep), f"input {index}"))
                if len(running) == max_parallel:
                    break
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


def _check(fields: object, inputs: object, max_parallel: object) -> None:
    """Refuse, before a conversation is opened, what would fail for every input or run without a bound."""
    if not isinstance(fields, Mapping):
        raise InvalidParamsError(f"map: the fields must be a mapping, as `open` takes them, not {fields!r:.100}")
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Iterable):
        raise InvalidParamsError(f"map: inputs must be several texts, such as a list of them, not {inputs!r:.100}")
    if isinstance(max_parallel, bool) or not isinstance(max_parallel, int) or max_parallel < 1:
        raise InvalidParamsError(f"max_parallel must be a whole number of at least 1, not {max_parallel!r:.100}")


async def _answer(open_one: Callable[[], Awaitable[Conversation]], index: int, text: str, keep: bool) -> MappedReply:
    """The reply to one input. A refusal is a reply too: the other inputs are answered all the same."""
    conversation = None
    try:
        conversation = await open_one()
        reply = await conversation.message(text)
    except TertuliaError as error:
        reply = Reply(None, "failed", NO_USAGE, 0, 0.0, TaskId(""), "", Failure.of(error))
    finally:
        if conversation is not None and not keep:
            await conversation.close()
    fields: dict[str, Any] = {**asdict(reply), "usage": reply.usage, "error": reply.error}
    return MappedReply(**fields, index=index, conversation_id=None if conversation is None else conversation.id)
