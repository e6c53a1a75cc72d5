"""Bodies over HTTP: what is not one readable JSON text in time is refused, and the server lives."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from tertulia.server.http import request_body
from tests.mcp.connected import until
from tests.server.served import Place, served, status

UNREADABLE = {
    "100,000 deep": b"[" * 100_000,
    "deep and closed": b'{"a":' * 200 + b"1" + b"}" * 200,
    "a huge integer": b'{"id":' + b"9" * 10_000 + b"}",
    "NaN": b'{"id":NaN}',
    "infinity": b'{"id":1e999}',
    "duplicate keys": b'{"method":"a","method":"b"}',
    "bad UTF-8": b'{"method":"\xff\xfe"}',
    "a byte order mark": b'\xef\xbb\xbf{"method":"ping"}',
    "UTF-16": '{"method":"ping"}'.encode("utf-16"),
    "two values": b"{}{}",
    "cut off": b'{"method":"pi',
    "nothing": b"",
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_can_be_read_in_two_ways_or_not_at_all_is_a_parse_error(body: bytes) -> None:
    """D9: before anybody else looks at it."""
    async with served() as place:
        answer = await place.raw(place.post(body))
        assert status(answer) == 400
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32700
        await _lives(place)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None])
async def test_what_a_page_can_send_without_being_asked_is_refused(kind: str | None) -> None:
    """D4: JSON as plain text, and forms."""
    async with served() as place:
        assert status(await place.raw(place.post(b"{}", Content_Type=kind))) == 415
        await _lives(place)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
async def test_nothing_is_unpacked(encoding: str) -> None:
    """D13: a body of 1:1000 is refused as it is."""
    bomb = gzip.compress(b"[" + b"1," * 5_000_000 + b"1]")
    async with served() as place:
        assert status(await place.raw(place.post(bomb, Content_Encoding=encoding))) == 415
        await _lives(place)


async def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    """D13."""
    async with served() as place:
        for length in (str(request_body.MAX_BODY_BYTES + 1), "9" * 18):
            assert status(await place.raw(place.post(b"", Content_Length=length))) in (400, 413)
        await _lives(place)


async def test_a_body_that_turns_out_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """D13: one whose length nobody was told."""
    monkeypatch.setattr(request_body, "MAX_BODY_BYTES", 1_000)
    async with served() as place:
        request = place.post(b"", Content_Length=None, Transfer_Encoding="chunked")
        assert status(await place.raw(request + b"800\r\n" + b" " * 2_048 + b"\r\n0\r\n\r\n")) == 413
        await _lives(place)


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """D11."""
    monkeypatch.setattr(request_body, "BODY_S", 0.05)
    async with served() as place:
        assert status(await place.raw(place.post(b"", Content_Length="10"))) == 408
        await _lives(place)


async def test_a_client_that_goes_away_after_any_byte_leaves_nothing_behind() -> None:
    """D12: every place in a request."""
    async with served() as place:
        await _lives(place)
        request = place.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        before = len(asyncio.all_tasks())
        for cut in range(len(request)):
            _, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(request[:cut])
            writer.close()
            await writer.wait_closed()
        await _lives(place)
        await until(lambda: len(asyncio.all_tasks()) <= before + 1)
        assert not place.host.sessions()


async def _lives(place: Place) -> None:
    assert status(await place.raw(place.head("GET", "/health"))) == 200
