"""Where a server listens."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from websockets.exceptions import ConnectionClosed

from tertulia.errors import InvalidParamsError
from tertulia.server.http.server import HttpServer, listen, url_of
from tests.server.served import DEADLINE_S, Place, served, status
from tests.tables import each_row


def test_it_listens_on_this_machine_alone_unless_told_otherwise() -> None:
    """D8."""
    with listen(0) as listening:
        host, port = listening.getsockname()
        assert host == "127.0.0.1"
        assert url_of(listening) == f"http://127.0.0.1:{port}"


def test_small_answers_are_not_held_back() -> None:
    """asyncio turns Nagle's delay off where the protocol is said by name; 40 ms a message otherwise."""
    with listen(0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


@each_row(("port", "host"), [(70_000, "127.0.0.1"), (-1, "127.0.0.1"), (0, "\udcff"), (0, "203.0.113.1")])
def test_where_nobody_can_listen_is_said(port: int, host: str) -> None:
    with pytest.raises(InvalidParamsError, match=str(port)):
        listen(port, host)


def test_a_port_that_is_taken_is_said() -> None:
    with listen(0) as first, pytest.raises(InvalidParamsError, match="in use"):
        listen(first.getsockname()[1])


def test_an_address_of_the_newer_kind_is_written_in_brackets() -> None:
    try:
        listening = listen(0, "::1")
    except InvalidParamsError:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert url_of(listening).startswith("http://[::1]:")


async def test_a_text_that_is_none_ends_its_client_and_is_no_failure_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """D9: on a WebSocket (RFC 6455, 8.1); others are served."""
    async with served() as place, place.socket() as client, asyncio.timeout(DEADLINE_S):
        await client.call("initialize")
        await client.socket.send(b"\xff\xfe", text=True)
        with pytest.raises(ConnectionClosed) as ended:
            while True:
                await client.socket.recv()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1007
        assert status(await place.raw(place.head("GET", "/health"))) == 200
    assert not [record for record in caplog.records if record.name == "uvicorn.error"]


async def test_a_failure_of_ours_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What is quiet about strangers is not quiet about us."""

    ours = RuntimeError("ours")

    async def fails(scope: object, receive: object, send: object) -> None:
        raise ours

    server = HttpServer(fails)
    with listen(0) as listening:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(server.serve_until(stop, listening))
        port = listening.getsockname()[1]
        answer = await Place(port, None, None).raw(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")  # type: ignore[arg-type]
        stop.set()
        await serving
    assert status(answer) == 500
    assert b"ours" not in answer
    # By its name: what an earlier test left behind may be told at any moment. Not by its error: where an earlier test
    # of the process has set up logging, that is a text by now.
    (logged,) = [record for record in caplog.records if record.name == "uvicorn.error"]
    assert (logged.levelno, logged.getMessage().splitlines()[0]) == (logging.ERROR, "Exception in ASGI application")
