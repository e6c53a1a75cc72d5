"""`tertulia serve` and the sessions that other processes hold: used, followed and answered over its WebSocket."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import ClosedError
from tertulia.scheduler.nursery import Nursery
from tertulia.server.sockets import relay
from tertulia.server.sockets.other_processes import OtherProcesses
from tertulia.server.sockets.relay import SessionRelay
from tertulia.server.sockets.session_sockets import reachable
from tertulia.session.host import Host
from tertulia.session.host_feed.cards import HostEvent
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S
from tests.server.client import model
from tests.server.served import SocketClient, served
from tests.server.sockets.gated_exec import gated_exec
from tests.server.sockets.line_client import sockets_folder

pytestmark = pytest.mark.slow


async def host_event(client: SocketClient, kind: str, session_id: str) -> dict[str, Any]:
    """The first `host_event` of that type about the session."""

    def found() -> list[Any]:
        return [
            notice["session"]
            for notice in client.notices
            if (notice["type"], notice["session"]["session_id"]) == (kind, session_id)
        ]

    await client.until(lambda: bool(found()))
    return found()[0]


async def test_an_exec_of_another_process_is_listed_followed_and_answered_on_the_websocket(tmp_path: Path) -> None:
    """Issue 23: the dashboard's way; a client that uses another session hears nothing of it."""
    async with served() as place, gated_exec(tmp_path / "work") as running:
        async with place.socket() as page, place.socket() as other:
            for client, name in ((page, "page"), (other, "other")):
                await client.call("initialize", observe=True, attend=True, client={"name": name, "version": "1"})
            cards = (await page.call("host/subscribe"))["result"]["sessions"]
            (card,) = cards
            assert (card["session_id"], card["where"]) == (running.session_id, "elsewhere")
            assert card["process"] == {"pid": running.process.pid, "program": "exec"}
            board = await page.call("session/board", session_id=running.session_id)
            assert board["result"]["board"]
            answer = await page.call("events/subscribe", session_id=running.session_id, after_seq=0, attend=True)
            assert answer["result"]["subscribed"] is True
            running.open_gate()
            request = await page.event("approval_request")
            assert request["session_id"] == running.session_id
            approval = {"session_id": running.session_id, "approval_id": request["data"]["approval_id"]}
            assert (await page.call("approval/resolve", **approval, decision="allow"))["result"]["resolved"]
            resolved = await page.event("approval_resolved")
            assert resolved["data"]["by"]["name"] == "page 1"
            assert (await running.end())[0] == 0
            assert running.made
            assert (await other.call("session/list"))["result"]["sessions"] == []
            assert other.events == []
            gone = await page.call("session/info", session_id=running.session_id)
            assert gone["error"]["data"]["code"] in ("not_found", "closed")
        assert not place.host.sessions


async def test_a_process_that_is_killed_gives_session_closed_and_its_requests_an_error(tmp_path: Path) -> None:
    async with served() as place, gated_exec(tmp_path / "work") as running, place.socket() as page:
        await page.call("initialize", observe=True)
        (card,) = (await page.call("host/subscribe"))["result"]["sessions"]
        assert card["state"] == "running"
        await page.call("events/subscribe", session_id=running.session_id)
        os.kill(running.process.pid, signal.SIGKILL)
        ended = await host_event(page, "session_closed", running.session_id)
        assert ended["running"] == 0
        gone = await page.call("session/info", session_id=running.session_id)
        assert gone["error"]["data"]["code"] in ("not_found", "closed")


async def test_sessions_that_have_ended_do_not_count_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that stays open sees any number of short sessions of other processes."""
    monkeypatch.setattr(relay, "MAX_SESSIONS", 1)
    settings = Settings(model=model(), session_sockets=True)
    async with served() as place, place.socket() as page:
        await page.call("initialize", observe=True)
        async with reachable(Session.start(settings)) as first:
            assert "result" in await page.call("session/info", session_id=first.id)
            async with reachable(Session.start(settings)) as second:
                refused = await page.call("session/info", session_id=second.id)
                assert refused["error"]["data"]["code"] == "limit"
        async with reachable(Session.start(settings)) as third:
            assert "result" in await page.call("session/info", session_id=third.id)


class _NoSink:
    def send(self, messages: object) -> None:
        """Nothing is expected."""

    async def drain(self) -> None:
        """Nothing was sent."""


async def test_a_connection_that_is_made_while_its_client_leaves_is_closed_again() -> None:
    """Else it attends for a client that is gone, and what `exec` asks waits for no answer."""
    async with reachable(Session.start(Settings(model=model(), session_sockets=True))) as session:
        way = SessionRelay(sockets_folder().parent, Host(Settings(model=model())), _NoSink())
        nursery = Nursery()
        asking = nursery.start(way.call(session.id, "session/info", {}, client="page", attend=True), "a request")
        await asyncio.sleep(0)
        await way.close()
        async with asyncio.timeout(HANG_S):
            with pytest.raises(ClosedError):
                await asking
        await nursery.close(0)


async def test_who_comes_when_all_others_leave_hears_of_every_session() -> None:
    """The page is loaded again: what ends of the former look ends nothing of the new one."""
    nursery = Nursery()
    async with reachable(Session.start(Settings(model=model(), session_sockets=True))) as session:
        others = OtherProcesses(sockets_folder().parent, Host(Settings(model=model())), nursery)
        heard: list[HostEvent] = []
        for wait in (False, True, True):
            heard.clear()
            leave = others.follow(heard.append)
            if wait:
                assert [card.session_id for card in await others.cards()] == [session.id]
                assert [event.type for event in heard] == ["session_opened"]
            else:
                # It leaves in the middle of connecting.
                nursery.start(others.cards(), "a look")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            leave()
    await nursery.close(0)
