"""What a client hears of, and what becomes of what it began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.subscriptions import Subscribe
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.connection import ClientSessions
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.mcp.connected import until
from tests.server.client import MemorySink, model


class Ears:
    """A following, its host, and everything that was sent."""

    def __init__(self) -> None:
        self.host = Host(Settings(model=model()))
        self.sink = MemorySink()
        self.nursery = Nursery()
        self.following = ClientSessions(self.host, self.sink, self.nursery, self.nursery.start)

    def heard(self, session_id: str) -> list[Any]:
        events = [message["params"] for message in self.sink.messages]
        return [event["type"] for event in events if event["session_id"] == session_id]


@pytest.fixture
async def ears() -> AsyncIterator[Ears]:
    ears = Ears()
    yield ears
    await ears.host.close()
    await ears.nursery.close(5)


async def test_what_began_here_is_heard_from_its_first_event_on_and_ends_with_the_client(ears: Ears) -> None:
    session = await ears.host.start()
    ears.following.adopt(session)
    ears.following.adopt(session)
    await until(lambda: ears.heard(session.id))
    assert ears.heard(session.id).count("session_configured") == 1
    await ears.following.close()
    assert session.closed


async def test_what_others_began_is_heard_from_now_on_and_stays(ears: Ears) -> None:
    """X-70: several clients on one session."""
    session = await ears.host.start()
    assert await ears.following.join(session.id) is session
    await session.root.message("hi")
    await until(lambda: "task_complete" in ears.heard(session.id))
    assert "session_configured" not in ears.heard(session.id)
    await ears.following.close()
    assert not session.closed


async def test_what_is_stored_is_brought_back_and_ends_with_the_client(ears: Ears) -> None:
    stored = await ears.host.start()
    await ears.host.close_session(stored)
    session = await ears.following.join(stored.id)
    assert session is not stored
    assert session.id == stored.id
    await ears.following.close()
    assert session.closed


async def test_nobody_can_join_what_never_was(ears: Ears) -> None:
    with pytest.raises(NotFoundError):
        await ears.following.join("5c7ae9e2-5c50-4d8e-8a5f-4ce2eb2e7d7a")
    assert not ears.host.sessions


async def test_a_client_that_is_gone_gets_nothing_and_stops_nothing(ears: Ears) -> None:
    """X-70: nothing that comes later either."""
    session = await ears.host.start()
    ears.following.adopt(session)
    await until(lambda: ears.heard(session.id))
    ears.following.leave()
    late = await ears.host.start()
    ears.following.adopt(late)
    before = len(ears.sink.sent)
    await session.root.message("hi")
    await until(lambda: not len(ears.nursery))
    assert len(ears.sink.sent) == before
    assert not session.closed
    assert not late.closed
    assert not session.parts.bus.followed


async def test_nobody_waits_for_events_that_a_client_will_never_take(ears: Ears) -> None:
    """An answer does not hang on a client that left."""
    session = await ears.host.start()
    ears.following.adopt(session)
    ears.sink.stick()
    await session.root.message("hi")
    waiting = asyncio.ensure_future(ears.following.sent(session.id, session.parts.bus.last_seq))
    await asyncio.sleep(0)
    assert not waiting.done()
    ears.following.leave()
    ears.sink.loosen()
    async with asyncio.timeout(HANG_S):
        await waiting
    await ears.following.sent("nobody's", 7)


async def test_a_cursor_from_the_future_is_refused_and_what_was_heard_goes_on(ears: Ears) -> None:
    session = await ears.host.start()
    ears.following.adopt(session)
    last = session.parts.bus.last_seq
    for wrong in (-1, last + 1):
        with pytest.raises(InvalidParamsError):
            ears.following.subscribe(session, Subscribe(after_seq=wrong))
    assert ears.following.subscribe(session, Subscribe(after_seq=0)).last_seq == last
    await session.root.message("hi")
    await until(lambda: "task_complete" in ears.heard(session.id))
