"""The broker over HTTP: the token or nothing, for programs on this machine, in both eras."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

import tertulia
from tertulia.mcp.view import NamedView
from tertulia.server.http.server import listen, url_of
from tertulia.server.mcp.broker_server import HTTP_PATH, open_client_broker, serve_broker_http
from tests.deadlines import HANG_S
from tests.mcp.connected import recorded, until
from tests.server.brokering import Person, bare_server, client, text

eras = pytest.mark.parametrize("era", ["old", "new"])
BODY = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


class Address:
    def __init__(self, session: tertulia.Session, url: str, token: str) -> None:
        self.session, self.url, self.token = session, url, token

    async def post(self, token: str | None, **headers: str) -> int:
        fields = {} if token is None else {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient() as http:
            return (await http.post(self.url, json=BODY, headers={**ACCEPT, **fields, **headers})).status_code

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        headers = {"authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=HANG_S) as http,
            streamable_http_client(self.url, http_client=http) as streams,
        ):
            yield streams


@asynccontextmanager
async def address(*options: str, **fields: Any) -> AsyncIterator[Address]:
    server = bare_server(*options, **fields)
    settings = tertulia.Settings(model="scripted/tour", mcp_servers={"fake": server}, is_broker=True)
    token, stop = secrets.token_hex(32), asyncio.Event()
    with listen(0) as listening:
        async with (
            tertulia.Session.start(settings) as session,
            open_client_broker(session, NamedView(name="all"), "http") as broker,
        ):
            serving = asyncio.create_task(serve_broker_http(broker, token, listening, stop))
            yield Address(session, url_of(listening) + HTTP_PATH, token)
            stop.set()
            await asyncio.wait_for(serving, HANG_S)


@eras
async def test_a_program_with_the_token_is_served(era: str) -> None:
    """Issue 8, item 6: over HTTP."""
    async with address() as here, client(here.transport(), era) as one, client(here.transport(), era) as two:
        assert "fake__echo" in [tool.name for tool in (await one.list_tools()).tools]
        assert text(await one.call_tool("fake__echo", {"text": "hi"})) == "hi"
        assert text(await one.call_tool("fake__pid", {})) == text(await two.call_tool("fake__pid", {}))


@eras
async def test_a_person_is_asked_over_http_too(era: str) -> None:
    person = Person({"decision": "allow"})
    async with (
        address(approval="prompt") as here,
        client(here.transport(), era, elicitation_callback=person) as connected,
    ):
        assert text(await connected.call_tool("fake__echo", {"text": "hi"})) == "hi"
    assert len(person.asked) == 1


async def test_one_who_cannot_be_asked_is_refused_though_another_could_be() -> None:
    """They share a conversation, and not their persons."""
    person = Person({"decision": "deny"})
    person.may_answer.clear()
    async with (
        address(approval="prompt") as here,
        client(here.transport(), "old", elicitation_callback=person) as with_person,
        client(here.transport(), "old") as mute,
        asyncio.TaskGroup() as group,
    ):
        waiting = group.create_task(with_person.call_tool("fake__echo", {"text": "a"}))
        await person.being_asked.wait()
        assert (await mute.call_tool("fake__echo", {"text": "b"})).is_error
        assert not waiting.done()
        person.may_answer.set()
        assert (await waiting).is_error
    assert len(person.asked) == 1


async def test_without_the_token_nothing_is_said() -> None:
    async with address() as here:
        for wrong in (None, "x", here.token[:-1], here.token + "0", here.token.upper(), "x" * 4_000):
            assert await here.post(wrong) == 401, wrong
        assert await here.post(None, authorization=f"Basic {here.token}") == 401
        async with httpx2.AsyncClient() as http:
            assert (await http.post(f"{here.url}?token={here.token}", json=BODY, headers=ACCEPT)).status_code == 401
            assert (await http.get(here.url, headers=ACCEPT)).status_code == 401
            assert (await http.get(here.url.removesuffix(HTTP_PATH) + "/anything")).status_code == 401
        assert await here.post(here.token) == 200


async def test_pages_and_other_names_are_refused_with_the_token_too() -> None:
    """DNS rebinding, and a browser that was told to."""
    async with address() as here:
        assert await here.post(here.token, host="evil.example") == 421
        assert await here.post(here.token, origin="https://evil.example") == 403
        assert await here.post(here.token, origin="null") == 403
        assert await here.post(here.token) == 200


async def test_who_hangs_up_gives_up_its_call(tmp_path: Path) -> None:
    """In the new era a connection is one request."""
    record = tmp_path / "record"
    async with address("--record", str(record)) as here, client(here.transport(), "new") as connected:
        calling = asyncio.create_task(connected.call_tool("fake__slow", {"seconds": 30}))
        await until(lambda: "call slow" in recorded(record))
        calling.cancel()
        await until(lambda: "cancelled slow" in recorded(record))


async def test_a_body_that_is_none_is_refused() -> None:
    async with address() as here, httpx2.AsyncClient(headers={"authorization": f"Bearer {here.token}"}) as http:
        kind = {**ACCEPT, "content-type": "application/json"}
        for body, status in ((b"{", 400), (b"[" * 100_000, 400), (b"\xff", 400)):
            assert (await http.post(here.url, content=body, headers=kind)).status_code == status
        assert (
            await http.post(here.url, content=b"{}", headers={**ACCEPT, "content-type": "text/plain"})
        ).status_code == 415
        assert await here.post(here.token) == 200


async def test_a_program_with_eight_hanging_calls_leaves_room_for_another(tmp_path: Path) -> None:
    """L3: all who have the token have one conversation, and each its own share."""
    record = tmp_path / "record"
    async with (
        address(f"--record={record}") as here,
        client(here.transport(), "old") as greedy,
        client(here.transport(), "old") as other,
        asyncio.TaskGroup() as group,
    ):
        hanging = [group.create_task(greedy.call_tool("fake__slow", {"seconds": 300})) for _ in range(8)]
        await until(lambda: record.exists() and recorded(record).count("call slow") == len(hanging))
        async with asyncio.timeout(HANG_S):
            assert text(await other.call_tool("fake__echo", {"text": "here"})) == "here"
        for call in hanging:
            call.cancel()
