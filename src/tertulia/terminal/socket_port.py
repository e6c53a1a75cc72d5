"""The port to a session that another process of this machine holds, over the session's socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tertulia.events.debug_trace import traced
from tertulia.protocol.events import EVENT_TYPES, Event
from tertulia.scheduler.nursery import Nursery
from tertulia.server.sockets.socket_client import SocketClient
from tertulia.version import __version__

_WAITING_EVENTS = 20_000
_CLOSE_S = 1.0


class SocketPort:
    """One session behind its socket. `open` makes it."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(_WAITING_EVENTS)
        """None: there will be no more."""
        self._client: SocketClient | None = None
        self._follows = False
        self._nursery = Nursery()

    @classmethod
    async def open(cls, home: Path, session_id: str) -> SocketPort:
        """Connect to the process that holds the session.

        Args:
            home: `$TERTULIA_HOME`.
            session_id: The id of the session.

        Returns:
            The port to the session, which goes on when the port is closed.

        Raises:
            TertuliaError: The session cannot be reached.
        """
        port = cls()
        client = {"name": "tertulia terminal", "version": __version__}
        port._client = await SocketClient.open(home, session_id, port._take, client=client, observe=True, attend=True)
        return port

    @property
    def local(self) -> bool:
        """Always False: the session runs in another process."""
        return False

    async def call(self, name: str, **params: Any) -> Any:
        """Run an operation on the session; its answer as plain dicts and lists."""
        return msgspec.json.decode(await traced(name, self._opened.request(name, params)))

    async def events(self, after: int) -> AsyncGenerator[Event]:
        """The events after this number, until the session or its process has ended."""
        client = self._opened
        if not self._follows:
            await client.request("events/subscribe", {"after_seq": after, "attend": True})
        self._nursery.start(self._wait_for_end(client), "end of a session")
        while (event := await self._events.get()) is not None:
            if event.seq is None or event.seq > after:
                yield event

    async def board(self) -> Any:
        """The board of the session as it is now.

        Events are followed before it is made: no piece of an answer is lost between the board and `events`.
        """
        await self._opened.request("events/subscribe", {"attend": True})
        self._follows = True
        return (await self.call("session/board"))["board"]

    async def close(self) -> None:
        """Leave the session as it is, and close the connection. More than once is fine."""
        if self._client is not None:
            await self._client.close()
        await self._nursery.close(_CLOSE_S)

    @property
    def _opened(self) -> SocketClient:
        assert self._client is not None
        return self._client

    async def _wait_for_end(self, client: SocketClient) -> None:
        await client.ended.wait()
        await self._events.put(None)

    async def _take(self, method: str, line: bytes) -> None:
        if method == "event" and (event := read_event(msgspec.json.decode(line)["params"])) is not None:
            await self._events.put(event)


def read_event(params: dict[str, Any]) -> Event | None:
    """The event in a notification; None for a type that this version does not know."""
    kind = EVENT_TYPES.get(params.get("type", ""))
    if kind is None:
        return None
    with suppress(msgspec.ValidationError, KeyError, TypeError):
        fields: dict[str, Any] = {**params, "data": msgspec.convert(params["data"], kind)}
        return Event(**fields)
    return None
