"""Below the HTTP client: an answer to every request. With whole servers: test_http_transport.py."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest

from tertulia.events.clock import SystemClock
from tertulia.mcp.client.content_tickets import Tickets
from tertulia.mcp.client.error_text import NO_ANSWER
from tertulia.mcp.client.http_errors import BETWEEN_GETS_S, HttpErrorTransport

Handler = Callable[[httpx2.Request], httpx2.Response]


async def asked(handler: Handler, *, method: str = "POST", **fields: object) -> tuple[httpx2.Response, list[str]]:
    lost: list[str] = []
    guard = HttpErrorTransport(httpx2.MockTransport(handler), SystemClock(), lost.append, Counter(), Tickets())
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
    assert said["code"] == NO_ANSWER
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
    ("stream", "said"),
    [
        (Pieces(b"abc", error=httpx2.ReadError("gone")), "its answer broke off"),
        (Pieces(*[b"x" * (1 << 20)] * 20), "Unreadable: it has more than 16,777,216 bytes"),
    ],
)
async def test_a_body_that_breaks_off_or_is_too_long_is_no_answer(stream: Pieces, said: str) -> None:
    headers = {"content-type": "application/json"}
    response, _ = await asked(lambda _: httpx2.Response(200, headers=headers, stream=stream))
    assert json.loads(response.content)["error"]["message"] == said


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("text/html", b"<html>oops", "HTTP status 503"),
        ("", b"", "HTTP status 503"),
        ("application/json", b'{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"its own words"}}', "its own words"),
    ],
)
async def test_a_server_in_trouble_is_told_by_its_status_or_by_its_own_words(kind: str, body: bytes, said: str) -> None:
    headers = {"content-type": kind} if kind else {}
    response, _ = await asked(lambda _: httpx2.Response(503, headers=headers, stream=Pieces(body)))
    assert (response.status_code, json.loads(response.content)["error"]["message"]) == (503, said)


async def test_an_answer_to_another_request_is_no_answer_to_this_one() -> None:
    """HARDENING C7: whoever waits hears so at once, and not after the timeout."""
    dropped: Counter[str] = Counter()
    lie = {"jsonrpc": "2.0", "id": 2, "result": {"content": []}}
    handler = httpx2.MockTransport(lambda _: httpx2.Response(200, json=lie))
    async with httpx2.AsyncClient(
        transport=HttpErrorTransport(handler, SystemClock(), lambda _: None, dropped, Tickets())
    ) as client:
        response = await client.post("http://x/", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call"})
    assert json.loads(response.content)["error"]["message"] == "it answered something else than what it was asked"
    assert dropped == {"an answer that nobody waits for": 1}


async def test_a_stream_is_not_asked_for_again_without_a_pause() -> None:
    guard = HttpErrorTransport(
        httpx2.MockTransport(lambda _: httpx2.Response(200)), SystemClock(), lambda _: None, Counter(), Tickets()
    )
    loop = asyncio.get_running_loop()
    async with httpx2.AsyncClient(transport=guard) as client:
        began = loop.time()
        for _ in range(3):
            await client.post("http://x/")
        assert loop.time() - began < BETWEEN_GETS_S
        for _ in range(3):
            await client.get("http://x/")
    assert loop.time() - began >= 2 * BETWEEN_GETS_S
