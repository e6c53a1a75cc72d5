"""Sessions that nobody needs any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tertulia.models.scripted.script import say
from tertulia.server import idle_sessions
from tertulia.server.idle_sessions import IdleSessionCloser
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tertulia.testing import FakeClock
from tests.mcp.connected import until
from tests.server.client import model


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host(Settings(model=model()))
    yield host
    await host.close()


async def test_one_that_nobody_follows_is_closed_after_a_while_and_can_be_resumed(host: Host) -> None:
    clock = FakeClock()
    session = await host.start()
    idle = IdleSessionCloser(host, clock, idle_s=100)
    await idle.look()
    clock.advance(99)
    await idle.look()
    assert host.sessions == [session]
    clock.advance(1)
    await idle.look()
    assert not host.sessions
    assert (await host.resume(session.id)).id == session.id


async def test_one_whose_words_would_be_lost_stays_a_day() -> None:
    """What a client finds when it comes back is what it left."""
    clock = FakeClock()
    host = Host(Settings(model=model(), storage_policy="headers_only"))
    session = await host.start()
    idle = IdleSessionCloser(host, clock, idle_s=100)
    await idle.look()
    clock.advance(2_399)
    await idle.look()
    assert host.sessions == [session]
    clock.advance(1)
    await idle.look()
    assert not host.sessions
    await host.close()


async def test_whatever_happens_in_it_begins_the_wait_again(host: Host) -> None:
    clock = FakeClock()
    session = await host.start()
    idle = IdleSessionCloser(host, clock, idle_s=100)
    for _ in range(5):
        await idle.look()
        clock.advance(60)
        await session.root.message("hi")
    await idle.look()
    clock.advance(99)
    await idle.look()
    assert host.sessions == [session]


async def test_one_that_somebody_follows_stays(host: Host) -> None:
    """X-70: as long as a client is connected."""
    clock = FakeClock()
    session = await host.start()
    idle = IdleSessionCloser(host, clock, idle_s=100)
    async with session.events():
        for _ in range(3):
            await idle.look()
            clock.advance(1_000)
        assert host.sessions == [session]
    for _ in range(2):
        await idle.look()
        clock.advance(1_000)
    await idle.look()
    assert not host.sessions


async def test_one_in_which_something_runs_stays() -> None:
    """A dropped socket stops nothing."""
    clock, gate = FakeClock(), asyncio.Event()
    host = Host(Settings(model=model([say("late", gate=gate)])))
    session = await host.start()
    running = asyncio.ensure_future(session.root.message("hi"))
    await until(lambda: session.root.info.status == "running")
    idle = IdleSessionCloser(host, clock, idle_s=100)
    for _ in range(3):
        await idle.look()
        clock.advance(1_000)
    assert host.sessions == [session]
    gate.set()
    assert (await running).text == "late"
    await host.close()


async def test_it_looks_now_and_then(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_sessions, "LOOK_EVERY_S", 0)
    await host.start()
    looking = asyncio.ensure_future(IdleSessionCloser(host, FakeClock(), idle_s=0).keep_looking())
    await until(lambda: not host.sessions)
    looking.cancel()
