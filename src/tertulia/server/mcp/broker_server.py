"""Serves the MCP broker of a user: over a socket that only this user can reach, or over HTTP with a token.

Each client gets a conversation of its own in one shared session. The socket closes when no client has used it for a
while.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from tertulia.errors import BusyError, InvalidParamsError, TertuliaError
from tertulia.mcp.serve.endpoint import McpEndpoint, load_sdk
from tertulia.mcp.view import NamedView
from tertulia.policy.limits import NO_LIMITS
from tertulia.protocol.validation_text import explain_decoding
from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.guard import RequestGuard
from tertulia.server.http.server import HttpServer
from tertulia.server.mcp.broker_address import BrokerGreeting, BrokerWelcome, find_view, is_same_user, short_path
from tertulia.server.mcp.transport import refuse_non_messages, serve_lines
from tertulia.session.session import Session

HTTP_PATH = "/mcp"
MAX_HTTP_SESSIONS = 256


async def serve_broker_http(broker: McpEndpoint, token: str, listening: socket.socket, stop: asyncio.Event) -> None:
    """Serve clients that send the token, until `stop` is set."""
    app = broker.server.streamable_http_app(streamable_http_path=HTTP_PATH, max_sessions=MAX_HTTP_SESSIONS)
    # Started here because the application is only called through the guard, so its own start-up hook never runs.
    async with broker.server.session_manager.run():
        await HttpServer(RequestGuard(refuse_non_messages(app), token)).serve_until(stop, listening)


_log = logging.getLogger(__name__)
MAX_CLIENTS = 256
GREETING_S = 10.0
MAX_GREETING = 4096
_BACKLOG = 128
_CLOSE_S = 5.0
_CHUNK = 65_536


class BrokerSocket:
    """Serves clients on a socket until none has been connected for a while. The process that runs it must hold its
    lock.
    """

    def __init__(self, session: Session, path: Path, *, idle_exit_s: float) -> None:
        self._session = session
        self._path = path
        self._idle_exit_s = idle_exit_s
        self._clients: set[asyncio.Task[Any]] = set()
        self._over = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def clients(self) -> int:
        """The number of clients that are connected."""
        return len(self._clients)

    async def serve(self) -> None:
        """Serve until the idle time is over or `stop` is called; clients that are still connected are disconnected."""
        self._path.unlink(missing_ok=True)
        listening = _listen(self._path)
        server = await asyncio.start_unix_server(self._client, sock=listening, limit=MAX_GREETING, backlog=_BACKLOG)
        try:
            # The client that started this broker may not have connected yet.
            self._wait_for_clients(max(self._idle_exit_s, GREETING_S))
            await self._over.wait()
        finally:
            # First of all: a client that comes from now on must find no socket, and start another broker.
            self._path.unlink(missing_ok=True)
            server.close()
            for client in self._clients:
                client.cancel()
            if self._clients:
                await asyncio.wait(self._clients, timeout=_CLOSE_S)

    def stop(self) -> None:
        """Let `serve` return and disconnect its clients."""
        self._over.set()

    def _wait_for_clients(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.stop)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._timer is not None:
            self._timer.cancel()
        self._clients.add(task)
        try:
            if is_same_user(writer.get_extra_info("socket")):
                await self._serve_one(reader, writer)
        except OSError:
            _log.info("a client of the broker is gone")
        except asyncio.CancelledError:
            # Cancelled by `serve`. Not raised again, since asyncio's streams log a cancelled connection as an error.
            if not self._over.is_set():
                raise
        finally:
            self._clients.discard(task)
            # What the client has not read by now it will not read.
            writer.transport.abort()
            if not self._clients:
                self._wait_for_clients(self._idle_exit_s)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._clients) > MAX_CLIENTS:
                raise BusyError(f"{MAX_CLIENTS} programs use this broker already", retry_after_s=10)
            greeting = await _greeting(reader)
            view = find_view(self._session.settings, greeting.view)
            async with open_client_broker(self._session, view, f"{view.name}: {greeting.client}") as broker:
                await _say(writer, BrokerWelcome(True))
                await serve_lines(broker, _chunks(reader), _SocketLineSink(writer))
        except TertuliaError as error:
            await _say(writer, BrokerWelcome(False, error.message))


class _SocketLineSink:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, line: bytes) -> None:
        try:
            self._writer.write(line)
            await self._writer.drain()
        except OSError:
            # The client is gone; its input ends too, and that is handled elsewhere.
            return


def _listen(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Set before the socket has a name, and not by umask: that would also hold for files that other threads make
    # meanwhile.
    os.fchmod(listening.fileno(), 0o600)
    with short_path(path) as address:
        listening.bind(address)
    return listening


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await reader.read(_CHUNK):
        yield chunk


async def _say(writer: asyncio.StreamWriter, welcome: BrokerWelcome) -> None:
    writer.write(msgspec.json.encode(welcome) + b"\n")
    async with asyncio.timeout(GREETING_S):
        await writer.drain()


async def _greeting(reader: asyncio.StreamReader) -> BrokerGreeting:
    try:
        async with asyncio.timeout(GREETING_S):
            return msgspec.json.decode(await reader.readuntil(b"\n"), type=BrokerGreeting)
    except TimeoutError:
        raise InvalidParamsError(f"no greeting came within {GREETING_S:g} s") from None
    except asyncio.LimitOverrunError:
        raise InvalidParamsError(f"a greeting has at most {MAX_GREETING:,} bytes") from None
    except asyncio.IncompleteReadError:
        raise ConnectionAbortedError from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParamsError(f"this is no greeting in JSON: {explain_decoding(error, BrokerGreeting)}") from None


_INSTRUCTIONS = (
    "Tools of several MCP servers that are shared with other programs. A name is the server's, two underscores and the "
    "tool's own. A refusal is JSON with `code` and `reason`."
)


@asynccontextmanager
async def open_client_broker(session: Session, view: NamedView, title: str) -> AsyncGenerator[McpEndpoint]:
    """One client's endpoint while the block lasts. InvalidParamsError where the view names what does not exist."""
    await asyncio.to_thread(load_sdk, "`tertulia mcp-broker` needs")
    fields: dict[str, Any] = {"title": title[:200]}
    if view.mcp_tool_allowlist is not None:
        fields["mcp_tool_allowlist"] = list(view.mcp_tool_allowlist)
    limits = {name: value for name, value in asdict(view.limits).items() if value != getattr(NO_LIMITS, name)}
    if limits:
        fields["limits"] = limits
    conversation = await session.open(**fields)
    nursery, tools = Nursery(), conversation.served_tools(view.approval)
    broker = McpEndpoint(tools, name="tertulia", spawn=nursery.start, instructions=_INSTRUCTIONS)
    try:
        yield broker
    finally:
        broker.close()
        await asyncio.shield(conversation.close())
        await nursery.close(_CLOSE_S)
