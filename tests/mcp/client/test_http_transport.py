"""Servers behind an address, and bad ones: a call fails, the others and the connection go on."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from tertulia.errors import McpError
from tertulia.events.clock import SystemClock
from tertulia.mcp.client import http_transport
from tertulia.mcp.client.error_text import NO_ANSWER
from tertulia.mcp.client.http_body import Tickets
from tertulia.mcp.client.http_transport import BETWEEN_GETS_S, HttpErrorTransport
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, loop_steps
from tests.mcp.connected import Reach, call, serving, until
from tests.mcp.fakes import by_http, plain, web
from tests.mcp.virtual_time import LoopClock, in_virtual_time


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


def seen(port: int) -> list[Any]:
    """What a fake was asked so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/seen") as response:
        return json.load(response)


@pytest.mark.parametrize("mode", ["json", "sse"])
async def test_headers_reach_the_server_and_nothing_compressed_is_asked_for(reach: Reach, mode: str) -> None:
    """S000-21: credentials are sent as headers."""
    with serving(web(mode)) as port:
        link = await reach(by_http(address(port), headers={"Authorization": "Bearer t0ken", "X-Team": "a"}))
        text = (await call(link, "headers")).text
        headers = {name.lower(): value for name, value in seen(port)[0].items()}
        assert (headers["authorization"], headers["x-team"]) == ("Bearer t0ken", "a")
        assert headers["accept-encoding"] == "identity"
        assert "t0ken" not in text, "a server that says its own credentials again is not repeated"
        await link.close()


@pytest.mark.parametrize(
    "metadata", ["/.well-known/oauth-protected-resource", "file:///etc/passwd", "-oProxyCommand=x", "javascript:x", ""]
)
async def test_a_server_that_wants_a_login_is_told_by_the_setting_for_it_and_nothing_of_it_is_followed(
    reach: Reach, metadata: str
) -> None:
    """HARDENING C15: no metadata is fetched, wherever it says it is; no page, no shell, no program is opened."""
    with serving(web("challenge", "http://127.0.0.1/")) as elsewhere:
        where = f"http://127.0.0.1:{elsewhere}{metadata}" if metadata.startswith("/") else metadata
        with serving(web("challenge", where)) as port:
            with pytest.raises(McpError, match="bearer_token_env_var") as refused:
                await reach(by_http(address(port), headers={"Authorization": "Bearer the-wrong-one"}))
            assert refused.value.code == "mcp_error"
            assert "the-wrong-one" not in refused.value.message
            assert set(seen(port)) == {"POST /mcp"}
            assert seen(elsewhere) == []
            link = await reach(by_http(address(port), headers={"Authorization": "Bearer the-right-one"}))
            assert [tool.name for tool in (await link.list_tools()).tools] == ["echo", "headers"]
            await link.close()
            assert not [request for request in seen(port) if str(request).startswith("GET /.well-known")]


async def test_credentials_do_not_follow_a_redirect_to_another_origin(reach: Reach) -> None:
    with serving(web("json")) as other, serving(web("redirect", str(other))) as port:
        with pytest.raises(McpError, match=r"Redirect to .* not followed") as refused:
            await reach(by_http(address(port), headers={"Authorization": "Bearer t0ken"}))
        assert "t0ken" not in refused.value.message
        assert seen(other) == []


async def test_a_redirect_within_the_origin_is_followed(reach: Reach) -> None:
    with serving(web("moved")) as port:
        link = await reach(by_http(address(port), headers={"X-Team": "a"}))
        await call(link, "echo")
        assert [request["X-Team"] for request in seen(port)] == ["a"]
        await link.close()


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("html", "Unexpected content type: text/html"),
        ("gzip", "its answer is compressed"),
        ("drops", "something that is not HTTP"),
        ("cut", "its answer broke off"),
        ("endless", "the server's answer cannot be read: it has more than 16,777,216 bytes"),
        ("many-parts", "the server's answer cannot be read: it has more than 200,000 parts"),
    ],
)
async def test_a_bad_answer_is_the_end_of_its_call_and_of_no_other(reach: Reach, mode: str, sentence: str) -> None:
    """L1, L4."""
    with serving(web(mode)) as port:
        link = await reach(by_http(address(port)))
        async with loop_steps() as steps:
            for _ in range(2):
                with pytest.raises(McpError, match=sentence):
                    await call(link, "echo")
        assert steps.longest_s < MOST_S
        assert [tool.name for tool in (await link.list_tools()).tools] == ["echo", "headers"]
        assert not link.gone.is_set()
        await link.close()


async def test_a_server_that_is_not_there_says_so(reach: Reach) -> None:
    with serving(web("json")) as port:
        pass
    with pytest.raises(McpError, match="it cannot be reached") as refused:
        await reach(by_http(address(port)))
    assert refused.value.detail["reason"] == "closed"
    assert len(reach.nursery) == 0


async def test_a_server_that_goes_away_ends_the_connection(reach: Reach) -> None:
    with serving(web("json")) as port:
        link = await reach(by_http(address(port)))
        assert not (await call(link, "echo")).is_error
    with pytest.raises(McpError):
        await call(link, "echo")
    with pytest.raises(McpError, match="cannot be reached"):
        await call(link, "echo")
    await asyncio.wait_for(link.gone.wait(), HANG_S)
    assert link.why is not None


async def test_a_session_that_the_server_has_forgotten_ends_the_connection(reach: Reach) -> None:
    with serving(web("session-lost")) as port:
        link = await reach(by_http(address(port)))
        with pytest.raises(McpError, match="it does not know our session any more"):
            await call(link, "echo")
        await asyncio.wait_for(link.gone.wait(), HANG_S)
        again = await reach(by_http(address(port)))
        assert not (await call(again, "echo")).is_error
        await again.close()


async def test_a_server_cannot_make_us_ask_without_a_pause(reach: Reach) -> None:
    with serving(web("hot-get")) as port:
        began = asyncio.get_running_loop().time()
        link = await reach(by_http(address(port)))
        await until(lambda: seen(port).count("GET") >= 4)
        count, passed_s = seen(port).count("GET"), asyncio.get_running_loop().time() - began
        assert passed_s >= (count - 1) * BETWEEN_GETS_S
        await link.close()


async def test_a_server_that_does_not_hear_a_goodbye_is_left_all_the_same(
    reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "CLOSE_SESSION_S", 0.2)
    with serving(web("clings")) as port:
        link = await reach(by_http(address(port)))
        assert not (await call(link, "echo")).is_error
        await asyncio.wait_for(link.close(), HANG_S)
        assert link.gone.is_set()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/\x00", "http://[::1", "http://"])
async def test_an_address_that_is_none_is_an_error(reach: Reach, url: str) -> None:
    from msgspec.structs import replace

    definition, launch = by_http("http://127.0.0.1:1/")
    with pytest.raises(McpError):
        await reach((definition, replace(launch, url=url)))


async def test_many_calls_share_few_connections_and_none_is_mistaken(reach: Reach) -> None:
    """C8 over HTTP."""
    with serving(plain("http", "0")) as port:
        link = await reach(by_http(address(port)))
        answers = await asyncio.gather(*(call(link, "echo", text=f"canary {n}") for n in range(150)))
        assert [answer.text for answer in answers] == [f"canary {n}" for n in range(150)]
        await link.close()


# ---- below the HTTP client: an answer to every request. With whole servers: test_http_transport.py


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
    spoken_text = json.loads(response.content)["error"]
    assert spoken_text["code"] == NO_ANSWER
    assert "\x07" not in spoken_text["message"]
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
    error = json.loads(response.content)["error"]
    assert error["code"] == status
    assert "bearer_token_env_var" in error["message"]
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
    ("stream", "expected"),
    [
        (Pieces(b"abc", error=httpx2.ReadError("gone")), "its answer broke off"),
        (Pieces(*[b"x" * (1 << 20)] * 20), "Unreadable: it has more than 16,777,216 bytes"),
    ],
)
async def test_a_body_that_breaks_off_or_is_too_long_is_no_answer(stream: Pieces, expected: str) -> None:
    headers = {"content-type": "application/json"}
    response, _ = await asked(lambda _: httpx2.Response(200, headers=headers, stream=stream))
    assert json.loads(response.content)["error"]["message"] == expected


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("text/html", b"<html>oops", "HTTP status 503"),
        ("", b"", "HTTP status 503"),
        ("application/json", b'{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"its own words"}}', "its own words"),
    ],
)
async def test_a_failing_server_is_told_by_its_status_or_by_its_own_words(
    kind: str, body: bytes, expected: str
) -> None:
    headers = {"content-type": kind} if kind else {}
    response, _ = await asked(lambda _: httpx2.Response(503, headers=headers, stream=Pieces(body)))
    assert (response.status_code, json.loads(response.content)["error"]["message"]) == (503, expected)


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
    assert dropped == {"a response to no request": 1}


@in_virtual_time
async def test_a_stream_is_not_asked_for_again_without_a_pause() -> None:
    guard = HttpErrorTransport(
        httpx2.MockTransport(lambda _: httpx2.Response(200)), LoopClock(), lambda _: None, Counter(), Tickets()
    )
    loop = asyncio.get_running_loop()
    async with httpx2.AsyncClient(transport=guard) as client:
        began = loop.time()
        for _ in range(3):
            await client.post("http://x/")
        assert loop.time() == began
        for _ in range(3):
            await client.get("http://x/")
    assert loop.time() - began >= 2 * BETWEEN_GETS_S
