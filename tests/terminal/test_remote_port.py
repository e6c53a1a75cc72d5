"""A session behind `tertulia serve`: its operations, its events over lost connections, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tertulia import Settings
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.events import AgentMessage
from tertulia.server.http.server import listen, url_of
from tertulia.server.web_app import serve_web_app
from tertulia.terminal.remote_port import RemotePort
from tertulia.testing import ScriptedModel
from tertulia.view.board import Board
from tertulia.view.cells import AssistantCell
from tertulia.view.snapshot import read_snapshot
from tests.deadlines import HANG_S
from tests.tables import each_row

TOKEN = "t" * 64


@asynccontextmanager
async def serving(work: Path, *replies: Any) -> AsyncGenerator[str]:
    """The address of a server whose model answers so."""
    settings = Settings(model=ScriptedModel(list(replies)), cwd=str(work), storage_policy="none")
    stop = asyncio.Event()
    with listen(0) as listening:
        async with asyncio.TaskGroup() as group:
            group.create_task(serve_web_app(settings, listening, TOKEN, stop))
            try:
                yield url_of(listening)
            finally:
                stop.set()


async def texts(port: RemotePort, board: Board, until: str) -> list[int]:
    """Follow until this was answered; the numbers of the events that came."""
    numbers: list[int] = []
    async with asyncio.timeout(HANG_S):
        events = port.events(board.seq)
        async for event in events:
            board.take(event)
            if event.seq is not None:
                numbers.append(event.seq)
            if isinstance(event.data, AgentMessage) and event.data.text == until:
                await events.aclose()
                break
    return numbers


async def test_a_message_is_sent_and_its_events_come(tmp_path: Path) -> None:
    async with serving(tmp_path, "Good morning.") as url:
        port = await RemotePort.open(url, TOKEN)
        board = Board()
        await port.call("conversation/message", conversation_id="root", text="hello", detach=True)
        await texts(port, board, "Good morning.")
        assert board.root_id is not None
        assert not port.local
        await port.close()


async def test_a_lost_connection_is_made_again_and_no_event_is_lost_or_doubled(tmp_path: Path) -> None:
    async with serving(tmp_path, "One.", "Two.") as url:
        port = await RemotePort.open(url, TOKEN)
        other = await RemotePort.open(url, TOKEN)
        seen: list[int] = []
        async with asyncio.timeout(HANG_S):
            await port.call("conversation/message", conversation_id="root", text="a", detach=True)
            async for event in port.events(0):
                if event.seq is not None:
                    seen.append(event.seq)
                if isinstance(event.data, AgentMessage) and event.data.text == "One.":
                    assert port._socket is not None
                    await port._socket.close()
                    await other.call("conversation/message", conversation_id="root", text="b", detach=True)
                if isinstance(event.data, AgentMessage) and event.data.text == "Two.":
                    break
        assert seen == list(range(seen[0], seen[0] + len(seen)))
        await port.close()
        await other.close()


async def test_events_that_came_before_they_were_asked_for_come_once(tmp_path: Path) -> None:
    async with serving(tmp_path, "One.", "Two.") as url, asyncio.timeout(HANG_S):
        port = await RemotePort.open(url, TOKEN)
        await port.call("conversation/message", conversation_id="root", text="a")
        events = port.events(0)
        numbers = [(await anext(events)).seq or 0]
        await port.call("conversation/message", conversation_id="root", text="b")
        async for event in events:
            numbers += [] if event.seq is None else [event.seq]
            if isinstance(event.data, AgentMessage) and event.data.text == "Two.":
                break
        assert numbers == list(range(1, len(numbers) + 1))
        await port.close()


async def test_who_attaches_in_the_middle_of_an_answer_sees_its_beginning_and_every_piece_after(tmp_path: Path) -> None:
    """Issue 22 (6): the events are followed before the board is made, and those in it do not come again."""
    slow = {"text": "One two three four five six seven eight.", "delay_between_ms": 20}
    async with serving(tmp_path, slow) as url, asyncio.timeout(HANG_S):
        first = await RemotePort.open(url, TOKEN)
        await first.call("conversation/message", conversation_id="root", text="count", detach=True)
        async for event in first.events(0):
            if event.type == "agent_message_delta" and "two" in event.data.text:
                break
        late = await RemotePort.open(url, TOKEN)
        board = read_snapshot(msgspec.json.encode(await late.board()))
        (view,) = board.conversations.values()
        cell = view.cells[-1]
        assert isinstance(cell, AssistantCell)
        assert cell.text.startswith("One two ")
        seen: list[int] = []
        async for event in late.events(board.seq):
            board.take(event)
            seen += [] if event.seq is None else [event.seq]
            assert cell.missing == 0
            if event.type == "task_complete":
                break
        assert cell.text == "One two three four five six seven eight."
        assert [type(one) for one in view.cells].count(AssistantCell) == 1
        assert seen == sorted(set(seen))
        await first.close()
        await late.close()


async def test_what_the_server_refuses_has_its_own_error(tmp_path: Path) -> None:
    async with serving(tmp_path, "Good morning.") as url:
        port = await RemotePort.open(url, TOKEN)
        with pytest.raises(NotFoundError):
            await port.call("conversation/history", conversation_id="nothing")
        await port.close()
        with pytest.raises(InvalidParamsError, match="the token is not that of this server"):
            await RemotePort.open(url, "wrong")
        with pytest.raises(InvalidParamsError, match="which session"):
            await RemotePort.open(url, TOKEN, "ffff")


@each_row(
    "url, reason",
    [
        ("http://me:secret@127.0.0.1:1", "does not belong in the address"),
        ("http://127.0.0.1:1/?token=secret", "does not belong in the address"),
        ("http://box.example:1", "readable"),
        ("ftp://127.0.0.1", "no address of a server"),
        ("http://127.0.0.1:1", "cannot be reached"),
    ],
)
async def test_an_address_that_gives_the_token_away_or_leads_nowhere_is_refused(url: str, reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        await RemotePort.open(url, TOKEN)
