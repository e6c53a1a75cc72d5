"""The routes of `tertulia serve`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from websockets.asyncio.client import connect

from tertulia.models.scripted.script import say
from tertulia.server.http.server import listen
from tertulia.server.web_app import serve_web_app
from tertulia.session.settings.settings import Settings
from tertulia.version import __version__
from tests.deadlines import HANG_S
from tests.server.client import model
from tests.server.served import TOKEN, SocketClient, served, status
from tests.tables import each_row

PATHS = [
    *(
        "/../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/../../etc/passwd",
        "//etc/passwd",
    ),
    *("/health/../../etc/passwd", "/ws/../serve.token", "/%00", "/health%00", "/mcp/../../serve.token", "/serve.token"),
    *("/health/", "/mcp/", "/ws/", "/index.html", "/\\..\\..\\etc\\passwd", "/health;/../x"),
]


async def test_health_says_what_runs() -> None:
    async with served() as place, place.socket() as client:
        await client.call("initialize")
        answer = await place.raw(place.head("GET", "/health"))
        payload = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert payload == {"status": "ok", "version": payload["version"], "sessions": 1, "clients": 1}


async def test_without_a_token_health_says_the_status_and_nothing_about_what_runs() -> None:
    """Issue 19, item 13: for probes that cannot hold a secret. A wrong token is refused as everywhere."""
    async with served() as place, place.socket() as client:
        await client.call("initialize")
        answer = await place.raw(place.head("GET", "/health", Authorization=None))
        assert (status(answer), json.loads(answer.partition(b"\r\n\r\n")[2])) == (200, {"status": "ok"})
        assert status(await place.raw(place.head("GET", "/health", Authorization="Bearer wrong"))) == 401
        assert status(await place.raw(place.head("GET", "/health", Authorization=None, Host="evil.example"))) == 421


async def test_the_first_page_says_what_this_is_and_holds_no_data(tmp_path: Path) -> None:
    """Issue 19, item 13: the same with and without a token, whatever runs. Here the files of the page are missing."""
    async with served(pages=tmp_path / "web") as place:
        before = await place.raw(place.head("GET", "/", Authorization=None))
        async with place.socket() as client:
            session = (await client.call("initialize"))["result"]["session_id"]
            pages = [await place.raw(place.head("GET", "/", **headers)) for headers in ({}, {"Authorization": None})]
        assert pages == [before, before]
        body = before.partition(b"\r\n\r\n")[2].decode()
        assert status(before) == 200
        assert [word for word in ("missing", __version__, "token", "docs", "/ws") if word not in body] == []
        assert session not in body
        assert TOKEN not in body


@each_row("path", PATHS)
async def test_there_is_nothing_else(path: str) -> None:
    """D15: no path leads to a file."""
    async with served() as place:
        answer = await place.raw(place.head("GET", path))
        assert status(answer) in (400, 404)
        assert b"root:" not in answer
        assert status(await place.raw(place.head("GET", path, Authorization=None))) in (400, 401)


@each_row(("method", "path"), [("POST", "/health"), ("PUT", "/mcp"), ("DELETE", "/health"), ("OPTIONS", "/mcp")])
async def test_a_method_that_a_route_does_not_have_is_refused(method: str, path: str) -> None:
    """D4: no preflight is answered with anything that would let a page in."""
    async with served() as place:
        answer = await place.raw(place.head(method, path, Content_Type="application/json", Content_Length="2") + b"{}")
        assert status(answer) == 405
        assert b"access-control" not in answer.lower()


async def test_a_websocket_where_none_is_served_and_http_where_a_websocket_is() -> None:
    async with served() as place:
        assert status(await place.raw(place.upgrade("/health"))) in (403, 404)
        assert status(await place.raw(place.upgrade("/nothing"))) in (403, 404)
        assert status(await place.raw(place.head("GET", "/ws"))) == 404


async def test_at_its_end_clients_hear_how_everything_ended_and_then_the_connection_ends() -> None:
    """H7, X-35: a running message is answered, its last event comes before."""
    stop = asyncio.Event()
    settings = Settings(model=model([say("late", gate=asyncio.Event())]))
    with listen(0) as listening:
        serving = asyncio.ensure_future(serve_web_app(settings, listening, TOKEN, stop))
        url = f"ws://127.0.0.1:{listening.getsockname()[1]}/ws"
        async with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
            client = SocketClient(socket)
            await client.call("initialize")
            running = await client.send("conversation/message", conversation_id="root", text="go")
            await client.event("task_started")
            stop.set()
            assert (await client.answer(running))["result"]["status"] == "interrupted"
            assert any(event["type"] == "turn_aborted" for event in client.events)
            async with asyncio.timeout(HANG_S):
                await socket.wait_closed()
            await serving
            assert socket.close_code == 1012


async def test_it_ends_where_nobody_ever_came() -> None:
    stop = asyncio.Event()
    stop.set()
    with listen(0) as listening:
        async with asyncio.timeout(HANG_S):
            await serve_web_app(Settings(model=model()), listening, TOKEN, stop)
