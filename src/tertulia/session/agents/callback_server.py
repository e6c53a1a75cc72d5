"""Serves programs that an agent has started and that call an internal tool with `tertulia internal`.

One socket for a session. Four lines of JSON: the client sends its token and gets the name of its agent, then sends its
call and gets the answer. `callback_protocol` has their types.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

import msgspec

from tertulia.context.internal_tools import InternalTools
from tertulia.errors import BusyError, InternalError, InvalidParamsError, TaskCancelledError, TertuliaError
from tertulia.mcp.server_connection import Spawn
from tertulia.session.agents.agent_socket import MAX_CLIENTS, AgentSocket
from tertulia.session.agents.callback_protocol import MAX_LINE, CallbackCall, CallbackHello, CallbackReply

T = TypeVar("T", bound=msgspec.Struct)
CLIENT_TIMEOUT_S = 10.0
"""For each line of a client."""


def callback_socket(path: Path, internal: InternalTools, spawn: Spawn) -> AgentSocket:
    """The socket, to be opened when the first agent is prepared, and closed with the session."""
    server = CallbackServer(internal)
    return AgentSocket(path, server.serve, spawn, max_line=MAX_LINE, refuse=server.refuse)


class CallbackServer:
    """Answers one call of each client."""

    def __init__(self, internal: InternalTools) -> None:
        self._internal = internal

    async def refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: int) -> None:
        """Refuse a client because there are too many."""
        await _send(writer, _error_reply(BusyError(f"{MAX_CLIENTS} programs are calling already", retry_after_s=1)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: int) -> None:
        """Read the token and the call of a client, and answer."""
        try:
            token, call = await self._read_call(reader, writer)
        except TertuliaError as error:
            await _send(writer, _error_reply(error))
            return
        reply = _error_reply(InternalError(f"{call.tool!r:.80} broke down"))
        try:
            reply = CallbackReply(
                await self._internal.call(token, call.tool, call.arguments, source="cli", pid=process)
            )
        except TertuliaError as error:
            reply = _error_reply(error)
        except asyncio.CancelledError:
            reply = _error_reply(TaskCancelledError(f"{call.tool!r:.80} was stopped before it answered"))
            raise
        finally:
            # Also after an unexpected error, which propagates into the log. The write is not awaited: a cancelled task
            # has no time, and an error of the connection would hide the first one.
            _write(writer, reply)
        await _drain(writer)

    async def _read_call(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[object, CallbackCall]:
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
        except (msgspec.DecodeError, UnicodeDecodeError):
            fields = " and ".join(kind.__struct_fields__)
            raise InvalidParamsError(f"expected a line of JSON, an object with {fields}") from None


async def _send(writer: asyncio.StreamWriter, reply: CallbackReply) -> None:
    _write(writer, reply)
    await _drain(writer)


def _write(writer: asyncio.StreamWriter, reply: CallbackReply) -> None:
    """Write at once, as far as there is room."""
    writer.write(msgspec.json.encode(reply) + b"\n")


async def _drain(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(CLIENT_TIMEOUT_S):
        await writer.drain()
