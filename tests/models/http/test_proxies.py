"""Requests to models through a real proxy on the loopback, and to a server whose certificate a CA of our own signed."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tertulia.models.wire import AnswerEnd, AnswerFailure, RetryNotice
from tertulia.protocol.network.access import OutboundNetwork, access_from_table
from tests.models.apis import CHAT, Api, every_api
from tests.models.loopback_proxy import LoopbackProxy
from tests.models.mock_provider import MockProvider, Told
from tests.models.private_ca import HOST, make_ca, server_tls
from tests.models.wire_contract import a_request, read
from tests.tables import each_row

PASSWORD = "canary pass/word"
USER_INFO = "ana:canary%20pass%2Fword"
BASIC = b64encode(f"ana:{PASSWORD}".encode()).decode()


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ca(tmp_path_factory.mktemp("ca"), HOST, "127.0.0.1")


def through(proxy: str, **more: Any) -> OutboundNetwork:
    """Everything through this proxy."""
    ca_file = more.pop("ca_file", None)
    table = access_from_table({"https": proxy, "http": proxy, **more})
    return OutboundNetwork(
        https_proxy=table.https_proxy, http_proxy=table.http_proxy, exceptions=table.exceptions,
        loopback=table.loopback, ca_file=ca_file,
    )  # fmt: skip


async def answered(api: Api, url: str, access: OutboundNetwork, **options: Any) -> list[Any]:
    wire = api.wire(url, access=access, **{"request_max_retries": 1, **options})
    try:
        return await read(wire, a_request(dialect=wire.dialect))
    finally:
        await wire.close()


def failed(pieces: list[Any]) -> AnswerFailure:
    assert isinstance(pieces[-1], AnswerFailure), pieces
    assert "canary" not in "".join(piece.message for piece in pieces)
    return pieces[-1]


@every_api
async def test_https_goes_through_a_tunnel_and_http_by_its_whole_address(api: Api, ca: Path) -> None:
    """Issue 24 (3): the password goes to the proxy alone; the provider sees a plain request."""
    tls = server_tls(ca.parent)
    async with (
        MockProvider(api.answer(Told(text="Yes.")), tls) as mock,
        LoopbackProxy(mock.port, password=BASIC) as proxy,
    ):
        access = through(f"http://{USER_INFO}@{proxy.place}", ca_file=str(ca))
        pieces = await answered(api, f"https://{HOST}/v1", access)
    assert isinstance(pieces[-1], AnswerEnd)
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n")
    (seen,) = mock.seen
    assert seen.headers["host"] == HOST
    assert "proxy-authorization" not in seen.headers
    async with MockProvider(api.answer(Told(text="Yes."))) as mock, LoopbackProxy(mock.port, password=BASIC) as proxy:
        pieces = await answered(api, f"http://{HOST}/v1", through(f"{USER_INFO}@{proxy.place}"))
    assert isinstance(pieces[-1], AnswerEnd)
    assert proxy.heads[0].startswith(f"POST http://{HOST}/v1")


async def test_a_proxy_can_be_spoken_to_over_tls_itself(ca: Path) -> None:
    tls = server_tls(ca.parent)
    async with MockProvider(CHAT.answer(Told(text="Yes.")), tls) as mock, LoopbackProxy(mock.port, tls=tls) as proxy:
        pieces = await answered(CHAT, f"https://{HOST}/v1", through(proxy.url, ca_file=str(ca)))
    assert isinstance(pieces[-1], AnswerEnd)


async def test_this_machine_and_exceptions_are_asked_directly(ca: Path) -> None:
    async with MockProvider(CHAT.answer(Told(text="Yes."))) as mock, LoopbackProxy(mock.port) as proxy:
        assert isinstance((await answered(CHAT, mock.url, through(proxy.url)))[-1], AnswerEnd)
        assert proxy.heads == []
        excepted = through(proxy.url, loopback=True, no_proxy="127.0.0.0/8")
        assert isinstance((await answered(CHAT, mock.url, excepted))[-1], AnswerEnd)
        assert proxy.heads == []
        assert isinstance((await answered(CHAT, mock.url, through(proxy.url, loopback=True)))[-1], AnswerEnd)
        assert len(proxy.heads) == 1


@each_row(
    ("answer", "problem", "attempts"),
    [
        (b"HTTP/1.1 407 Go away\r\nContent-Length: 0\r\n\r\n", "does not take the user and password", 1),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>", "makes no connection to it (502)", 2),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "name it in NO_PROXY", 1),
        (b"SSH-2.0-OpenSSH_9.6 hello", "answered something that is not HTTP", 1),
        (b"\x00" * 20, "answered something that is not HTTP", 1),
        (b"HTTP/1.1 200 OK\r\n\r\nmore", "sent more than its answer", 1),
        (b"HTTP/1.1 200", "hung up without an answer", 1),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, "answered something that is not HTTP", 1),
    ],
)
async def test_a_proxy_that_misbehaves_is_named_and_its_password_is_not(
    answer: bytes, problem: str, attempts: int
) -> None:
    async with LoopbackProxy(answer=answer) as proxy:
        pieces = await answered(CHAT, f"https://{HOST}/v1", through(f"http://{USER_INFO}@{proxy.place}"))
    failure = failed(pieces)
    assert f"cannot reach mock at {HOST}: the proxy at {proxy.place} " in failure.message
    assert problem in failure.message
    assert failure.another_may_help
    assert len(proxy.heads) == attempts
    assert sum(isinstance(piece, RetryNotice) for piece in pieces) == attempts - 1


async def test_a_proxy_that_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertulia.models.http.connection.CONNECT_TIMEOUT_S", 0.2)
    async with LoopbackProxy(answer=b"") as proxy:
        failure = failed(await answered(CHAT, f"https://{HOST}/v1", through(proxy.url)))
    assert f"no connection through the proxy at {proxy.place} in 0.2 s" in failure.message


async def test_a_plain_request_that_the_proxy_refuses_names_the_proxy() -> None:
    async with MockProvider(CHAT.answer(Told(text="Yes."))) as mock, LoopbackProxy(mock.port, password=BASIC) as proxy:
        failure = failed(await answered(CHAT, f"http://{HOST}/v1", through(proxy.url)))
    assert f"the proxy at {proxy.place} wants a user and a password" in failure.message
    gone = proxy.url
    failure = failed(await answered(CHAT, f"http://{HOST}/v1", through(gone)))
    assert f"the proxy at {proxy.place} cannot be reached: connection refused" in failure.message


async def test_a_certificate_that_is_not_trusted_says_what_to_do(ca: Path) -> None:
    async with MockProvider(CHAT.answer(Told(text="Yes.")), server_tls(ca.parent)) as mock:
        url = f"https://127.0.0.1:{mock.port}/v1"
        failure = failed(await answered(CHAT, url, OutboundNetwork()))
        assert "its certificate is not trusted here" in failure.message
        assert "`ca_file`, or in the variable SSL_CERT_FILE" in failure.message
        assert isinstance((await answered(CHAT, url, OutboundNetwork(ca_file=str(ca))))[-1], AnswerEnd)
        assert isinstance((await answered(CHAT, url, OutboundNetwork(), ca_file=str(ca)))[-1], AnswerEnd)
        wrong = url.replace("127.0.0.1", "localhost")
        failure = failed(await answered(CHAT, wrong, OutboundNetwork(ca_file=str(ca))))
        assert "its certificate is for another host" in failure.message
