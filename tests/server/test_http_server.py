"""Where a server listens."""

from __future__ import annotations

import socket

import pytest

from tertulia.errors import InvalidParams
from tertulia.server.http_server import listen, url_of


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


@pytest.mark.parametrize(
    ("port", "host"), [(70_000, "127.0.0.1"), (-1, "127.0.0.1"), (0, "\udcff"), (0, "203.0.113.1")]
)
def test_where_nobody_can_listen_is_said(port: int, host: str) -> None:
    with pytest.raises(InvalidParams, match=str(port)):
        listen(port, host)


def test_a_port_that_is_taken_is_said() -> None:
    with listen(0) as first, pytest.raises(InvalidParams, match="in use"):
        listen(first.getsockname()[1])


def test_an_address_of_the_newer_kind_is_written_in_brackets() -> None:
    try:
        listening = listen(0, "::1")
    except InvalidParams:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert url_of(listening).startswith("http://[::1]:")
