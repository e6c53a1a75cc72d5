"""MCP over HTTP, both eras, with the SDK's own client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tertulia.errors import McpError
from tertulia.server import mcp_route
from tests.server.mcp_stage import ERAS
from tests.server.served import TOKEN, Place, served, status

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@asynccontextmanager
async def client(place: Place, era: str) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        url = f"http://127.0.0.1:{place.port}/mcp"
        async with Client(streamable_http_client(url, http_client=http), mode=era) as connected:  # type: ignore[arg-type]
            yield connected


@pytest.mark.parametrize("era", ERAS)
async def test_conversations_are_there_for_whoever_brings_the_token(era: str) -> None:
    """X-69: the conversation is named in the call; another connection finds it."""
    async with served() as place:
        async with client(place, era) as one:
            opened: Any = (await one.call_tool("conversation_open", {"title": "helper"})).structured_content
        async with client(place, era) as two:
            said: Any = (
                await two.call_tool(
                    "conversation_message", {"conversation_id": opened["conversation_id"], "text": "hi"}
                )
            ).structured_content
            assert said["last_assistant_message"] == "hello"
            assert len((await two.list_resources()).resources) == 2
        assert len(place.host.sessions()) == 1


async def test_nothing_is_loaded_and_nothing_begins_before_somebody_asks() -> None:
    async with served() as place:
        assert status(await place.raw(place.head("GET", "/health"))) == 200
        assert not place.host.sessions()


@pytest.mark.parametrize(
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


async def test_without_the_sdk_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise McpError("pip install 'tertulia[mcp]'")

    monkeypatch.setattr(mcp_route, "load_sdk", missing)
    async with served() as place:
        answer = await place.raw(place.post(PING))
        assert status(answer) == 501
        assert "tertulia[mcp]" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
        assert status(await place.raw(place.head("GET", "/health"))) == 200
