"""Serves one client on a session's socket: JSON-RPC, one message a line, for that session and no other.

Imported when a client has sent something.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from tertulia.errors import InvalidParamsError, InvalidRequestError, NotFoundError
from tertulia.scheduler.nursery import Nursery
from tertulia.server.jsonrpc.connection import RpcConnection, session_id_param
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.request_runner import MethodResult
from tertulia.server.jsonrpc.stdio import receive_chunks
from tertulia.server.sockets.socket_stream import SocketStream
from tertulia.session.answers import InitializeAnswer, ObserveAnswer
from tertulia.session.host import Host
from tertulia.session.inputs import to_snake_case
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings

_NOT_HERE = frozenset({"session/start", "session/resume", "record/list"})
"""They are about other sessions than the one that is served."""


INITIALIZE_S = 30.0
"""How many seconds a client has for `initialize`."""
PATIENCE_S = 2.0
"""How many seconds a client has in the end to take what was sent to it."""


class ServedSession(Protocol):
    """A session of this process that has a socket."""

    @property
    def session(self) -> Session:
        """The session itself, which was entered."""
        ...

    @property
    def host(self) -> Host | None:
        """Where it runs, if it has one: there a client closes it."""
        ...

    @property
    def ending(self) -> asyncio.Event:
        """Set when the session begins to close."""
        ...


class OneSessionHost(Host):
    """A host as the clients of a session's socket see it: it holds one session, and starts none."""

    def __init__(self, sessions: Mapping[str, ServedSession]) -> None:
        """`sessions`: those that a client can choose from, by their ids."""
        super().__init__(Settings())
        self._reachable = sessions
        self.only: ServedSession | None = None
        """The session, as soon as the client has named it."""

    def choose(self, session_id: str | None) -> Session:
        """Hold this session from now on. Without an id: the only one that there is."""
        sessions = self._reachable
        if session_id is None and len(sessions) > 1:
            raise InvalidParamsError("this process holds several sessions: name the one you mean as `session_id`")
        only = sessions.get(next(iter(sessions), "") if session_id is None else session_id)
        if only is None:
            raise NotFoundError(f"session not found: {session_id or ''!r:.66}")
        self.only, self.settings = only, only.session.settings
        return only.session

    def __getitem__(self, session_id: str) -> Session:
        if self.only is None or session_id != self.only.session.id:
            raise NotFoundError(f"this is the socket of one session; session not found: {session_id[:64]!r}")
        return self.only.session

    def __len__(self) -> int:
        return len(self.sessions)

    @property
    def sessions(self) -> list[Session]:
        """The session, once it is chosen."""
        return [] if self.only is None else [self.only.session]

    async def start(self, settings: Settings | None = None) -> Session:
        """Refuse: a client of this socket gets no other session."""
        raise InvalidRequestError("this is the socket of one session, and starts no other")

    async def resume(
        self, session_id: str, settings: Settings | None = None, *, waits: bool = True, continue_tasks: bool = False
    ) -> Session:
        """The session, if it is this one."""
        return self[session_id]

    async def close_session(self, session: Session, timeout: float | None = None) -> bool:
        """Close it where it runs."""
        if self.only is not None and self.only.host is not None:
            return await self.only.host.close_session(session, timeout)
        return (await session.close(timeout)).forced


class SessionConnection(RpcConnection):
    """One client of a session's socket."""

    def __init__(self, host: OneSessionHost, sink: Sink) -> None:
        super().__init__(host, sink)
        self._one = host
        self.chosen = asyncio.Event()
        """Set when the client has said which session it means."""

    async def _serve(self, method: str, params: dict[str, Any]) -> MethodResult:
        if method in _NOT_HERE:
            raise InvalidRequestError(f"this is the socket of one session; {method} is for `tertulia serve`")
        if self.is_initialized and method.startswith("record/"):
            params = self._about_own_record(to_snake_case(params))
        return await super()._serve(method, params)

    def _about_own_record(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters, which name this session and no other: without an id it is meant, never all stored ones."""
        own = "" if self._one.only is None else self._one.only.session.id
        named = params.get("session_id")
        if named is None:
            return {**params, "session_id": own}
        if isinstance(named, str):
            self._one[named]
        return params

    async def _initialize(self, params: dict[str, Any]) -> InitializeAnswer | ObserveAnswer:
        if self.is_initialized:
            return await super()._initialize(params)
        named = session_id_param(params)
        if named is not None and not isinstance(named, str):
            raise InvalidParamsError("session_id must be a string")
        session = self._one.choose(named)
        others = {name: value for name, value in params.items() if name not in ("session_id", "sessionId")}
        if params.get("observe"):
            answer = await super()._initialize(others)
            self._own = session
        else:
            answer = await super()._initialize({**others, "session_id": session.id})
        self.chosen.set()
        return answer

    async def finish(self, timeout_s: float) -> bool:
        """The session is closed: whether the client takes its last events and answers within that time."""
        if running := self._feeds | self._peer.requests.tasks:
            await asyncio.wait(running, timeout=timeout_s)
        is_taken = not (self._feeds or self._peer.requests.tasks)
        await self.close(0)
        return is_taken


async def serve_connection(
    connection: socket.socket, sessions: Mapping[str, ServedSession]
) -> Coroutine[Any, Any, None]:
    """Serve a client until it is gone or its session has ended. A client that goes away stops nothing.

    Returns what ends when the last of its requests has ended.
    """
    _, stream = await asyncio.get_running_loop().connect_accepted_socket(SocketStream, connection.dup())
    host = OneSessionHost(sessions)
    client = SessionConnection(host, stream)
    nursery, patience_s = Nursery(), 0.0
    try:
        reading = nursery.start(receive_chunks(stream.chunks(), client), "reader")
        chosen = nursery.start(client.chosen.wait(), "initialize")
        # A client that gets no further says nothing, or nothing that could be carried out.
        await asyncio.wait((reading, chosen), timeout=INITIALIZE_S, return_when=asyncio.FIRST_COMPLETED)
        patience_s = PATIENCE_S
        if host.only is not None and not await _serve_chosen(host.only, client, stream, reading):
            patience_s = 0
    finally:
        await nursery.close(0)
        await stream.close(patience_s)
    return client.leave()


async def _serve_chosen(
    only: ServedSession, client: SessionConnection, stream: SocketStream, reading: asyncio.Task[None]
) -> bool:
    """Until the end of the client or of the session; whether it is worth waiting for the client to take the rest."""
    nursery = Nursery()
    try:
        ended = nursery.start(only.ending.wait(), "end of the session")
        await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and not stream.lost.is_set():
            # It has closed its side, as a shell's pipe does: its last requests get a little time.
            lost = nursery.start(stream.lost.wait(), "a client that is gone")
            idle = nursery.start(client.idle(), "last answers")
            grace_s = only.session.settings.close_timeout_s
            await asyncio.wait((lost, idle, ended), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            return True
        # It is being closed already; this waits for it.
        await only.session.close()
        return await client.finish(PATIENCE_S)
    finally:
        await nursery.close(0)
