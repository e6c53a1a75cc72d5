"""Who may talk to the server: every route, every way to get it wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import Any

import pytest

from tertulia.server.http import guard as request_body
from tertulia.server.http.guard import AllowedHosts, HttpRefusal, RequestGuard
from tests.mcp.connected import until
from tests.server.served import DEADLINE_S, TOKEN, Place, served, status
from tests.tables import each_row

FOREIGN_HOSTS = [
    *("evil.example", "127.evil.com", "127.0.0.1.evil.com", "localhost.", "127.0.0.1.", "localhost.evil", "0.0.0.0"),
    *("[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "2130706433", "127.1", "user@127.0.0.1", "127.0.0.1:80:80", "", "::1"),
]
FOREIGN_ORIGINS = ["null", "http://evil.example", "http://127.0.0.1", "https://localhost.evil", "file://", "127.0.0.1"]
WRONG_TOKENS = [
    None,
    "Bearer",
    "Bearer ",
    f"Bearer {TOKEN[:-1]}",
    f"Bearer {TOKEN}0",
    f"Bearer {TOKEN.upper()}",
    f"Basic {TOKEN}",
    TOKEN,
    "Bearer ünïcode",
    f"Bearer {TOKEN}, Bearer {TOKEN}",
]


def requests(place: Place, **headers: str | None) -> list[bytes]:
    """One for each route and method there is, and for paths that there are not."""
    found = [place.upgrade(**headers)]
    for route in place.web.routes:
        for method in sorted(getattr(route, "methods", None) or ()):
            if method == "POST":
                found.append(place.post(b"{}", route.path, **headers))
            else:
                found.append(place.head(method, route.path, **headers))
    return [
        *found,
        *(place.head(method, "/", **headers) for method in ("GET", "HEAD")),
        place.head("GET", "/nothing", **headers),
    ]


async def test_every_route_is_closed_without_the_right_token() -> None:
    """D1, D6, target 11: the list comes from the router."""
    async with served() as place:
        assert len(requests(place)) == 28
        for token in WRONG_TOKENS:
            for request in requests(place, Authorization=token):
                if token is None and request.split(b" ")[1] in (b"/", b"/health"):
                    continue
                answer = await place.raw(request)
                assert status(answer) == 401, (token, request)
                assert b"www-authenticate: Bearer" in answer
        assert not place.host.sessions
        assert status(await place.raw(place.head("GET", "/health"))) == 200


@each_row("host", FOREIGN_HOSTS)
async def test_every_route_is_closed_to_those_who_call_us_by_another_name(host: str) -> None:
    """D2: a page whose name was pointed at this machine."""
    async with served() as place:
        for request in requests(place, Host=host):
            assert status(await place.raw(request)) in (400, 421), request


async def test_a_host_that_is_missing_or_given_twice_is_refused() -> None:
    """D2."""
    async with served() as place:
        twice = place.head("GET", "/health").replace(b"\r\n", b"\r\nHost: 127.0.0.1\r\n", 1)
        assert status(await place.raw(twice)) == 400
        assert status(await place.raw(place.head("GET", "/health", Host=None))) in (400, 421)


FOREIGN_ADDRESSES = [
    *("http://evil.example", "https://evil.example", "HTTP://EVIL.EXAMPLE", "ws://evil.example", "http://"),
    *("http://127.0.0.1@evil.example", "http://evil.example?x=", "http://evil.example#", "http://127.0.0.1.evil.com"),
]


@each_row("address", FOREIGN_ADDRESSES)
async def test_every_route_is_closed_to_whole_addresses_of_other_places(address: str) -> None:
    """D2, RFC 9112 (3.2.2): the host in a request line counts as the header does, whatever that says."""
    async with served() as place:
        for name in (f"127.0.0.1:{place.port}", "localhost", address.partition("://")[2], None):
            for request in requests(place, Host=name):
                absolute = request.replace(b" /", b" " + address.encode() + b"/", 1)
                assert status(await place.raw(absolute)) in (400, 421), absolute
        assert not place.host.sessions


async def test_a_whole_address_of_ours_is_as_good_as_its_path() -> None:
    """D2: as proxies are asked; both names have to be the same one."""
    async with served() as place:
        ours = f"127.0.0.1:{place.port}"
        for address in (f"http://{ours}/health", f"HTTP://{ours}/health?x=1"):
            assert status(await place.raw(place.head("GET", address))) == 200
            assert status(await place.raw(place.head("GET", address, Authorization="Bearer x"))) == 401
            assert status(await place.raw(place.head("GET", address, Host="localhost"))) == 421
        assert status(await place.raw(place.head("GET", f"http://{ours}"))) == 200
        assert status(await place.raw(place.head("GET", "//evil.example/health"))) == 404, "a path"
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
            writer.write(place.upgrade(f"http://{ours}/ws"))
            assert status(await reader.readline()) == 101
            writer.close()


@each_row("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.1:1", "localhost:65535"])
async def test_names_of_this_machine_are_known_on_every_port(name: str) -> None:
    """D2: through a tunnel the port is another one."""
    async with served() as place:
        assert status(await place.raw(place.head("GET", "/health", Host=name))) == 200


@each_row("origin", FOREIGN_ORIGINS)
async def test_every_route_is_closed_to_pages_of_other_places(origin: str) -> None:
    """D3, D4."""
    async with served() as place:
        for request in requests(place, Origin=origin):
            assert status(await place.raw(request)) == 403, request


async def test_a_page_of_ours_may_conversation_to_us() -> None:
    """D3."""
    async with served() as place:
        origin = f"http://127.0.0.1:{place.port}"
        assert status(await place.raw(place.head("GET", "/health", Origin=origin))) == 200


async def test_a_page_brings_its_token_as_a_subprotocol_and_says_where_it_comes_from() -> None:
    """D3: browsers always say it; a WebSocket that came from none has a better place for the token."""
    async with served() as place:
        offered = f"tertulia, bearer.{TOKEN}"
        origin = f"http://127.0.0.1:{place.port}"
        good = place.upgrade(Authorization=None, Sec_WebSocket_Protocol=offered, Origin=origin)
        bad = place.upgrade(Authorization=None, Sec_WebSocket_Protocol=offered[:-1], Origin=origin)
        homeless = place.upgrade(Authorization=None, Sec_WebSocket_Protocol=offered)
        assert status(await place.raw(homeless)) == 403
        assert status(await place.raw(bad)) == 401
        async with place.socket(
            additional_headers={"Origin": origin}, subprotocols=["tertulia", f"bearer.{TOKEN}"]
        ) as client:
            assert client.socket.subprotocol == "tertulia"
            assert "result" in await client.call("initialize")
        assert TOKEN.encode() not in good.split(b"\r\n")[0]


async def test_a_token_in_the_address_is_worth_nothing_and_is_written_nowhere(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """D5."""
    caplog.set_level(logging.DEBUG)
    async with served() as place:
        for name in ("token", "access_token", "authorization"):
            request = place.head("GET", f"/openapi.json?{name}={TOKEN}", Authorization=None)
            assert status(await place.raw(request)) == 401
        assert status(await place.raw(place.head("GET", "/health"))) == 200
        async with place.socket() as client:
            await client.call("initialize")
    output = capfd.readouterr()
    # The client of this test notes what it sends itself.
    assert all(record.name == "websockets.client" for record in caplog.records if TOKEN in record.getMessage())
    assert TOKEN not in output.out + output.err


STRANGERS: list[dict[str, str | None]] = [
    {"Authorization": None},
    {"Authorization": "Bearer canary"},
    {"Host": "canary.example"},
    {"Origin": "http://canary.example"},
    {"Sec_WebSocket_Key": "canary"},
    {"Sec_WebSocket_Version": "canary"},
    {"Sec_WebSocket_Protocol": "canary canary"},
    {"Upgrade": "canary"},
    {"Content_Length": "canary"},
    {"X": "canary" * 2_000},
]


async def test_nobody_without_the_token_writes_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """D5, issue 10: one line for each refusal would let anybody fill a disk."""
    async with served() as place:
        caplog.set_level(logging.INFO)
        for headers in STRANGERS:
            for path in ("/ws", "/canary", "http://canary.example/ws"):
                fields = {"Authorization": None, **headers}
                assert 400 <= status(await place.raw(place.upgrade(path, **fields))) < 500, (path, headers)
        for junk in (b"canary\r\n\r\n", b"GET canary HTTP/1.1\r\n\r\n", b"CONNECT canary:80 HTTP/1.1\r\n\r\n"):
            await place.raw(junk)
        await place.raw(place.post(b"canary", Authorization=None))
        assert not place.host.sessions
        assert not caplog.records


async def test_a_program_needs_no_origin_and_a_token_in_the_right_place() -> None:
    """D3: a page cannot leave its origin out, and cannot set this header on a WebSocket; docs/serve.md says why."""
    async with served() as place:
        async with place.socket() as client:
            assert "result" in await client.call("initialize")
        before = len(place.host.sessions)
        for upgrade_request in (
            place.upgrade(Authorization=None),
            place.upgrade(Authorization=None, Sec_WebSocket_Protocol=f"tertulia, bearer.{TOKEN}"),
            place.upgrade(Authorization=None, Cookie=f"token={TOKEN}"),
            place.upgrade(Origin=""),
            place.upgrade(Origin="null"),
            place.head("GET", "/mcp", Accept="text/event-stream", Authorization=None),
            place.head("GET", "/mcp", Accept="text/event-stream", Origin="null"),
        ):
            assert status(await place.raw(upgrade_request)) in (401, 403), upgrade_request
        assert len(place.host.sessions) == before


async def test_what_the_client_says_of_its_rights_is_not_looked_at() -> None:
    """D7."""
    async with served() as place:
        request = place.head("GET", "/openapi.json", Authorization=None, X_Scopes="admin", X_User="root")
        assert status(await place.raw(request)) == 401


@pytest.mark.parametrize("headers", [{}, {"Authorization": None}], ids=["with a token", "without one"])
async def test_every_answer_tells_browsers_to_keep_guess_and_frame_nothing(headers: dict[str, None]) -> None:
    """D14: whatever would be shown."""
    async with served() as place:
        answer = await place.raw(place.head("GET", "/health", **headers))
        for data in (
            b"cache-control: no-store",
            b"nosniff",
            b"frame-ancestors 'none'",
            b"referrer-policy: no-referrer",
        ):
            assert data in answer


async def test_a_server_for_other_machines_is_called_by_address_or_by_its_names() -> None:
    """D8: an address in numbers cannot be pointed at us by anybody."""
    async with served(hosts=AllowedHosts(frozenset({"box"}), addresses=True)) as place:
        for name in ("box", "10.0.0.7:80", "[fe80::1]", "192.168.1.1"):
            assert status(await place.raw(place.head("GET", "/health", Host=name))) == 200, name
        for name in ("evil.example", "box.evil", "10.0.0.7.evil", "localhost"):
            assert status(await place.raw(place.head("GET", "/health", Host=name))) == 421, name


async def test_files_for_everybody_need_no_token_and_every_other_check() -> None:
    """DESIGN, Servers: only static files need none."""
    reached: list[str] = []

    async def files(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    guard = RequestGuard(files, TOKEN, public=lambda path: path == "/logo.svg")

    async def ask(path: str, kind: str = "http", **headers: str) -> int:
        pairs = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        await guard({"type": kind, "path": path, "method": "GET", "headers": pairs}, files, send)  # type: ignore[arg-type]
        return messages[0].get("status", 0) if messages else 200

    assert await ask("/logo.svg") == 200
    assert await ask("/other") == 401
    assert await ask("/logo.svg", host="evil.example") == 421
    assert await ask("/logo.svg", origin="http://evil.example") == 403
    assert await ask("/logo.svg", kind="websocket") == 0
    assert reached == ["/logo.svg"]


async def answered(scope: dict[str, Any], refusal: HttpRefusal) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await refusal.answer(scope, send)
    return sent


async def test_a_request_gets_the_status_and_a_sentence() -> None:
    start, body = await answered({"type": "http"}, HttpRefusal(403, "foreign_origin", "no"))
    assert start["status"] == 403
    assert body["body"] == b'{"error":{"code":"foreign_origin","message":"no"}}'
    assert (b"content-length", b"%d" % len(body["body"])) in start["headers"]
    assert not any(name == b"www-authenticate" for name, _ in start["headers"])


async def test_a_missing_token_says_how_to_bring_one() -> None:
    """D1."""
    start, _ = await answered({"type": "http"}, HttpRefusal(401, "unauthorized", "no"))
    assert (b"www-authenticate", b"Bearer") in start["headers"]


async def test_a_websocket_is_refused_with_the_same_where_the_server_can_and_closed_where_it_cannot() -> None:
    """D1: over an upgrade too."""
    able = {"type": "websocket", "extensions": {"websocket.http.response": {}}}
    start, body = await answered(able, HttpRefusal(401, "unauthorized", "no"))
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert body["type"] == "websocket.http.response.body"
    assert await answered({"type": "websocket"}, HttpRefusal(401, "unauthorized", "no")) == [
        {"type": "websocket.close", "code": 1008}
    ]


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


@each_row("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_can_be_read_in_two_ways_or_not_at_all_is_a_parse_error(body: bytes) -> None:
    """D9: before anybody else looks at it."""
    async with served() as place:
        answer = await place.raw(place.post(body))
        assert status(answer) == 400
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32700
        await _lives(place)


@each_row("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None])
async def test_what_a_page_can_send_without_being_asked_is_refused(kind: str | None) -> None:
    """D4: JSON as plain text, and forms."""
    async with served() as place:
        assert status(await place.raw(place.post(b"{}", Content_Type=kind))) == 415
        await _lives(place)


@each_row("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
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
        assert not place.host.sessions


async def _lives(place: Place) -> None:
    assert status(await place.raw(place.head("GET", "/health"))) == 200
