"""Headers that take too long or are too many, and frames of every length."""

from __future__ import annotations

import asyncio
import json

import pytest

from tertulia.server.http import uvicorn_protocols
from tests.server.served import DEADLINE_S, served, status
from tests.tables import each_row


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
async def test_a_request_that_does_not_get_to_the_point_is_ended(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """D11: slow-loris, from before the first byte on. Others are served meanwhile."""
    monkeypatch.setattr(uvicorn_protocols, "HEADER_S", 0.2)
    async with served() as place:
        slow = asyncio.ensure_future(place.raw(sent))
        assert status(await place.raw(place.head("GET", "/health"))) == 200
        assert status(await slow) == 408


async def test_a_byte_now_and_then_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11: the deadline is for all headers, not for the next byte."""
    monkeypatch.setattr(uvicorn_protocols, "HEADER_S", 0.3)
    async with served() as place, asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"GET / HTTP/1.1\r\n")
        answered = asyncio.ensure_future(reader.read())
        while not answered.done():
            writer.write(b"X: 1\r\n")
            await asyncio.wait((answered,), timeout=0.05)
        assert status(answered.result()) == 408
        writer.close()


async def test_a_connection_that_is_kept_has_the_same_deadline_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11."""
    monkeypatch.setattr(uvicorn_protocols, "HEADER_S", 0.3)
    async with served() as place:
        request = place.head("GET", "/health", Connection="keep-alive")
        answer = await place.raw(request + b"GET /health HTTP/1.1\r\n")
        assert answer.count(b"HTTP/1.1 200") == 1
        assert b"HTTP/1.1 408" in answer


@each_row(
    "head",
    [
        b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(6_000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
    ],
    ids=["a long path", "a long header", "many headers", "a header without end"],
)
async def test_headers_have_a_limit(head: bytes) -> None:
    """Issue 10: header limits. Nothing of them is kept beyond it."""
    async with served() as place:
        assert status(await place.raw(head, more=True)) == 431
        assert status(await place.raw(place.head("GET", "/health"))) == 200


@each_row(
    "more",
    [
        b"".join(b"X-%d: 1\r\n" % number for number in range(200)) + b"\r\n",
        b"X: " + b"y" * 9_000 + b"\r\n\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=["many headers", "a long header", "a body", "a body in pieces"],
)
async def test_a_websocket_that_cannot_be_opened_is_ended_at_once(more: bytes) -> None:
    """D11: such a connection would be held open for ever, without a token and without a word."""
    async with served() as place:
        for headers in ({}, {"Authorization": None}):
            text = place.upgrade(**headers).removesuffix(b"\r\n") + more
            assert status(await place.raw(text)) == 400
        assert status(await place.raw(place.upgrade("/" + "x" * 9_000))) == 400
        assert not place.web.clients


@each_row("junk", [b"\x16\x03\x01\x00", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100])
async def test_what_is_not_http_is_ended(junk: bytes) -> None:
    """D12."""
    async with served() as place:
        assert status(await place.raw(junk)) in (0, 400)
        assert status(await place.raw(place.head("GET", "/health"))) == 200


async def test_half_of_a_connection_is_none() -> None:
    """D11: a client that closes its side is gone."""
    async with served() as place, asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"GET /health HTTP/1.1\r\n")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


@each_row("size", [0, 50, 125, 126, 200, 65_535, 65_536, 200_000])
async def test_messages_of_every_length_arrive_whole(size: int) -> None:
    """RFC 6455, 5.2: three ways to write a length."""
    async with served() as place, place.socket() as client:
        number = await client.send("x" * size)
        answer = await client.answer(number)
        assert answer["error"]["data"]["code"] == "not_initialized"
        await client.call("initialize")
        text = "é" * size
        opened = await client.call("conversation/open", title="t", base_instructions=text)
        assert opened["result"]["context"]["base_instructions"] == text
        assert json.dumps(opened)


async def test_fields_behind_a_body_are_no_headers() -> None:
    """D4, D11: they come after all checks, and there may be any number of them."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    accept = b"Accept: application/json, text/event-stream\r\n"
    async with served() as place:
        head = place.head("POST", "/mcp", Content_Type="application/json", Transfer_Encoding="chunked")
        chunked = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
        before = head.removesuffix(b"\r\n") + accept + b"\r\n" + chunked + b"\r\n"
        assert status(await place.raw(before)) == 400, "it has no session"
        assert status(await place.raw(head + chunked + accept + b"\r\n")) == 406
