"""Issue 19, item 13: pages of origins that the user named may call, with the token; pages of all others may not."""

from __future__ import annotations

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.server.http.guard import parse_origin
from tests.server.served import TOKEN, Place, served, status
from tests.tables import each_row

PAGE = "http://localhost:5173"
ORIGINS = frozenset({PAGE.encode(), b"https://app.example"})


@each_row(
    ("text", "origin"),
    [
        ("https://app.example", b"https://app.example"),
        ("HTTP://LocalHost:5173", b"http://localhost:5173"),
        ("http://[::1]:8000", b"http://[::1]:8000"),
        ("tauri://localhost", b"tauri://localhost"),
        ("https://a:80", b"https://a:80"),
    ],
)
def test_an_origin_is_scheme_host_and_perhaps_port(text: str, origin: bytes) -> None:
    assert parse_origin(text) == origin


@each_row(
    "text",
    [
        *("*", "null", "", "app.example", "https://", "https://*", "https://*.example", "https://a/", "https://a/b"),
        *(
            "https://a?b",
            "https://a#b",
            "https://u@a",
            "https://a:0",
            "https://a:99999",
            "https://a:b",
            "//a",
            " http://a",
        ),
        *(
            "http://a\n",
            "http://a,http://b",
            "http://a:80",
            "https://a:443",
            "http://..",
            "http://a..b",
            "javascript:x",
        ),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidParamsError):
        parse_origin(text)


def preflight(place: Place, origin: str, **headers: str | None) -> bytes:
    fields: dict[str, str | None] = {
        "Origin": origin,
        "Authorization": None,
        "Access_Control_Request_Method": "POST",
        "Access_Control_Request_Headers": "authorization,content-type",
        **headers,
    }
    return place.head("OPTIONS", "/mcp", **fields)


async def test_a_page_of_a_named_origin_is_served_with_the_token_and_may_read_the_answer() -> None:
    async with served(origins=ORIGINS) as place:
        for origin in (PAGE, "https://app.example"):
            answer = await place.raw(place.head("GET", "/openapi.json", Origin=origin))
            assert status(answer) == 200
            assert f"access-control-allow-origin: {origin}".encode() in answer
            assert b"vary: origin" in answer
        without = await place.raw(place.head("GET", "/openapi.json", Origin=PAGE, Authorization=None))
        assert status(without) == 401
        assert b"access-control-allow-origin" in without, "the page may read why"
        async with place.socket(
            origin=PAGE, additional_headers={}, subprotocols=["tertulia", f"bearer.{TOKEN}"]
        ) as client:
            assert (await client.call("initialize"))["result"]["protocol_version"] == "1"


async def test_a_browser_that_asks_first_is_told_what_the_page_may_send() -> None:
    async with served(origins=ORIGINS) as place:
        answer = await place.raw(preflight(place, PAGE))
        assert status(answer) == 204
        assert b"access-control-allow-methods: GET, POST, DELETE" in answer
        assert b"authorization" in answer
        assert b"access-control-allow-credentials" not in answer
        assert status(await place.raw(preflight(place, PAGE, Host="evil.example"))) == 421
        assert status(await place.raw(preflight(place, "http://evil.example"))) == 403


@each_row("origin", ["http://evil.example", "http://localhost:5174", "https://localhost:5173", "null", f"{PAGE}.evil"])
async def test_a_page_of_any_other_origin_is_refused_and_reads_nothing(origin: str) -> None:
    async with served(origins=ORIGINS) as place:
        for request in (place.head("GET", "/health", Origin=origin), place.upgrade(Origin=origin)):
            answer = await place.raw(request)
            assert status(answer) == 403
            assert b"access-control" not in answer.lower()
