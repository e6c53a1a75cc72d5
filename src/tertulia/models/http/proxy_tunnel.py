"""A tunnel through an HTTP proxy to a provider that is asked over TLS: CONNECT, and what proxies answer to it."""

from __future__ import annotations

import asyncio
import re
from typing import cast

from tertulia.protocol.connection_text import explain_connection_error
from tertulia.protocol.network.access import ProxyAddress
from tertulia.protocol.network.certificates import tls_context

_MOST_HEAD = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?:[ \r\n]|$)")
WANTS_PASSWORD = 407


class ProxyError(OSError):
    """There is no way through the proxy; says why, without any password."""

    def __init__(self, proxy: ProxyAddress, problem: str, *, may_pass: bool = False) -> None:
        super().__init__()
        self.sentence = f"the proxy at {proxy.place} {problem}"
        self.may_pass = may_pass
        """Whether another attempt may succeed."""


def refused_by_proxy(proxy: ProxyAddress, status: int) -> ProxyError:
    """What a status of a proxy means."""
    if status == WANTS_PASSWORD:
        how = (
            "does not take the user and password of its address"
            if proxy.credentials is not None
            else "wants a user and a password: write them into its address, http://USER:PASSWORD@HOST:PORT"
        )
        return ProxyError(proxy, f"{how} (407)")
    problem = f"makes no connection to it ({status})"
    if status in (403, 405):
        problem += "; if it is reached without a proxy, name it in NO_PROXY, or proxy.no_proxy"
    return ProxyError(proxy, problem, may_pass=status >= 500 or status == 429)


async def connect_to_proxy(
    proxy: ProxyAddress, protocol: asyncio.Protocol, ca: tuple[str | None, str | None]
) -> asyncio.Transport:
    """A connection to the proxy itself; ProxyError where there is none. `ca`: as `tls_context` takes it."""
    loop = asyncio.get_running_loop()
    context = tls_context(*ca) if proxy.uses_tls else None
    name = proxy.host if proxy.uses_tls else None
    try:
        transport, _ = await loop.create_connection(
            lambda: protocol, proxy.host, proxy.port, ssl=context, server_hostname=name
        )
    except OSError as error:
        raise ProxyError(proxy, f"cannot be reached: {explain_connection_error(error)}") from None
    return transport


async def open_tunnel(
    proxy: ProxyAddress, host: str, port: int, protocol: asyncio.Protocol, ca: tuple[str | None, str | None]
) -> None:
    """Have the proxy connect to a host, speak TLS with that, and give the connection to `protocol`. OSError if not."""
    reply = _TunnelReply(proxy)
    transport = await connect_to_proxy(proxy, reply, ca)
    try:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n"
        if proxy.authorization is not None:
            head += f"Proxy-Authorization: {proxy.authorization}\r\n"
        transport.write(f"{head}\r\n".encode())
        await reply.opened
        secure = await asyncio.get_running_loop().start_tls(transport, protocol, tls_context(*ca), server_hostname=host)
    except BaseException:
        transport.abort()
        raise
    # The loop tells a protocol of its transport only where it makes the connection itself.
    protocol.connection_made(cast("asyncio.Transport", secure))


class _TunnelReply(asyncio.Protocol):
    """Reads the answer to CONNECT, which has no body that is of use."""

    def __init__(self, proxy: ProxyAddress) -> None:
        self._proxy = proxy
        self._head = bytearray()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Some of the answer has come."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        status = _STATUS.match(self._head)
        if end and status is not None:
            number = int(status[1])
            if not 200 <= number < 300:
                self._fail(refused_by_proxy(self._proxy, number))
            elif rest:
                self._fail(ProxyError(self._proxy, "sent more than its answer"))
            elif not self.opened.done():
                self.opened.set_result(None)
        elif end or len(head) > _MOST_HEAD or (len(head) >= len(b"HTTP/1.1 200 ") and status is None):
            self._fail(ProxyError(self._proxy, "answered something that is not HTTP; is its address right?"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy has hung up before its answer was whole."""
        self._fail(ProxyError(self._proxy, "hung up without an answer; is its address right?"))

    def _fail(self, error: ProxyError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
