"""Requests about sessions that are cancelled or sent twice: whatever happens, nothing of them stays open."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.server.acp.agent import AcpAgent
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S
from tests.executors.agents import until
from tests.server.client import MemorySink
from tests.thorough import times


class Connection:
    """One ACP client, line by line, and the host that it talks to."""

    def __init__(self, cwd: Path) -> None:
        settings = Settings(model=ScriptedModel(["hello"], repeat=True), cwd=str(cwd), close_timeout_s=5)
        self.host = Host(settings)
        self.sink = MemorySink()
        self.cwd = cwd
        factory = SessionFactory(
            self.host,
            lambda where: DirectorySettings(replace(settings, cwd=str(where))),
            current_environment(),
            model=True,
        )
        self.agent = AcpAgent(factory, self.sink)
        self._ids = count(1)

    async def begin(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        id = next(self._ids)
        if method in ("session/new", "session/load", "session/resume", "session/fork"):
            params |= {"cwd": str(self.cwd), "mcpServers": []}
        await self._send({"id": id, "method": method, "params": params})
        return id

    async def answer(self, id: int) -> dict[str, Any]:
        return await self.sink.until(lambda message: "method" not in message and message["id"] == id)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.answer(await self.begin(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def take_back(self, id: int) -> None:
        await self._send({"method": "$/cancel_request", "params": {"requestId": id}})

    async def _send(self, message: dict[str, Any]) -> None:
        async with asyncio.timeout(HANG_S):
            await self.agent.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def quiet(self) -> None:
        """Until nothing is being carried out any more."""
        async with asyncio.timeout(HANG_S):
            await self.agent.idle()

    @property
    def shown(self) -> int:
        """How many sessions the client has open."""
        return sum(1 for _ in self.agent._sessions)

    def held(self) -> Counter[str]:
        """What is open: sessions, files, sockets and tasks."""
        tasks = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
        return Counter(
            [
                *(f"session {session.id}" for session in self.host.sessions),
                *(f"shown {session.session.id}" for session in self.agent._sessions),
                *(f"task {name}" for name in tasks if not name.startswith("Task-")),
                *(f"file {name}" for name in _files()),
            ]
        )


def _files() -> list[str]:
    links: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            # That of the listing itself.
            continue
    return [link for link in links if not link.startswith("/proc/")]


@asynccontextmanager
async def connected(cwd: Path) -> AsyncIterator[Connection]:
    at = Connection(cwd)
    await at.call("initialize", protocolVersion=1)
    try:
        yield at
    finally:
        async with asyncio.timeout(HANG_S):
            await at.agent.close(5)
            await at.host.close(5)


async def left(at: Connection, before: Counter[str]) -> dict[str, int]:
    """What is open and was not before, when it is clear that it stays: a thread may still close what it had opened."""
    for _ in range(20_000):
        if not (more := at.held() - before):
            break
        await asyncio.sleep(0)
    return dict(more)


@pytest.fixture
async def stored(tmp_path: Path) -> str:
    """A stored session in which something was said."""
    settings = Settings(model=ScriptedModel(["ok"]), cwd=str(tmp_path))
    async with Session.start(settings) as session:
        await session.root.message("hello")
        return session.id


def stored_sessions() -> set[str]:
    home = current_environment().home
    return {path.name for path in home.rglob("*.db")}


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/fork"])
async def test_cancelled_at_any_moment_nothing_stays_open(method: str, tmp_path: Path, stored: str) -> None:
    """Issue 25, 2: the client was told that it was cancelled, and would never close it."""
    params = {} if method == "session/new" else {"sessionId": stored}
    async with connected(tmp_path) as at:
        # What is loaded or swept once is not what is looked for.
        first = await at.call(method, **params)
        await at.call("session/close", sessionId=first.get("sessionId", stored))
        cancelled = 0
        for steps in range(0, times(600, 60), 2):
            await at.quiet()
            before, files = at.held(), stored_sessions()
            id = await at.begin(method, **params)
            for _ in range(steps * 3):
                await asyncio.sleep(0)
            await at.take_back(id)
            answer = await at.answer(id)
            if "result" in answer:
                await at.call("session/close", sessionId=answer["result"].get("sessionId", stored))
            else:
                cancelled += 1
                assert answer["error"]["code"] == -32800
                # A session in which nothing was said is stored, and not listed; a copy would be.
                assert stored_sessions() == files or method == "session/new"
            assert await left(at, before) == {}
        assert cancelled


async def test_sent_twice_at_once_it_is_one_session(tmp_path: Path, stored: str) -> None:
    """Issue 25, 2: two loads are answered by one session; of two closings the second finds none."""
    async with connected(tmp_path) as at:
        before = at.held()
        ids = [await at.begin("session/load", sessionId=stored) for _ in range(2)]
        assert all(["result" in await at.answer(id) for id in ids])
        assert (len(at.host.sessions), at.shown) == (1, 1)
        ids = [await at.begin("session/close", sessionId=stored) for _ in range(2)]
        first, second = [await at.answer(id) for id in ids]
        assert "result" in first
        assert second["error"]["code"] == -32002
        assert await left(at, before) == {}


@pytest.mark.parametrize("which", [0, 1])
async def test_of_two_loads_one_can_be_cancelled(which: int, tmp_path: Path, stored: str) -> None:
    """Issue 25, 2: the other one is answered, and its session works."""
    async with connected(tmp_path) as at:
        for steps in range(times(300, 20)):
            ids = [await at.begin("session/load", sessionId=stored) for _ in range(2)]
            for _ in range(steps * 5):
                await asyncio.sleep(0)
            await at.take_back(ids[which])
            answers = [await at.answer(id) for id in ids]
            assert "result" in answers[1 - which]
            text = [{"type": "text", "text": "hello"}]
            assert (await at.call("session/prompt", sessionId=stored, prompt=text))["stopReason"] == "end_turn"
            await at.call("session/close", sessionId=stored)
            await at.quiet()
            assert (len(at.host.sessions), at.shown) == (0, 0)


async def test_a_closing_that_is_cancelled_closes_all_the_same(tmp_path: Path, stored: str) -> None:
    """Issue 25, 2: the session is closing, and nobody else would see to its end."""
    async with connected(tmp_path) as at:
        await at.call("session/load", sessionId=stored)
        await at.call("session/close", sessionId=stored)
        for steps in range(times(200, 20)):
            await at.quiet()
            before = at.held()
            await at.call("session/load", sessionId=stored)
            id = await at.begin("session/close", sessionId=stored)
            for _ in range(steps):
                await asyncio.sleep(0)
            await at.take_back(id)
            await at.answer(id)
            assert await left(at, before) == {}


async def test_a_load_that_is_cancelled_while_the_history_is_sent_leaves_no_session(
    tmp_path: Path, stored: str
) -> None:
    """Issue 25, 2: a client that does not read and then takes the request back has no session open."""
    async with connected(tmp_path) as at:
        at.sink.stick()
        loading = asyncio.create_task(at.begin("session/load", sessionId=stored))
        await until(lambda: at.shown)
        taking = asyncio.create_task(at.take_back(2))
        answer = await at.answer(2)
        assert answer["error"]["code"] == -32800
        at.sink.loosen()
        assert await loading == 2
        await taking
        assert (len(at.host.sessions), at.shown) == (0, 0)
