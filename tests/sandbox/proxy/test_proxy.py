"""Issue 26: the proxy by raw connections. Only hosts of the list are reached, however they are asked for."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from ipaddress import ip_address

import pytest

from tertulia.sandbox.proxy import connection, relay
from tertulia.sandbox.proxy.gate import NetworkLimits
from tests.deadlines import HANG_S
from tests.sandbox.proxy.proxied import HERE, Upstream, certificate, client_hello, ports_lead_to, proxy, until
from tests.tables import each_row


def get(url: str, host: str = "", more: str = "") -> bytes:
    host = host or re.sub(r"^http://|/.*$", "", url)
    return f"GET {url} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode("latin-1")


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def socks(host: bytes | str, port: int, kind: int = 3) -> bytes:
    address = bytes((len(host),)) + host if isinstance(host, bytes) else ip_address(host).packed
    return b"\5\1\0\5\1\0" + bytes((kind,)) + address + struct.pack("!H", port)


# ---- what is allowed works


async def test_a_request_reaches_an_allowed_host_as_if_it_were_the_only_one() -> None:
    async with Upstream().serve() as server, proxy("files.example:*", "127.0.0.1:*", files_example=HERE) as at:
        url = f"http://files.example:{server.port}/a?b=c"
        dropped = "Accept: x\r\nProxy-Connection: keep-alive\r\nConnection: x-hop\r\nX-Hop: 1\r\nTE: trailers\r\n"
        answer = await at.ask(get(url, more=dropped) + get("http://evil.example/"))
        await at.idle()
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
    sent = f"GET /a?b=c HTTP/1.1\r\nhost: files.example:{server.port}\r\naccept: x\r\nconnection: close\r\n\r\n"
    assert server.received == [sent.encode()]
    (access,) = at.told
    assert (access.host, access.verdict, access.because) == ("files.example", "allowed", "network.allow")
    assert access.bytes == at.use.bytes == len(sent) + len(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@each_row(
    "head, body, sent",
    [
        ("Content-Length: 3\r\n", b"abcGET http://evil/", b"abc"),
        (
            "Transfer-Encoding: chunked\r\n",
            b"2;x=y\r\nab\r\n01\r\nc\r\n0\r\nT: u\r\n\r\nGET",
            b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        ),
        ("", b"GET http://evil.example/ HTTP/1.1\r\n\r\n", b""),
    ],
)
async def test_a_body_is_passed_on_to_its_end_and_nothing_after_it(head: str, body: bytes, sent: bytes) -> None:
    """Request smuggling."""
    async with Upstream(b"").serve() as server, proxy("files.example:*", "127.0.0.1:*", files_example=HERE) as at:
        _reader, writer = await at.open()
        url = f"http://files.example:{server.port}/"
        writer.write(get(url, more=head).replace(b"GET", b"POST", 1) + body)
        await until(lambda: server.received and server.received[0].endswith(b"\r\n\r\n" + sent))
        writer.close()
    assert server.received[0].partition(b"\r\n\r\n")[2] == sent


async def test_answers_of_every_form_are_passed_on_to_their_end() -> None:
    for answer, body in [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore", b"ok"),
        (b"HTTP/1.1 204 No Content\r\nKeep-Alive: x\r\n\r\n", b""),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", b"1\r\na\r\n0\r\n\r\n"),
    ]:
        async with Upstream(answer).serve() as server, proxy("a.example:*", "127.0.0.1:*", a_example=HERE) as at:
            got = await at.ask(get(f"http://a.example:{server.port}/"))
        assert got.endswith(b"connection: close\r\n\r\n" + body), answer


async def test_a_redirect_is_passed_on_and_its_target_is_another_request() -> None:
    """A redirect to another host."""
    away = b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"
    async with (
        Upstream(away).serve() as server,
        proxy("a.example:*", "127.0.0.1:*", a_example=HERE, evil_example=HERE) as at,
    ):
        assert status(await at.ask(get(f"http://a.example:{server.port}/"))) == 302
        assert status(await at.ask(get("http://evil.example/"))) == 403
    assert len(server.received) == 1


# ---- what is not allowed


@each_row(
    "url",
    [
        "http://evil.example:{port}/",
        "http://evil.files.example:{port}/",
        "http://files.example.evil:{port}/",
        "http://127.0.0.2:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.2]:{port}/",
        "http://localhost:{port}/",
        "http://xn--fles-5ra.example:{port}/",
        "http://169.254.169.254:{port}/latest/meta-data/",
        "http://[fd00:ec2::254]:{port}/",
        "http://files.example:{other}/",
        "http://denied.example:{port}/",
    ],
)
async def test_a_host_that_is_not_in_the_list_is_refused_with_the_way_to_allow_it(url: str) -> None:
    """An address instead of a name, another port, IPv6, punycode, metadata."""
    async with Upstream().serve() as server:
        allowed = (f"files.example:{server.port}", f"127.0.0.1:{server.port}")
        async with proxy(
            *allowed, deny=["denied.example"], files_example=HERE, localhost=HERE, denied_example=HERE
        ) as at:
            answer = await at.ask(get(url.format(port=server.port, other=server.port ^ 1)))
            assert status(answer) == 403, url
            assert b"network.allow" in answer or b"network.deny" in answer
            assert (at.told[0].verdict, at.names.asked, server.received) == ("refused", [], [])


@each_row(
    "url",
    [
        *(
            "http://127.1:{port}/",
            "http://0x7f000001:{port}/",
            "http://2130706433:{port}/",
            "http://0177.0.0.1:{port}/",
        ),
        *(
            "http://127.0.0.01:{port}/",
            "http://[::1%25lo]:{port}/",
            "http://[127.0.0.1]:{port}/",
            "http://\u00b927.0.0.1:{port}/",
        ),
        *("http://files.example@evil.example:{port}/", "http://evil.example:{port}@files.example:{port}/"),
        *("http://files.example:{port}\\@evil.example/", "http://files.example%00.evil:{port}/", "http://a..b:{port}/"),
        *(
            "https://files.example:{port}/",
            "//files.example:{port}/",
            "/",
            "ftp://files.example/",
            "http:///",
            "http://:{port}/",
        ),
        *(
            "http://files.example:0/",
            "http://files.example:99999/",
            "http://files.example:{port}/#x",
            "http://*:{port}/",
        ),
    ],
)
async def test_an_odd_spelling_of_a_host_is_no_request(url: str) -> None:
    """Odd spellings of addresses, user info in the URL."""
    async with Upstream().serve() as server, proxy("files.example:*", "127.0.0.1:*", files_example=HERE) as at:
        answer = await at.ask(get(url.format(port=server.port), f"files.example:{server.port}"))
        assert status(answer) == 400, url
        assert (at.names.asked, server.received) == ([], [])


@each_row("name", ["FILES.Example", "files.example.", "FILES.EXAMPLE."])
async def test_case_and_a_trailing_dot_name_the_same_host(name: str) -> None:
    async with Upstream().serve() as server, proxy("files.example:*", "127.0.0.1:*", files_example=HERE) as at:
        assert status(await at.ask(get(f"http://{name}:{server.port}/"))) == 200
        assert at.names.asked == ["files.example"]
    assert b"host: files.example:" in server.received[0]


@each_row(
    "request_bytes",
    [
        b"GET http://files.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost: files.example:81\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost: files.example\r\nHost: evil.example\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost : files.example\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost: files.example\r\n folded\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\nHost: files.example\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost: files.example\rX: y\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost: files.example\r\nX\0: y\r\n\r\n",
        b"GET  http://files.example/ HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"GET http://files.example/ HTTP/2.0\r\nHost: files.example\r\n\r\n",
        b"PUT http://files.example/ HTTP/1.1\r\nHost: files.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        b"POST http://files.example/ HTTP/1.1\r\nHost: files.example\r\nContent-Length: +1\r\n\r\na",
        (
            b"POST http://files.example/ HTTP/1.1\r\nHost: files.example\r\nContent-Length: 1\r\n"
            b"Transfer-Encoding: chunked\r\n\r\na"
        ),
        b"POST http://files.example/ HTTP/1.1\r\nHost: files.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\na",
        b"POST http://files.example/ HTTP/1.0\r\nHost: files.example\r\nTransfer-Encoding: chunked\r\n\r\na",
        b"CONNECT files.example HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"CONNECT http://files.example:443 HTTP/1.1\r\nHost: files.example\r\n\r\n",
        b"\4\1\0\x50\x7f\0\0\1\0\r\n\r\n",
        b"GET http://files.example/ HTTP/1.1\r\nHost: files.example\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused_before_any_host_is_reached(request_bytes: bytes) -> None:
    """Request smuggling; Host that differs."""
    async with proxy("files.example", "127.0.0.1", files_example=HERE) as at:
        answer = await at.ask(request_bytes)
        assert status(answer) == 400, request_bytes[:80]
        assert at.names.asked == []


@each_row(
    "answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"HTTP/1.1 200 OK\r\nBad\r\n\r\n"]
)
async def test_an_answer_that_cannot_be_passed_on_is_a_bad_gateway(answer: bytes) -> None:
    async with Upstream(answer).serve() as server, proxy("a.example:*", "127.0.0.1:*", a_example=HERE) as at:
        assert status(await at.ask(get(f"http://a.example:{server.port}/"))) == 502


# ---- names and addresses


async def test_a_name_that_leads_to_a_private_address_needs_that_address_in_the_list() -> None:
    """DNS answers that change: an allowed name does not become a way to this machine."""
    async with Upstream().serve() as server, proxy(f"a.example:{server.port}", a_example="203.0.113.7") as at:
        for address in (HERE, "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0"):
            at.names.known["a.example"] = [address]
            answer = await at.ask(get(f"http://a.example:{server.port}/"))
            assert status(answer) == 403, address
            assert b"no address of the internet" in answer
        assert server.received == []


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to() -> None:
    """DNS answers that change: of several only those that pass are tried, and the name is looked up once."""
    async with (
        Upstream().serve() as server,
        proxy(f"a.example:{server.port}", f"127.0.0.1:{server.port}", a_example=HERE) as at,
    ):
        at.names.known["a.example"] = ["10.255.255.1", HERE]
        assert status(await at.ask(get(f"http://a.example:{server.port}/"))) == 200
        assert at.names.asked == ["a.example"]


async def test_a_denied_address_is_not_reached_by_any_name() -> None:
    async with (
        Upstream().serve() as server,
        proxy("a.example:*", "127.0.0.0/8:*", deny=[HERE], a_example=HERE) as at,
    ):
        assert status(await at.ask(get(f"http://a.example:{server.port}/"))) == 403
        assert status(await at.ask(get(f"http://127.0.0.1:{server.port}/"))) == 403
    assert server.received == []


async def test_a_host_that_has_no_address_or_does_not_answer_is_a_bad_gateway() -> None:
    closed = socket.create_server((HERE, 0))
    port = closed.getsockname()[1]
    closed.close()
    async with proxy("a.example:*", "b.example:*", "c.example:*", "127.0.0.1:*", b_example=HERE) as at:
        at.names.known["c.example"] = []
        for name in "abc":
            assert status(await at.ask(get(f"http://{name}.example:{port}/"))) == 502
    assert [access.verdict for access in at.told] == ["failed"] * 3


# ---- tunnels


async def test_a_tunnel_carries_tls_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream().serve(tls=True) as server, proxy("files.example", HERE, files_example=HERE) as at:
        ports_lead_to(monkeypatch, p443=server.port)
        for kind in ("CONNECT", "SOCKS"):
            reader, writer = await at.open()
            first = b"CONNECT files.example:443 HTTP/1.1\r\nHost: files.example:443\r\n\r\n"
            writer.write(first if kind == "CONNECT" else socks(b"files.example", 443))
            end = b"\r\n\r\n" if kind == "CONNECT" else b"\5\0\5\0\0\1\0\0\0\0\0\0"
            assert (await reader.readuntil(end)).startswith(b"HTTP/1.1 200" if kind == "CONNECT" else b"\5\0")
            context = ssl.create_default_context()
            context.load_verify_locations(certificate()[1])
            await writer.start_tls(context, server_hostname="files.example")
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(HANG_S):
                assert (await reader.read()).endswith(b"ok")
            writer.close()
        await at.idle()
    assert server.received == [b"GET / HTTP/1.1\r\n\r\n"] * 2
    assert [(access.port, access.verdict) for access in at.told] == [(443, "allowed")] * 2


CONNECT = b"CONNECT files.example:443 HTTP/1.1\r\nHost: files.example:443\r\n\r\n"


@each_row(
    "hello, reason",
    [
        (client_hello("evil.example"), "is another"),
        (client_hello(None), "names no server"),
        (client_hello("files.example.evil.example"), "is another"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "begin with TLS"),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", "another message"),
        (
            b"".join(b"\x16\x03\x01\x40\x00" + part + b"x" * 16_380 for part in (b"\x01\xff\xff\xff", *[b"xxxx"] * 4)),
            "does not end",
        ),
    ],
)
async def test_a_tunnel_to_another_server_name_is_ended_and_nothing_of_it_sent(hello: bytes, reason: str) -> None:
    """Host and SNI that differ."""
    with pytest.MonkeyPatch.context() as patch:
        async with Upstream(b"").serve() as server, proxy("files.example", HERE, files_example=HERE) as at:
            ports_lead_to(patch, p443=server.port)
            answer = await at.ask(CONNECT, more=hello)
            await at.idle()
    assert answer in (b"", bytes((0x15, 3, 3, 0, 2, 2, 112)))
    assert server.received in ([], [b""])
    assert at.told[0].verdict == "refused"
    assert re.search(reason, at.told[0].because), at.told[0].because


async def test_a_second_hello_that_a_server_asks_for_has_to_name_the_host_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Host and SNI that differ: a server that cannot use the keys of the first hello has it said again."""
    changes_cipher = b"\x14\x03\x03\0\1\1"
    # No client offers keys for this curve unasked.
    async with (
        Upstream().serve(tls=True, curve="secp521r1") as server,
        proxy("files.example", HERE, files_example=HERE) as at,
    ):
        ports_lead_to(monkeypatch, p443=server.port)
        reader, writer = await at.open()
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        context = ssl.create_default_context()
        context.load_verify_locations(certificate()[1])
        await writer.start_tls(context, server_hostname="files.example")
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(HANG_S):
            assert (await reader.read()).endswith(b"ok")
        writer.close()
        for between in (b"", changes_cipher, b"\x17\x03\x03\0\3abc" + changes_cipher):
            reader, writer = await at.open()
            writer.write(CONNECT)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(client_hello("files.example"))
            async with asyncio.timeout(HANG_S):
                retry = await reader.readexactly(11 + 32)
                assert retry.endswith(bytes.fromhex("079e09e2c8a8339c"))
                writer.write(between + client_hello("evil.example"))
                assert (await reader.read()).endswith(bytes((0x15, 3, 3, 0, 2, 2, 112)))
            writer.close()
        await at.idle()
    assert [access.verdict for access in at.told] == ["allowed", "refused", "refused", "refused"]
    assert all("is another" in access.because for access in at.told[1:])


async def test_a_second_hello_that_comes_with_the_first_waits_for_the_servers_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Host and SNI that differ: both hellos in one write, so that they are read at once."""
    async with (
        Upstream().serve(tls=True, curve="secp521r1") as server,
        proxy("files.example", HERE, files_example=HERE) as at,
    ):
        ports_lead_to(monkeypatch, p443=server.port)
        for between in (b"", b"\x14\x03\x03\0\1\1"):
            reader, writer = await at.open()
            writer.write(CONNECT)
            await reader.readuntil(b"\r\n\r\n")
            first = client_hello("files.example")
            writer.write(first + between + client_hello("evil.example"))
            async with asyncio.timeout(HANG_S):
                assert (await reader.read()).endswith(bytes((0x15, 3, 3, 0, 2, 2, 112)))
            writer.close()
            await at.idle()
            # Of what the command wrote only the first hello went on, and the answer to it.
            assert at.told[-1].bytes < len(first) + 200
    assert [access.verdict for access in at.told] == ["refused", "refused"]
    assert all("is another" in access.because for access in at.told)


async def test_a_server_name_is_read_although_it_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream(b"").serve() as server, proxy("files.example", HERE, files_example=HERE) as at:
        ports_lead_to(monkeypatch, p443=server.port)
        for name, expected in (("files.example", "allowed"), ("evil.example", "refused")):
            reader, writer = await at.open()
            writer.write(CONNECT)
            await reader.readuntil(b"\r\n\r\n")
            for byte in client_hello(name):
                writer.write(bytes((byte,)))
                await writer.drain()
                await asyncio.sleep(0)
            if expected == "allowed":
                await until(lambda: server.received[0])
            writer.write_eof()
            async with asyncio.timeout(HANG_S):
                await reader.read()
            writer.close()
        await at.idle()
    assert [access.verdict for access in at.told] == ["allowed", "refused"]
    assert b"files.example" in server.received[0]
    assert not any(b"evil.example" in received for received in server.received)


async def test_plain_http_in_a_tunnel_is_read_request_by_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and the name of the tunnel that differ; SOCKS5 clients send plain HTTP like this."""
    async with Upstream().serve() as server, proxy("files.example", HERE, files_example=HERE) as at:
        ports_lead_to(monkeypatch, p80=server.port)
        opened = socks(b"files.example", 80)
        good = b"GET /a HTTP/1.1\r\nHost: files.example\r\n\r\n"
        assert (await at.ask(opened + good)).endswith(b"connection: close\r\n\r\nok")
        for bad in (good.replace(b"Host: files", b"Host: evil"), good.replace(b"/a", b"http://evil.example/a")):
            assert b"HTTP/1.1 400" in await at.ask(opened + bad)
    assert [received.split(b"\r\n")[0] for received in server.received if received] == [b"GET /a HTTP/1.1"]


async def test_at_a_port_that_is_named_the_server_may_speak_first_and_tls_is_still_checked() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-server\r\n")
        got.append(await reader.read(100))
        writer.close()

    got: list[bytes] = []
    async with await asyncio.start_server(greet, HERE, 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with proxy(f"a.example:{port}", f"127.0.0.1:{port}", a_example=HERE) as at:
            connect = f"CONNECT a.example:{port} HTTP/1.1\r\n\r\n".encode()
            reader, writer = await at.open()
            writer.write(connect)
            async with asyncio.timeout(HANG_S):
                await reader.readuntil(b"SSH-2.0-server\r\n")
                writer.write(b"SSH-2.0-client\r\n")
                await reader.read()
            writer.close()
            await at.ask(connect, more=client_hello("evil.example"))
            await at.idle()
    assert got[0] == b"SSH-2.0-client\r\n"
    assert not any(b"evil" in data for data in got)
    assert [access.verdict for access in at.told] == ["allowed", "refused"]


@each_row(
    "request_bytes, answer",
    [
        (socks(b"evil.example", 443), b"\5\0\5\2"),
        (socks("127.0.0.2", 443, 1), b"\5\0\5\2"),
        (socks("::1", 443, 4), b"\5\0\5\2"),
        (socks("::ffff:127.0.0.2", 443, 4), b"\5\0\5\2"),
        (socks(b"files.example", 22), b"\5\0\5\2"),
        (socks(b"gone.example", 443), b"\5\0\5\4"),
        (socks(b"127.1", 443), b"\5\0\5\1"),
        (socks(b"files.example\0", 443), b"\5\0\5\1"),
        (socks(b"\xff", 443), b"\5\0\5\1"),
        (b"\5\1\0\5\2\0\1\x7f\0\0\1\0\x50", b"\5\0\5\1"),
        (b"\5\1\0\5\3\0\1\x7f\0\0\1\0\x50", b"\5\0\5\1"),
        (b"\5\1\2", b"\5\xff"),
    ],
)
async def test_socks_is_refused_like_http(request_bytes: bytes, answer: bytes) -> None:
    async with proxy("files.example", "gone.example", HERE, files_example=HERE) as at:
        assert (await at.ask(request_bytes))[: len(answer)] == answer


# ---- what is slow, endless or too much


async def test_a_client_that_does_not_say_what_it_wants_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow connections."""
    monkeypatch.setattr(connection, "HEAD_S", 0.05)
    async with Upstream(b"").serve() as server, proxy("files.example", HERE, files_example=HERE) as at:
        ports_lead_to(monkeypatch, p443=server.port, p80=server.port)
        for begun in (b"", b"G", b"\5", b"\5\1\0\5", CONNECT, CONNECT + client_hello("files.example")[:20]):
            answer = await at.ask(begun)
            assert answer[:1] in (b"", b"\5") or status(answer) in (200, 400), begun
        await at.idle()
    assert server.received in ([], [b""] * len(server.received))


async def test_an_endless_or_silent_connection_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless connections: by time, by silence and by bytes."""
    silent = Upstream(b"")
    async with silent.serve(), Upstream(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, closes=False).serve() as server:
        hosts = ("a.example:*", "127.0.0.1:*")
        async with proxy(*hosts, limits=NetworkLimits(connection_s=0.05), a_example=HERE) as at:
            await at.ask(get(f"http://a.example:{silent.port}/"))
            await at.ask(get(f"http://a.example:{server.port}/"))
        monkeypatch.setattr(relay, "IDLE_S", 0.05)
        async with proxy(*hosts, a_example=HERE) as at:
            await at.ask(get(f"http://a.example:{silent.port}/"))
            await at.ask(f"CONNECT a.example:{silent.port} HTTP/1.1\r\n\r\n".encode())
        monkeypatch.undo()
        async with proxy(*hosts, limits=NetworkLimits(bytes=50_000), a_example=HERE) as at:
            got = await at.ask(get(f"http://a.example:{server.port}/"))
            assert len(got) < 51_000
            await at.idle()
            assert (at.told[-1].verdict, "max_network_bytes" in at.told[-1].because) == ("refused", True)
            assert status(await at.ask(get(f"http://a.example:{server.port}/"))) == 403


async def test_ten_thousand_connections_are_turned_away_but_for_as_many_as_are_allowed() -> None:
    """10,000 connections, a thousand at a time; those that were taken are served to their end."""
    async with Upstream().serve() as server:
        limits = NetworkLimits(connections=8)
        async with proxy("a.example:*", "127.0.0.1:*", limits=limits, a_example=HERE) as at:
            held = [await at.open() for _ in range(8)]
            await until(lambda: at.use.connections == 8)
            refused = 0
            for _ in range(100):
                many = [socket.create_connection((HERE, at.port)) for _ in range(100)]
                refused += 100
                await until(lambda wanted=refused: len(at.told) == wanted)
                for one in many:
                    assert one.recv(20).startswith(b"HTTP/1.1 503")
                    one.close()
            assert at.use.connections == 8
            for reader, writer in held:
                writer.write(get(f"http://a.example:{server.port}/"))
                async with asyncio.timeout(HANG_S):
                    assert (await reader.read()).endswith(b"ok")
                writer.close()
            await at.idle()
    assert at.use.connections == 0


async def test_when_the_proxy_ends_all_its_connections_end_and_none_is_taken() -> None:
    """The proxy killed in the middle."""
    async with (
        Upstream(b"HTTP/1.1 200 OK\r\n\r\nbegin", closes=False).serve() as server,
        proxy("a.example:*", "127.0.0.1:*", a_example=HERE) as at,
    ):
        reader, writer = await at.open()
        writer.write(get(f"http://a.example:{server.port}/"))
        async with asyncio.timeout(HANG_S):
            await reader.readuntil(b"begin")
            at.server.close()
            with pytest.raises(ConnectionError):
                assert await reader.read() == b""
                writer.write(b"x")
                await asyncio.sleep(0)
                raise ConnectionError
        with pytest.raises(ConnectionRefusedError):
            await at.open()
        await at.idle()
        writer.close()
