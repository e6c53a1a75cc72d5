"""A session on a script, from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import tertulia
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S

T = TypeVar("T")


def start_session(*replies: Any, **settings: Any) -> AbstractAsyncContextManager[tertulia.Session]:
    """A session whose model says these things, one after another."""
    return tertulia.Session.start(tertulia.Settings(**{"model": ScriptedModel(list(replies)), **settings}))


async def soon(something: Awaitable[T]) -> T:
    """Wait, but not for ever."""
    async with asyncio.timeout(DEADLINE_S):
        return await something


async def becomes(condition: Callable[[], bool]) -> None:
    """Let others run until it holds. By the clock: threads and other processes may have to do their part."""
    deadline = asyncio.get_running_loop().time() + HANG_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never happened"
        await asyncio.sleep(0)


async def past(session: tertulia.Session, **where: Any) -> list[tertulia.Event]:
    """Every durable event so far that `Session.events` would replay."""
    seen: list[tertulia.Event] = []
    async with asyncio.timeout(DEADLINE_S):
        # An event of our own marks the end: without it the stream would wait for news.
        mark = await session.open(title="mark")
        async for event in session.events(after=0):
            if event.type == "conversation_opened" and event.conversation_id == mark.id:
                break
            seen.append(event)
    return [event for event in seen if all(getattr(event, name) == value for name, value in where.items())]


def sent_texts(model: ScriptedModel, request: int = -1) -> list[str]:
    """The texts that a model was sent, in order."""
    parts = [part for item in model.requests[request].items for part in getattr(item, "parts", ())]
    return [part.text for part in parts]
