"""A proxy on the loopback without a sandbox around its clients, and servers whose names only the test knows."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp

from tertulia.policy.host_rules import HostRules
from tertulia.policy.hosts import Address
from tertulia.sandbox.proxy import connection
from tertulia.sandbox.proxy.addresses import Streams, connect
from tertulia.sandbox.proxy.gate import Access, NetworkLimits, NetworkUse
from tertulia.sandbox.proxy.rules_gate import RulesGate
from tertulia.sandbox.proxy.server import ProxyServer
from tertulia.scheduler.nursery import Nursery
from tests.deadlines import HANG_S

HERE = "127.0.0.1"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def until(happened: Callable[[], object]) -> None:
    """Wait for something that no event tells of; fails when it does not come."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()

    def look() -> None:
        if happened():
            came.set()
        else:
            loop.call_soon(look)

    look()
    await asyncio.wait_for(came.wait(), HANG_S)


class Names:
    """A resolver of the test: names that it knows, and what was asked."""

    def __init__(self, **known: str) -> None:
        self.known = {name.replace("_", "."): [address] for name, address in known.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> Sequence[Address]:
        self.asked.append(name)
        if name not in self.known:
            raise OSError("no such name")
        return [ip_address(address) for address in self.known[name]]


class Upstream:
    """A server that keeps what it was sent, and answers each connection with the same bytes after its first piece."""

    def __init__(self, answer: bytes = ANSWER, *, closes: bool = True) -> None:
        self.received: list[bytes] = []
        self._answer, self._closes = answer, closes
        self.port = 0

    @asynccontextmanager
    async def serve(self, *, tls: bool = False, curve: str = "") -> AsyncIterator[Upstream]:
        context = server_context() if tls else None
        if context is not None and curve:
            context.set_ecdh_curve(curve)
        server = await asyncio.start_server(self._take, HERE, 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.received)
        self.received.append(b"")
        try:
            while data := await reader.read(65_536):
                self.received[number] += data
                if self._answer and b"\r\n\r\n" in self.received[number]:
                    writer.write(self._answer)
                    await writer.drain()
                    if self._closes:
                        break
        except OSError:
            return
        finally:
            writer.close()


class Proxy:
    """The proxy, its gate, and what the gate was told."""

    def __init__(self, rules: HostRules, names: Names, limits: NetworkLimits | None = None) -> None:
        self.told: list[Access] = []
        self.nursery = Nursery()
        self.use = NetworkUse()
        self.names = names
        self._listener = socket.create_server((HERE, 0))
        self.port = self._listener.getsockname()[1]
        start, tell = self.nursery.start, self.told.append
        gate = RulesGate(rules, start, limits=limits, use=self.use, names=names, on_access=tell)
        self.server = ProxyServer(self._listener, gate)

    async def open(self) -> Streams:
        return await asyncio.open_connection(HERE, self.port)

    async def ask(self, request: bytes, *, more: bytes = b"") -> bytes:
        """All that is answered, up to the end of the connection; `more` is sent after the first piece came back."""
        async with asyncio.timeout(HANG_S):
            reader, writer = await self.open()
            writer.write(request)
            if more:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(more)
            try:
                return await reader.read()
            finally:
                writer.close()

    async def idle(self) -> None:
        """Until no connection is served any more."""
        await until(lambda: not (self.use.connections or len(self.nursery)))

    async def close(self) -> None:
        self.server.close()
        await self.nursery.close(HANG_S)


@asynccontextmanager
async def proxy(
    *allow: str, deny: Sequence[str] = (), limits: NetworkLimits | None = None, **known: str
) -> AsyncIterator[Proxy]:
    """A proxy that allows these hosts, and knows these names, written with `_` for the dot."""
    made = Proxy(HostRules(allow, tuple(deny)), Names(**known), limits)
    try:
        yield made
    finally:
        await made.close()


def ports_lead_to(monkeypatch, **ports: int) -> None:
    """Have connections to `p80` and `p443` made to other ports, which an ordinary user can listen on."""
    leads = {int(name[1:]): port for name, port in ports.items()}

    async def connect_there(addresses: Sequence[Address], port: int, limit: int) -> Streams:
        return await connect(addresses, leads.get(port, port), limit)

    monkeypatch.setattr(connection, "connect", connect_there)


@cache
def certificate() -> tuple[Path, Path]:
    """Of no authority, for every name that tests use."""
    folder = Path(mkdtemp(prefix="tertulia-test-"))
    key, chain = folder / "key.pem", folder / "chain.pem"
    names = "subjectAltName=DNS:*.example,DNS:files.example,IP:127.0.0.1"
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    line += ["-keyout", str(key), "-out", str(chain), "-days", "2", "-subj", "/CN=files.example", "-addext", names]
    subprocess.run(line, check=True, capture_output=True, timeout=HANG_S)
    chain.chmod(0o644)
    folder.chmod(0o755)
    return key, chain


def server_context() -> ssl.SSLContext:
    key, chain = certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return context


def client_hello(name: str | None) -> bytes:
    """The first bytes of a real TLS client that wants this server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake needs a server")
