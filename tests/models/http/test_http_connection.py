"""A connection of our own: what it sends, whom it trusts, what waits to be read and sent, and when it is used again."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tertulia.models.http import connection, http_connection
from tertulia.models.http.connection import ProviderConnection
from tertulia.models.http.http_connection import HttpAddress
from tertulia.models.http.provider_error import ProviderAddress, ProviderAttemptError
from tertulia.protocol.network.certificates import tls_context
from tests.deadlines import HANG_S
from tests.mcp.virtual_time import in_virtual_time
from tests.models.mock_provider import MockProvider, event, streamed
from tests.tables import each_row

PLACE = ProviderAddress("mock", "model", "127.0.0.1", None)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncGenerator[ProviderConnection]:
    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve_and_close, "127.0.0.1", 0) as server, asyncio.timeout(HANG_S):
        made = ProviderConnection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", PLACE, HANG_S, HANG_S)
        try:
            yield made
        finally:
            await made.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))


async def whole(made: ProviderConnection, body: bytes = b"{}") -> list[bytes]:
    got: list[bytes] = []
    async with made.post([body], {"X-One": "1"}) as events:
        while ready := await events.next_events():
            got += map(bytes, ready)
    return got


# ---- addresses


@each_row(
    ("url", "begins"),
    [
        ("http://mock.example/v1/responses", "POST /v1/responses HTTP/1.1\r\nHost: mock.example\r\n"),
        ("https://mock.example:443", "POST / HTTP/1.1\r\nHost: mock.example\r\n"),
        ("https://x.example:80/a b/é%20?x=a b", "POST /a%20b/%C3%A9%20?x=a%20b HTTP/1.1\r\nHost: x.example:80\r\n"),
        ("http://[::1]:8000/v1", "POST /v1 HTTP/1.1\r\nHost: [::1]:8000\r\n"),
        ("http://bücher.example/", "POST / HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n"),
    ],
)  # fmt: skip
def test_a_request_begins_with_what_the_address_says(url: str, begins: str) -> None:
    assert HttpAddress(url).begin.startswith(begins)


def test_a_password_of_the_address_is_sent_as_such() -> None:
    head = HttpAddress("http://us%3Aer:pass@mock.example").head({"Accept": "x"}, 7)
    assert head.endswith(b"Authorization: Basic dXM6ZXI6cGFzcw==\r\nAccept: x\r\nContent-Length: 7\r\n\r\n")


@each_row("url", ["http://a b/", "http://a\x7f/", "http:///x", f"http://{'ü' * 80}.example/", "http://a/\x00x/\ud800"])
def test_an_address_that_no_request_can_hold_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        HttpAddress(url).head({}, 0)


# ---- exchanges


async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert b"X-One: 1\r\n" in request
        writer.write(HEAD + b"\r\n" + event("one"))
        await writer.drain()
        writer.write(event("two"))

    async with served(serve) as made:
        assert await whole(made) == [b"one", b"two"]
        assert await whole(made) == [b"one", b"two"]


async def test_bytes_that_were_not_asked_for_close_the_connection_that_waits() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await read_request(reader)
        writer.write(HEAD + b"Content-Length: 11\r\n\r\n" + event("one"))
        await writer.drain()
        await asked_again.wait()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: forged\n\n")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        closed.set()

    connections: list[asyncio.StreamWriter] = []
    asked_again, closed = asyncio.Event(), asyncio.Event()
    async with served(serve) as made:
        assert await whole(made) == [b"one"]
        asked_again.set()
        await closed.wait()
        assert await whole(made) == [b"one"]
        assert len(connections) == 2


async def test_a_compressed_answer_is_refused() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n")

    async with served(serve) as made:
        with pytest.raises(ProviderAttemptError, match="compressed"):
            await whole(made)


async def test_a_refusal_in_the_middle_of_a_long_request_is_heard_at_once() -> None:
    """The rest of it is never read."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await left.wait()

    left = asyncio.Event()
    async with served(serve) as made:
        with pytest.raises(ProviderAttemptError, match=r"too long for model \(413\)") as caught:
            await whole(made, b"x" * 30_000_000)
        left.set()
    assert caught.value.overflow


async def test_one_that_hangs_up_in_the_middle_of_a_long_request_is_not_waited_for() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    async with served(serve) as made:
        with pytest.raises(ProviderAttemptError, match="hung up without an answer"):
            await whole(made, b"x" * 30_000_000)


async def test_one_that_does_not_take_a_long_request_is_given_up_when_it_is_silent_for_too_long() -> None:
    async with MockProvider(streamed()) as mock, asyncio.timeout(HANG_S):
        mock.reads = False
        made = ProviderConnection(mock.url, PLACE, 0.05, 0.05)
        with pytest.raises(ProviderAttemptError, match="stream_idle_timeout_ms"):
            await whole(made, b"x" * 30_000_000)
        assert mock.open_streams == 0
        await made.close()


async def test_what_is_not_read_is_not_fetched() -> None:
    """A reader that takes its time holds up the provider, and does not fill the memory."""
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(HEAD + b"\r\n")
        for _ in range(3_000):
            writer.write(event("x" * 10_000))
            await writer.drain()
            sent += 1

    async with served(serve) as made, made.post([b"{}"], {}) as events:
        got = len(await events.next_events())
        before = -1
        while before < sent:
            before = sent
            for _ in range(1_000):
                await asyncio.sleep(0)
        assert sent < 3_000
        while ready := await events.next_events():
            got += len(ready)
        assert got == sent == 3_000


@in_virtual_time
async def test_pieces_that_come_quickly_are_read_together_and_slow_ones_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A provider that writes 1,000 pieces a second wakes us 200 times a second; one of 100 for each piece."""
    reads: list[float] = []
    real = http_connection.HttpConnection.data_received

    def counted(self: http_connection.HttpConnection, data: bytes) -> None:
        reads.append(asyncio.get_running_loop().time())
        real(self, data)

    monkeypatch.setattr(http_connection.HttpConnection, "data_received", counted)
    for gap_s, most_reads, most_late_s in ((0.001, 30, http_connection.QUICK_S + 0.002), (0.01, 103, 0.002)):
        sent: list[float] = []

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gap_s: float = gap_s, sent: list[float] = sent
        ) -> None:
            await read_request(reader)
            writer.write(HEAD + b"\r\n")
            for number in range(100):
                await asyncio.sleep(gap_s)
                writer.write(event(str(number)))
                sent.append(asyncio.get_running_loop().time())

        reads.clear()
        came: list[float] = []
        async with served(serve) as made, made.post([b"{}"], {}) as events:
            while ready := await events.next_events():
                came += [asyncio.get_running_loop().time()] * len(ready)
        assert len(came) == 100
        assert len(reads) <= most_reads
        assert max(late - early for late, early in zip(came, sent, strict=True)) <= most_late_s


@in_virtual_time
async def test_a_connection_that_is_not_used_for_long_is_closed() -> None:
    async with MockProvider(streamed(event("one"))) as mock:
        made = ProviderConnection(mock.url, PLACE, 5.0, 5.0)
        await whole(made)
        await asyncio.sleep(connection._KEPT_S / 2)
        await whole(made)
        assert mock.connections == 1
        await asyncio.sleep(connection._KEPT_S * 0.75)
        await whole(made)
        assert mock.connections == 1
        await asyncio.sleep(connection._KEPT_S * 2)
        await whole(made)
        assert mock.connections == 2
        await made.close()


async def test_closing_ends_a_request_that_still_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    real = connection.connect

    async def slow(address: HttpAddress, free: Callable[[http_connection.HttpConnection], None]) -> object:
        made = await real(address, free)
        await line.close()
        return made

    monkeypatch.setattr(connection, "connect", slow)
    async with MockProvider(streamed(event("one"))) as mock:
        line = ProviderConnection(mock.url, PLACE, 5.0, 5.0)
        with pytest.raises(ProviderAttemptError, match="closed on our side"):
            await whole(line)
        assert mock.seen == []
        assert mock.open_streams == 0


# ---- trust


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program to make a certificate")
async def test_one_whose_certificate_is_trusted_is_asked_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    makes = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other.example"]
    makes += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(makes, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls_context.cache_clear()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            assert len(await read_request(reader)) > 1_000_000
            writer.write(HEAD + b"Content-Length: 11\r\n\r\n" + event("one"))
        with suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()

    try:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server, asyncio.timeout(HANG_S):
            port = server.sockets[0].getsockname()[1]
            trusted, other = (
                ProviderConnection(f"https://{host}:{port}", PLACE, HANG_S, HANG_S)
                for host in ("127.0.0.1", "localhost")
            )
            assert await whole(trusted, b"x" * 1_000_000) == [b"one"]
            assert await whole(trusted, b"x" * 1_000_000) == [b"one"]
            # The certificate is of another name.
            with pytest.raises(ProviderAttemptError, match="certificate is for another host"):
                await whole(other)
            await trusted.close()
    finally:
        tls_context.cache_clear()
