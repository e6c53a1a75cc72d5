"""One connection of a command to the proxy: HTTP with whole addresses, CONNECT, or SOCKS5, from its first byte on.

What is not understood, not allowed or not in time ends it. Nothing of a request is sent on before its host is allowed,
nothing of a TLS connection before its server name is read, and one HTTP request is all that a connection takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from tertulia.errors import InvalidParamsError
from tertulia.policy.hosts import WEB_PORTS, parse_host
from tertulia.sandbox.proxy.addresses import Streams, connect
from tertulia.sandbox.proxy.gate import (
    Access,
    AccessVerdict,
    BudgetSpentError,
    HostGate,
    HostRefusedError,
    UnreachableError,
)
from tertulia.sandbox.proxy.http_head import (
    MAX_HEAD,
    BadMessageError,
    Request,
    Target,
    forwarded,
    read_authority,
    read_request,
    read_response,
    read_target,
    refusal,
)
from tertulia.sandbox.proxy.relay import CHUNK, IdleWatch, Meter, copy, copy_chunks, copy_exactly, widen
from tertulia.sandbox.proxy.tls_hello import TLS_HANDSHAKE
from tertulia.sandbox.proxy.tls_tunnel import TlsTunnel

HEAD_S = 30.0
"""How long a client takes at most to say what it wants."""
_LAST_S = 5.0
_END_OF_HEAD = b"\r\n\r\n"
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_FORBIDDEN, _NOT_REACHED, _MALFORMED = "403 Forbidden", "502 Bad Gateway", "400 Bad Request"

SOCKS_VERSION = 5
_SOCKS_CONNECT = 1
_SOCKS_CODES = {_FORBIDDEN: 2, _NOT_REACHED: 4, _MALFORMED: 1}
_SOCKS_NO_ADDRESS = b"\0\1\0\0\0\0\0\0"

_LOST = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)
"""One side has gone, or is silent, or has sent what cannot be read."""


class ProxyConnection:
    """Serves one connection; `serve` returns when it is over."""

    def __init__(self, client: Streams, gate: HostGate) -> None:
        self._reader, self._writer = self._client = client
        self._gate = gate
        self._meter = Meter(gate)
        self._target: Target | None = None
        self._because = ""
        self._refuse: Callable[[str, str], bytes] | None = refusal
        """How the client is told that it is refused; None where it cannot be told any more."""
        self._upstream: Streams | None = None
        widen(self._writer)

    async def serve(self) -> None:
        """Take the request, and do it or refuse it. Raises nothing but what its caller cancels it with."""
        watch = IdleWatch(self._meter, self._abort)
        verdict: AccessVerdict = "allowed"
        try:
            async with asyncio.timeout(self._gate.limits.connection_s):
                await self._serve()
        except (HostRefusedError, BudgetSpentError) as error:
            verdict, self._because = "refused", str(error)
            await self._answer_refusal(_FORBIDDEN, str(error))
        except UnreachableError as error:
            verdict, self._because = "failed", str(error)
            await self._answer_refusal(_NOT_REACHED, str(error))
        except BadMessageError as error:
            await self._answer_refusal(_MALFORMED, str(error))
        except _LOST:
            await self._answer_refusal(_MALFORMED, "the request was not understood, or took too long")
        except asyncio.CancelledError:
            self._abort()
            raise
        finally:
            watch.stop()
            self._tell(verdict)
        await self._close()

    def _writers(self) -> list[asyncio.StreamWriter]:
        return [self._writer, *(() if self._upstream is None else (self._upstream[1],))]

    def _abort(self) -> None:
        for writer in self._writers():
            writer.transport.abort()

    async def _close(self) -> None:
        """Send what waits to be sent, for a moment."""
        for writer in self._writers():
            writer.close()
        with suppress(OSError):
            async with asyncio.timeout(_LAST_S):
                await asyncio.gather(*(writer.wait_closed() for writer in self._writers()), return_exceptions=True)
        self._abort()

    def _tell(self, verdict: AccessVerdict) -> None:
        if self._target is not None and (self._because or verdict != "allowed"):
            host, port = self._target.host.name, self._target.port
            access = Access(host=host, port=port, verdict=verdict, because=self._because, bytes=self._meter.bytes)
            self._gate.tell(access)

    async def _answer_refusal(self, status: str, sentence: str) -> None:
        if self._refuse is not None:
            with suppress(OSError):
                self._writer.write(self._refuse(status, sentence))
                await self._writer.drain()

    async def _serve(self) -> None:
        async with asyncio.timeout(HEAD_S):
            first = await self._reader.readexactly(1)
        if first[0] == SOCKS_VERSION:
            await self._serve_socks()
        else:
            await self._serve_http(first, None)

    async def _reach(self, target: Target) -> Streams:
        """A connection to a host that is allowed."""
        self._target = target
        addresses, because = await self._gate.admit(target.host, target.port)
        self._upstream = await connect(addresses, target.port, CHUNK)
        widen(self._upstream[1])
        self._because = because
        return self._upstream

    # ---- HTTP

    async def _serve_http(self, first: bytes, tunnel: Target | None) -> None:
        """One request; `tunnel`: the host of the connection that it is sent through."""
        async with asyncio.timeout(HEAD_S):
            head = first + await self._reader.readuntil(_END_OF_HEAD)
        if len(head) > MAX_HEAD:
            raise BadMessageError(f"the head of a request has at most {MAX_HEAD:,} bytes")
        request = read_request(head)
        if request.method == b"CONNECT" and tunnel is None:
            target = read_authority(request.target, None)
            await self._reach(target)
            await self._tunnel(target, _ESTABLISHED)
            return
        target, path = read_target(request, tunnel)
        length = request.body()
        upstream = self._upstream if tunnel is not None and self._upstream else await self._reach(target)
        await self._forward(request, forwarded(request, target, path), length, upstream)

    async def _forward(self, request: Request, head: bytes, length: int | None, upstream: Streams) -> None:
        self._meter.add(len(head))
        upstream[1].write(head)
        sending = self._gate.start(self._send_body(length, upstream), "body of a request")
        try:
            await self._send_answer(request, upstream)
        finally:
            sending.cancel()

    async def _send_body(self, length: int | None, upstream: Streams) -> None:
        try:
            if length is None:
                await copy_chunks(self._reader, upstream[1], self._meter)
            else:
                await copy_exactly(self._reader, upstream[1], length, self._meter)
        except (*_LOST, BudgetSpentError):
            # Half a body must not pass for a whole one. The answer ends with the connection.
            upstream[1].transport.abort()

    async def _send_answer(self, request: Request, upstream: Streams) -> None:
        while True:
            try:
                head = await upstream[0].readuntil(_END_OF_HEAD)
                response = read_response(head)
            except (*_LOST, BadMessageError):
                raise UnreachableError("the host gave no answer that can be passed on") from None
            if response.status == 101:
                raise UnreachableError("the host changed the protocol without being asked to")
            self._refuse = None
            self._meter.add(len(head))
            self._writer.write(response.forwarded())
            if response.status >= 200:
                break
        length = response.body(request.method)
        if length is None:
            await copy(upstream[0], self._writer, self._meter)
        else:
            await copy_exactly(upstream[0], self._writer, length, self._meter)

    # ---- SOCKS5

    async def _serve_socks(self) -> None:
        self._refuse = None
        async with asyncio.timeout(HEAD_S):
            methods = await self._reader.readexactly((await self._reader.readexactly(1))[0])
            if 0 not in methods:
                self._writer.write(bytes((SOCKS_VERSION, 0xFF)))
                return
            self._writer.write(bytes((SOCKS_VERSION, 0)))
            self._refuse = _socks_refusal
            target = await self._socks_target()
        await self._reach(target)
        await self._tunnel(target, _socks_answer(0))

    async def _socks_target(self) -> Target:
        version, command, _, kind = await self._reader.readexactly(4)
        if version != SOCKS_VERSION or command != _SOCKS_CONNECT or kind not in (1, 3, 4):
            raise BadMessageError("only CONNECT of SOCKS5 is known")
        if kind == 3:
            length = (await self._reader.readexactly(1))[0]
            name = (await self._reader.readexactly(length)).decode("ascii")
        else:
            name = str(ip_address(await self._reader.readexactly(4 if kind == 1 else 16)))
        port = int.from_bytes(await self._reader.readexactly(2), "big")
        try:
            return Target(parse_host(name), port)
        except InvalidParamsError as error:
            raise BadMessageError(error.message) from None

    # ---- tunnels

    async def _tunnel(self, target: Target, established: bytes) -> None:
        assert self._upstream is not None
        self._writer.write(established)
        self._refuse = None
        if target.port not in WEB_PORTS:
            # The server may be the first to speak.
            await asyncio.gather(self._send_checked(target), copy(self._upstream[0], self._writer, self._meter))
            return
        async with asyncio.timeout(HEAD_S):
            first = await self._reader.readexactly(1)
        if first[0] == TLS_HANDSHAKE:
            tunnel = self._tls(target)
            await tunnel.relay(await tunnel.send_hello(first))
        elif target.port == 80:
            self._refuse = refusal
            await self._serve_http(first, target)
        else:
            raise HostRefusedError(f"a connection to port {target.port} is to begin with TLS")

    def _tls(self, target: Target) -> TlsTunnel:
        assert self._upstream is not None
        return TlsTunnel(self._client, self._upstream, target.host, self._meter, HEAD_S)

    async def _send_checked(self, target: Target) -> None:
        assert self._upstream is not None
        first = await self._reader.read(CHUNK)
        if first[:1] == bytes((TLS_HANDSHAKE,)):
            first = await self._tls(target).send_hello(first)
        self._meter.add(len(first))
        self._upstream[1].write(first)
        await copy(self._reader, self._upstream[1], self._meter)


def _socks_answer(code: int) -> bytes:
    return bytes((SOCKS_VERSION, code)) + _SOCKS_NO_ADDRESS


def _socks_refusal(status: str, sentence: str) -> bytes:
    """SOCKS has numbers and no sentences."""
    return _socks_answer(_SOCKS_CODES[status])
