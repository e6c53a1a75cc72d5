"""`tertulia serve` and the sessions that other processes hold: used, followed and answered over its WebSocket."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.server.served import SocketClient, served
from tests.server.sockets.gated_exec import gated_exec

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
