"""The process: many sessions, each by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia.errors import ClosedError, InvalidParamsError, LimitError, NotFoundError
from tertulia.session import host as module
from tertulia.testing import ScriptedModel, call, say
from tests.deadlines import HANG_S
from tests.session.staging import ticks


def host(*replies: Any, **settings: Any) -> tertulia.Host:
    return tertulia.Host(tertulia.Settings(model=ScriptedModel(replies), **settings))


async def test_a_host_holds_sessions_by_id() -> None:
    held = host()
    one, two = await held.start(), await held.start()
    assert (len(held), held.sessions) == (2, [one, two])
    assert held[two.id] is two
    assert one.id != two.id
    await held.close()
    assert len(held) == 0


async def test_sessions_do_not_wait_for_each_other() -> None:
    """DESIGN, Nouns: editors' tabs are sessions, so that they never wait for each other."""
    held = host(say("never", gate=asyncio.Event(), match="hold"), say("ok", repeat=True))
    one, two = await held.start(), await held.start()
    running = asyncio.create_task(one.root.message("hold"))
    await ticks()
    assert (await two.root.message("hi")).text == "ok"
    await held.close()
    assert (await running).status == "interrupted"


async def test_a_session_may_have_settings_of_its_own() -> None:
    held = host()
    own = await held.start(tertulia.Settings(model=ScriptedModel(["mine"])))
    assert (await own.root.message("hi")).text == "mine"
    await held.close()


async def test_closed_and_unknown_sessions_are_different() -> None:
    held = host()
    session = await held.start()
    assert held[session.id] is session
    assert await held.close_session(session) is False
    with pytest.raises(ClosedError):
        held[session.id]
    with pytest.raises(NotFoundError):
        held["nobody" * 1_000]
    assert await held.close_session(session) is False
    await held.close()


async def test_a_time_that_is_refused_closes_nothing() -> None:
    held = host("ok")
    session = await held.start()
    with pytest.raises(InvalidParamsError):
        await held.close_session(session, -1)
    assert held[session.id] is session
    assert (await session.root.message("hi")).text == "ok"
    await held.close()


async def test_all_sessions_are_closed_at_the_same_time_even_if_one_must_be_forced() -> None:
    free = asyncio.Event()

    @tertulia.tool
    async def stubborn() -> str:
        """Ignore cancellation."""
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return ""

    held = host(say("", call("stubborn"), match="hold", repeat=True), tools=[stubborn])
    sessions = [await held.start() for _ in range(3)]
    waiting = [asyncio.create_task(session.root.message("hold")) for session in sessions]
    await ticks()
    async with asyncio.timeout(HANG_S):
        await held.close(timeout=0.01)
    assert [(await task).status for task in waiting] == ["interrupted"] * 3
    assert all(session.closed for session in sessions)
    free.set()
    await ticks()


async def test_a_process_holds_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 1)
    held = host()
    session = await held.start()
    with pytest.raises(LimitError):
        await held.start()
    await held.close_session(session)
    await held.start()
    assert len(held) == 1
    await held.close()


async def test_a_session_that_does_not_start_is_not_held() -> None:
    held = host()
    with pytest.raises(InvalidParamsError):
        await held.start(tertulia.Settings(model="nobody/knows"))
    assert len(held) == 0


async def test_several_who_bring_back_one_session_at_once_get_the_same() -> None:
    """Issue 10 (2): clients that reconnect after a restart; one that fails leaves the way free for the next."""
    first = host("Hello.")
    session = await first.start()
    await session.root.message("Hi")
    await first.close()
    held = host("Again.")
    back = await asyncio.gather(*(held.resume(session.id) for _ in range(5)))
    assert held.sessions == [back[0]]
    assert {id(one) for one in back} == {id(back[0])}
    await held.close()
    nobody = "00000000-0000-4000-8000-000000000000"
    for answer in await asyncio.gather(*(held.resume(nobody) for _ in range(3)), return_exceptions=True):
        assert isinstance(answer, NotFoundError)


async def test_the_end_of_a_session_that_is_brought_back_meanwhile_does_not_take_the_new_one() -> None:
    """Issue 10 (2): both have one id."""
    held = host("Hello.", "Again.")
    old = await held.start()
    await old.root.message("Hi")
    await old.close()
    new = await held.resume(old.id)
    await held.close_session(old)
    assert held[old.id] is new
    await held.close()
