"""Below the HTTP client: an answer to every request. With whole servers: test_http_transport.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from tertulia.events.clock import SystemClock
from tertulia.mcp.http_guard import BETWEEN_GETS_S, MAX_BODY, Guard

Handler = Callable[[httpx2.Request], httpx2.Response]


async def asked(handler: Handler, *, method: str = "POST", **fields: object) -> tuple[httpx2.Response, list[str]]:
    lost: list[str] = []
    guard = Guard(httpx2.MockTransport(handler), SystemClock(), lost.append)
    async with httpx2.AsyncClient(transport=guard) as client:
        return await client.request(method, "http://x/", **fields), lost  # type: ignore[arg-type]


def failing(error: Exception) -> Handler:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise error

    return handle


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [(httpx2.ConnectError("refused\x07"), True), (httpx2.ReadError("x"), False), (httpx2.ConnectTimeout("x"), False)],
)
async def test_a_request_that_fails_has_an_answer(error: Exception, is_lost: bool) -> None:
    response, lost = await asked(failing(error))
    assert response.status_code == 502
    said = json.loads(response.content)["error"]
    assert said["code"] == -32000
    assert "\x07" not in said["message"]
    assert bool(lost) is is_lost


@pytest.mark.parametrize(("headers", "is_lost"), [({"mcp-session-id": "s"}, True), ({}, False)])
async def test_a_session_that_is_not_found_is_lost(headers: dict[str, str], is_lost: bool) -> None:
    response, lost = await asked(lambda _: httpx2.Response(404), headers=headers)
    assert response.status_code == 404
    assert bool(lost) is is_lost


@pytest.mark.parametrize("status", [401, 403])
async def test_who_is_not_let_in_is_told_which_settings_to_look_at(status: int) -> None:
    """C15: whatever the answer says about how to get in, nothing of it is followed."""
    headers = {"www-authenticate": 'Bearer resource_metadata="-oProxyCommand=x"', "location": "http://elsewhere/"}
    seen: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(str(request.url))
        return httpx2.Response(status, headers=headers, content=b"<html>")

    response, lost = await asked(handle)
    assert (response.status_code, lost, seen) == (status, [], ["http://x/"])
    said = json.loads(response.content)["error"]
    assert said["code"] == status
    assert "bearer_token_env_var" in said["message"]
    assert "www-authenticate" not in response.headers


async def test_what_is_compressed_is_not_opened() -> None:
    response, _ = await asked(
        lambda _: httpx2.Response(200, headers={"content-encoding": "br"}, stream=Pieces(b"x")), method="POST"
    )
    assert response.status_code == 502
    assert b"compressed" in response.content


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.pieces, self.error = pieces, error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("stream", "kind", "length"),
    [
        (Pieces(b"abc", error=httpx2.ReadError("gone")), "application/json", 3),
        (Pieces(*[b"x" * (1 << 20)] * 20), "application/json", MAX_BODY),
        (Pieces(*[b"x" * (1 << 20)] * 20), "text/event-stream; charset=utf-8", 20 << 20),
    ],
)
async def test_a_body_ends_where_it_breaks_off_or_is_too_long(stream: Pieces, kind: str, length: int) -> None:
    response, _ = await asked(lambda _: httpx2.Response(200, headers={"content-type": kind}, stream=stream))
    assert len(response.content) == length


async def test_a_stream_is_not_asked_for_again_without_a_pause() -> None:
    guard = Guard(httpx2.MockTransport(lambda _: httpx2.Response(200)), SystemClock(), lambda _: None)
    loop = asyncio.get_running_loop()
    async with httpx2.AsyncClient(transport=guard) as client:
        began = loop.time()
        for _ in range(3):
            await client.post("http://x/")
        assert loop.time() - began < BETWEEN_GETS_S
        for _ in range(3):
            await client.get("http://x/")
    assert loop.time() - began >= 2 * BETWEEN_GETS_S
