"""The port to a session of a running `tertulia serve`, over its WebSocket. Imported after the first frame is painted.

A lost connection is made again, and the events go on after the last one received: none is lost as long as the server
still has them. A request that is open when the connection is lost fails; events report what it did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tertulia.errors import ClosedError, InvalidParamsError, NotFoundError
from tertulia.events.debug_trace import traced
from tertulia.protocol.events import Event
from tertulia.scheduler.nursery import Nursery
from tertulia.server.sockets.socket_client import read_error
from tertulia.terminal.socket_port import read_event
from tertulia.version import __version__

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_WAITING_EVENTS = 20_000
_PING_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_LOST = (aiohttp.ClientError, OSError, asyncio.TimeoutError)
_SHOWN = 8


class ConnectionLostError(ClosedError):
    """The server, or the connection to it, is gone."""


class RemotePort:
    """One session behind a server. `open` makes it."""

    def __init__(self, url: str, token: str) -> None:
        self._url = _checked(url)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session_id: str | None = None
        self._web: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._subscription = 0
        """The number of the last request for events: what comes before its answer comes again after it."""
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(_WAITING_EVENTS)
        self._nursery = Nursery()
        self._closed = False
        self._follows = False
        """Whether events are followed already."""

    @classmethod
    async def open(cls, url: str, token: str, session_id: str | None = None) -> RemotePort:
        """Connect, and find the session.

        Args:
            url: Of the server, as it prints it: `http://127.0.0.1:8700`.
            token: That the server wants.
            session_id: The session, or the beginning of its id; None: the only one there, or a new one.

        Returns:
            The port to the session, which goes on when the port is closed.

        Raises:
            TertuliaError: The server cannot be reached, refuses the token, or has no such session.
        """
        port = cls(url, token)
        try:
            await port._connect()
            port._session_id = await port._find(session_id)
        except BaseException:
            await port.close()
            raise
        return port

    @property
    def local(self) -> bool:
        """Always False: the session runs in the server's process."""
        return False

    async def call(self, name: str, **params: Any) -> Any:
        """Run an operation on the session; its answer as plain dicts and lists."""
        return await traced(name, self._request(name, {"session_id": self._session_id, **params}))

    async def events(self, after: int) -> AsyncGenerator[Event]:
        """The events after this number, over as many connections as it takes."""
        last = after
        if not self._follows:
            await self._subscribe(last)
        while not self._closed:
            event = await self._events.get()
            if event is None:
                last = await self._connect_again(last)
                continue
            if event.seq is not None:
                if event.seq <= last:
                    continue
                last = event.seq
            yield event

    async def board(self) -> Any:
        """The board of the session as it is now.

        Events are followed before it is made: no piece of an answer is lost between the board and `events`.
        """
        await self._subscribe(None)
        self._follows = True
        return (await self.call("session/board"))["board"]

    async def close(self) -> None:
        """Leave the session as it is, and close the connection. More than once is fine."""
        self._closed = True
        if self._socket is not None:
            await self._socket.close()
        if self._web is not None:
            await self._web.close()
        await self._nursery.close(1.0)

    # ── the connection ───────────────────────────────────────────────────────────────────────────────────────

    async def _connect(self) -> None:
        if self._web is None:
            self._web = aiohttp.ClientSession(headers=self._headers)
        try:
            self._socket = await self._web.ws_connect(f"{self._url}/ws", heartbeat=_PING_S, max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            raise InvalidParamsError(f"{self._url} refuses: {_refusals.get(error.status, error.message)}") from None
        except _LOST as error:
            raise ConnectionLostError(f"{self._url} cannot be reached: {error}; does `tertulia serve` run?") from None
        self._nursery.start(self._read(self._socket), "read the server")
        client = {"name": "tertulia terminal", "version": __version__}
        await self._request("initialize", {"client": client, "observe": True, "attend": True})

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    await self._take(message.data)
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionLostError(f"the connection to {self._url} was lost"))
            self._answers.clear()
            if not self._closed:
                # This tells the reader of events to connect again; where the queue is full, it reads that to the end
                # first.
                await self._events.put(None)

    async def _take(self, text: str) -> None:
        decoded: Any = msgspec.json.decode(text)
        for one in cast("list[dict[str, Any]]", decoded if isinstance(decoded, list) else [decoded]):
            if one.get("method") == "event":
                event = read_event(one["params"])
                if event is not None:
                    await self._events.put(event)
            elif (answer := self._answers.pop(one.get("id", 0), None)) is not None and not answer.done():
                if one["id"] == self._subscription:
                    # A connection that starts a session gets its events at once; the subscription repeats them.
                    while not self._events.empty():
                        self._events.get_nowait()
                if "error" in one:
                    answer.set_exception(read_error(one["error"]))
                else:
                    answer.set_result(one.get("result"))

    async def _connect_again(self, last: int) -> int:
        pause = _FIRST_PAUSE_S
        while not self._closed:
            try:
                await self._connect()
                return await self._subscribe_again(last)
            except ConnectionLostError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        return last

    async def _subscribe_again(self, last: int) -> int:
        try:
            await self._subscribe(last)
        except (ClosedError, NotFoundError) as error:
            if isinstance(error, ConnectionLostError):
                raise
            # The server was restarted: resume the stored session, whose events are numbered from the start again.
            await self._request("session/resume", {"session_id": self._session_id})
            return 0
        return last

    async def _subscribe(self, after: int | None) -> None:
        await self._request("events/subscribe", {"session_id": self._session_id, "after_seq": after, "attend": True})

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        socket = self._socket
        if socket is None or socket.closed:
            raise ConnectionLostError(f"there is no connection to {self._url} now; it is being made again")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        if method == "events/subscribe":
            self._subscription = number
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            await socket.send_str(msgspec.json.encode(request).decode())
        except _LOST:
            self._answers.pop(number, None)
            raise ConnectionLostError(f"the connection to {self._url} was lost") from None
        return await answer

    async def _find(self, wanted: str | None) -> str:
        listed = await self._request("session/list", {})
        ids = [str(session["session_id"]) for session in listed["sessions"]]
        if wanted is None and not ids:
            return str((await self._request("session/start", {}))["session_id"])
        fitting = ids if wanted is None else [id for id in ids if id.startswith(wanted)]
        if len(fitting) == 1:
            return fitting[0]
        shown = ", ".join(id[:_SHOWN] for id in (fitting or ids)[:_SHOWN]) or "none"
        raise InvalidParamsError(f"which session of {self._url}? There are {shown}: give --session ID")


_refusals = {401: "the token is not that of this server", 403: "it does not serve this address"}


def _checked(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidParamsError(f"{url[:80]!r} is no address of a server; give one like http://127.0.0.1:8700")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidParamsError("a token does not belong in the address: others see it there; use --token-file")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InvalidParamsError(
            f"http to {parts.hostname} would send the token readable: use https, or `ssh -L 8700:localhost:8700`"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
