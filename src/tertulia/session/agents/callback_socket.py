"""The door for programs that an agent started and that call back: a socket of this user's, one for a session.

A client says its token, hears whose it is, says what it calls, and hears the answer: four lines of JSON.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from tertulia.context.internal_tools import InternalTools
from tertulia.errors import BusyError, InternalError, InvalidParamsError, TaskCancelledError, TertuliaError
from tertulia.scheduler.nursery import Nursery
from tertulia.session.agents.callback_protocol import MAX_LINE, CallbackCall, CallbackHello, CallbackReply
from tertulia.session.agents.private_socket import is_same_user, listen_at, peer, private_directory, short_path

T = TypeVar("T")
_log = logging.getLogger(__name__)
MAX_CLIENTS = 32
CLIENT_TIMEOUT_S = 10.0
"""For each line of a client."""
_BACKLOG = 16


class CallbackSocket:
    """Opened when the first agent comes, closed with the session."""

    def __init__(self, path: Path, internal: InternalTools, nursery: Nursery) -> None:
        self.path = path
        self._internal = internal
        self._nursery = nursery
        self._tried = False
        self._server: asyncio.Server | None = None
        self._clients = 0

    @property
    def is_open(self) -> bool:
        """Whether anybody can come in."""
        return self._server is not None

    async def open(self) -> None:
        """Listen, the first time; OSError or StorageError where that cannot be done, and then nobody comes in."""
        if self._tried:
            return
        self._tried = True
        private_directory(self.path.parent)
        _sweep(self.path.parent)
        listening = listen_at(self.path)
        made = await asyncio.start_unix_server(self._arrived, sock=listening, limit=MAX_LINE, backlog=_BACKLOG)
        self._server = made

    def close(self) -> None:
        """Nobody comes in any more. Twice does no harm."""
        server, self._server = self._server, None
        if server is not None:
            with suppress(OSError):
                self.path.unlink()
            server.close()

    def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._nursery.start(self._serve(reader, writer), "a program of an agent")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            connection = writer.get_extra_info("socket")
            if is_same_user(connection):
                await self._answer(reader, writer, peer(connection)[0])
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            # It went away, or does not read: then nobody misses the answer.
            _log.debug("a program of an agent is gone")
        finally:
            self._clients -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: int) -> None:
        try:
            token, asked = await self._asked(reader, writer)
        except TertuliaError as error:
            await _send(writer, _error_reply(error))
            return
        told = _error_reply(InternalError(f"{asked.tool!r:.80} broke down"))
        try:
            told = CallbackReply(
                await self._internal.call(token, asked.tool, asked.arguments, source="cli", pid=process)
            )
        except TertuliaError as error:
            told = _error_reply(error)
        except asyncio.CancelledError:
            told = _error_reply(TaskCancelledError(f"{asked.tool!r:.80} was stopped before it answered"))
            raise
        finally:
            # Also after what no tool should raise, which goes on into the log. Not waited for here: who is cancelled
            # has no time, and an error of the connection would stand for the one that goes on.
            _write(writer, told)
        await _written(writer)

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[object, CallbackCall]:
        if self._clients > MAX_CLIENTS:
            raise BusyError(f"{MAX_CLIENTS} programs are calling already", retry_after_s=1)
        token = (await _read_line(reader, CallbackHello)).token
        owner = self._internal.validate_token(token)
        await _send(writer, CallbackReply({"agent_name": owner.agent_name, "session_id": owner.session_id}))
        return token, await _read_line(reader, CallbackCall)


def _error_reply(error: TertuliaError) -> CallbackReply:
    return CallbackReply(error={"code": error.code, "message": error.message})


async def _read_line(reader: asyncio.StreamReader, kind: type[T]) -> T:
    async with asyncio.timeout(CLIENT_TIMEOUT_S):
        try:
            return msgspec.json.decode(await reader.readuntil(b"\n"), type=kind)
        except asyncio.LimitOverrunError:
            raise InvalidParamsError(f"a line has at most {MAX_LINE:,} bytes") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidParamsError(f"this is no call: {error}") from None


async def _send(writer: asyncio.StreamWriter, told: CallbackReply) -> None:
    _write(writer, told)
    await _written(writer)


def _write(writer: asyncio.StreamWriter, told: CallbackReply) -> None:
    """At once, as far as there is room."""
    writer.write(msgspec.json.encode(told) + b"\n")


async def _written(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(CLIENT_TIMEOUT_S):
        await writer.drain()


def _sweep(directory: Path) -> None:
    """Take away what processes that are gone have left."""
    for place in directory.glob("*.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller, suppress(OSError):
            caller.setblocking(False)
            try:
                with short_path(place) as address:
                    caller.connect(address)
            except ConnectionRefusedError:
                place.unlink()
