"""MCP over HTTP, both eras, with the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tertulia.errors import McpError
from tertulia.server.mcp import conversation_server
from tests.server.brokering import News
from tests.server.mcp_stage import ERAS
from tests.server.served import DEADLINE_S, TOKEN, Place, served, status
from tests.tables import each_row

ENVELOPE: dict[str, Any] = {
    "protocolVersion": "2026-07-28",
    "clientCapabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@asynccontextmanager
async def client(place: Place, era: Any, **options: Any) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        url = f"http://127.0.0.1:{place.port}/mcp"
        async with Client(streamable_http_client(url, http_client=http), mode=era, **options) as connected:
            yield connected


@pytest.mark.parametrize("era", ERAS)
async def test_conversations_are_there_for_whoever_brings_the_token(era: str) -> None:
    """X-69: the conversation is named in the call; another connection finds it."""
    async with served() as place:
        async with client(place, era) as one:
            opened: Any = (await one.call_tool("conversation_open", {"title": "helper"})).structured_content
        async with client(place, era) as two:
            structured_content: Any = (
                await two.call_tool(
                    "conversation_message", {"conversation_id": opened["conversation_id"], "text": "hi"}
                )
            ).structured_content
            assert structured_content["last_assistant_message"] == "hello"
            assert len((await two.list_resources()).resources) == 2
        assert len(place.host.sessions) == 1


async def test_clients_of_the_old_era_that_follow_are_told_when_there_are_other_conversations() -> None:
    """Issue 10: `resources/list_changed`, promised in the handshake over HTTP too; all of them, whoever did it."""
    heard = [News(), News()]
    async with served() as place, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(place, "legacy", message_handler=news)) for news in heard]
        for one in clients:
            offered = one.server_capabilities.resources
            assert offered is not None
            assert offered.list_changed
        async with asyncio.timeout(DEADLINE_S):
            while not all(news.came.is_set() for news in heard):
                # What is said before a client has begun to follow is not for it.
                await clients[0].call_tool("conversation_open", {})
        assert {method for news in heard for method in news.methods} == {"notifications/resources/list_changed"}


async def test_a_client_of_the_new_era_listens_for_it() -> None:
    """Issue 10."""
    async with served() as place, client(place, "auto") as one, one.listen(resources_list_changed=True) as listening:
        await one.call_tool("conversation_open", {})
        async with asyncio.timeout(DEADLINE_S):
            assert type(await anext(aiter(listening))).__name__ == "ResourcesListChanged"


async def test_nothing_is_loaded_and_nothing_begins_before_somebody_asks() -> None:
    async with served() as place:
        assert status(await place.raw(place.head("GET", "/health"))) == 200
        assert not place.host.sessions


@each_row(
    "body",
    [
        b"{}",
        b"[]",
        b"17",
        b'"text"',
        b"null",
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"conversation_list","arguments":[]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"\\ud800"}}',
        b"[" + b",".join([PING] * 1_000) + b"]",
    ],
    ids=range(13),
)
async def test_what_is_no_request_is_a_client_error_and_never_ours(body: bytes) -> None:
    """D9, D10, D17: no 500, and the next request is served."""
    async with served() as place:
        for version in ({}, {"MCP_Protocol_Version": "2026-07-28"}, {"MCP_Protocol_Version": "1999-01-01"}):
            answer = await place.raw(place.post(body, **version))
            assert 400 <= status(answer) < 500, answer
        async with client(place, "auto") as one:
            assert (await one.list_tools()).tools


NO_MESSAGES = {
    "null": b"null",
    "number": b"17",
    "text": b'"canary"',
    "true": b"true",
    "empty": b"{}",
    "no batch": b"[]",
    "batch": b"[" + PING + b"]",
    "batch of 1,000": b"[" + b",".join([PING] * 1_000) + b"]",
    "batch of nothing": b"[[], null]",
    "no method": b'{"jsonrpc":"2.0","canary":1}',
    "other version": b'{"jsonrpc":"canary","id":1,"method":"ping"}',
    "no version": b'{"id":1,"method":"canary"}',
    "method that is none": b'{"jsonrpc":"2.0","id":1,"method":{"canary":1}}',
    "id null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "id float": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "id object": b'{"jsonrpc":"2.0","id":{"canary":1},"method":"ping"}',
    "id true": b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "params list": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":["canary"]}',
    "params of a notification": b'{"jsonrpc":"2.0","method":"ping","params":"canary"}',
    "result that is none": b'{"jsonrpc":"2.0","id":1,"result":"canary"}',
    "result and error": b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"canary"}}',
    "neither": b'{"jsonrpc":"2.0","id":1}',
    "error without a code": b'{"jsonrpc":"2.0","id":1,"error":{"message":"canary"}}',
    "error with a wrong code": b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"canary"}}',
    "answer without version": b'{"id":1,"result":{"canary":1}}',
    "answer to nothing": b'{"jsonrpc":"2.0","id":null,"result":{"canary":1}}',
}


@each_row("era", [None, "2025-03-26", "2025-11-25", "2026-07-28"])
async def test_what_is_no_message_is_refused_in_one_sentence_that_repeats_nothing(era: str | None) -> None:
    """D9, D10, issue 10: in every era as JSON-RPC says it; batches too, which one version of MCP had."""
    async with served() as place:
        for name, body in NO_MESSAGES.items():
            answer = await place.raw(place.post(body, MCP_Protocol_Version=era))
            spoken_text = answer.partition(b"\r\n\r\n")[2]
            assert status(answer) == 400, name
            refused = json.loads(spoken_text)
            assert (refused["jsonrpc"], refused["id"] in (None, 1)) == ("2.0", True), name
            assert refused["error"]["code"] in (-32600, -32602), name
            message = refused["error"]["message"]
            assert 10 < len(message) < 120, name
            assert ("batches are not accepted" in message) == body.startswith(b"["), name
            for leaked in (b"canary", b"pydantic", b"alidation", b"\\n"):
                assert leaked not in spoken_text, name
        assert not place.host.sessions


async def test_a_stream_that_cannot_be_taken_up_again_begins_anew() -> None:
    """D17: `Last-Event-ID`, with which the SDK answers nothing at all; that would be a 500, and a line in the log."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode()
    async with served() as place, asyncio.timeout(DEADLINE_S):
        answer = await place.raw(place.post(body))
        (session,) = [line[16:].decode() for line in answer.split(b"\r\n") if line.startswith(b"mcp-session-id: ")]
        request_head = place.head("GET", "/mcp", Accept="text/event-stream", Mcp_Session_Id=session, Last_Event_ID="5")
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(request_head)
        assert status(await reader.readline()) == 200
        writer.close()


async def test_who_listens_hears_that_the_server_ends_and_nothing_of_it_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """H7: and whoever comes too late is refused, not failed."""
    caplog.set_level(logging.INFO, "uvicorn.error")
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in ENVELOPE.items()}
    params = {"notifications": {"resourcesListChanged": True}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}).encode()
    async with asyncio.timeout(DEADLINE_S):
        async with served() as place:
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(
                place.post(body, MCP_Protocol_Version=ENVELOPE["protocolVersion"], Mcp_Method="subscriptions/listen")
            )
            await reader.readuntil(b"acknowledged")
            slow, unfinished = await asyncio.open_connection("127.0.0.1", place.port)
            unfinished.write(place.post(body)[:-5])
            await place.web.close(1)
            ended = await reader.read()
            assert status(await place.raw(place.post(PING))) == 503
        assert b'"id":7,"result"' in ended.replace(b" ", b"")
        await slow.read()
        writer.close()
        unfinished.close()
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def test_without_the_sdk_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise McpError("pip install 'tertulia[mcp]'")

    monkeypatch.setattr(conversation_server, "load_sdk", missing)
    async with served() as place:
        answer = await place.raw(place.post(PING))
        assert status(answer) == 501
        assert "tertulia[mcp]" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
        assert status(await place.raw(place.head("GET", "/health"))) == 200
