"""The routes of `tertulia serve`."""

from __future__ import annotations

import json

import pytest

from tests.server.served import served, status

PATHS = [
    *(
        "/../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/../../etc/passwd",
        "//etc/passwd",
    ),
    *("/health/../../etc/passwd", "/ws/../serve.token", "/%00", "/health%00", "/mcp/../../serve.token", "/serve.token"),
    *("/health/", "/mcp/", "/ws/", "/", "/index.html", "/\\..\\..\\etc\\passwd", "/health;/../x"),
]


async def test_health_says_what_runs() -> None:
    async with served() as place, place.socket() as talker:
        await talker.call("initialize")
        answer = await place.raw(place.head("GET", "/health"))
        told = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert told == {"status": "ok", "version": told["version"], "sessions": 1, "clients": 1}


@pytest.mark.parametrize("path", PATHS)
async def test_there_is_nothing_else(path: str) -> None:
    """D15: no path leads to a file."""
    async with served() as place:
        answer = await place.raw(place.head("GET", path))
        assert status(answer) in (400, 404)
        assert b"root:" not in answer
        assert status(await place.raw(place.head("GET", path, Authorization=None))) in (400, 401)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/health"), ("PUT", "/mcp"), ("DELETE", "/health"), ("OPTIONS", "/mcp")]
)
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
