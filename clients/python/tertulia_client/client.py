"""The client: requests and their answers, events as they come, and the two ways to reach a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Protocol, cast

from tertulia_client.protocol import AnyEvent, GeneratedClient

_MAX_MESSAGE = 64 * 1024 * 1024
_STOP_S = 15.0


class RpcError(Exception):
    """A request that was refused: `code` is the stable name, such as `not_found`."""

    def __init__(self, number: int, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.number = number
        self.message = message
        self.data = dict(data)
        self.code = str(self.data.get("code", "internal"))


class ConnectionClosedError(Exception):
    """The connection ended before there was an answer."""


class Connection(Protocol):
    """Moves whole messages of text."""

    async def send(self, text: str) -> None:
        """Send one message."""
        ...

    async def receive(self) -> str | None:
        """The next message; None when the other side has ended."""
        ...


class Client(GeneratedClient):
    """Made by `connect` and `start`. Requests may run side by side; `initialize` comes first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._readers: set[asyncio.Queue[AnyEvent | None]] = set()
        self._closed = False

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and return its result; RpcError where it is refused."""
        if self._closed:
            raise ConnectionClosedError("the connection has ended")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params)}
        try:
            await self._connection.send(json.dumps(request))
            return await answer
        finally:
            self._waiting.pop(number, None)

    def events(self) -> AsyncIterator[AnyEvent]:
        """Every event from this call on, until the connection ends."""
        queue: asyncio.Queue[AnyEvent | None] = asyncio.Queue()
        self._readers.add(queue)
        if self._closed:
            queue.put_nowait(None)
        return self._follow(queue)

    async def _follow(self, queue: asyncio.Queue[AnyEvent | None]) -> AsyncIterator[AnyEvent]:
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._readers.discard(queue)

    async def read(self) -> None:
        """Take what comes until the other side ends. `connect` and `start` run it; no one else has to."""
        try:
            while (text := await self._connection.receive()) is not None:
                self._take(json.loads(text))
        finally:
            self._closed = True
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionClosedError("the connection ended before there was an answer"))
            for queue in self._readers:
                queue.put_nowait(None)

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "event":
            for queue in self._readers:
                queue.put_nowait(cast("AnyEvent", message["params"]))
            return
        answer = self._waiting.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if "error" in message:
            error = message["error"]
            answer.set_exception(RpcError(error["code"], error["message"], error.get("data") or {}))
        else:
            answer.set_result(message["result"])


@asynccontextmanager
async def connect(url: str, token: str) -> AsyncGenerator[Client]:
    """A client of `tertulia serve`. `url` is what it prints, with http or ws; `token` is in the file that it names."""
    # Here: a program that only starts an app-server needs no package for it.
    from websockets.asyncio.client import connect as open_socket
    from websockets.exceptions import ConnectionClosed

    class Socket:
        async def send(self, text: str) -> None:
            await socket.send(text)

        async def receive(self) -> str | None:
            try:
                message = await socket.recv()
            except ConnectionClosed:
                return None
            return message if isinstance(message, str) else message.decode()

    address = url.replace("http", "ws", 1) if url.startswith("http") else url
    headers = {"Authorization": f"Bearer {token}"}
    path = f"{address.rstrip('/')}/ws"
    async with (
        open_socket(path, additional_headers=headers, max_size=_MAX_MESSAGE) as socket,
        _reading(Client(Socket())) as client,
    ):
        yield client


@asynccontextmanager
async def start(command: Sequence[str] = ("tertulia", "app-server"), **options: Any) -> AsyncGenerator[Client]:
    """A client of an app-server of its own, which ends with the block. `options`: as `create_subprocess_exec` takes."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MAX_MESSAGE, **options
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    class Pipe:
        async def send(self, text: str) -> None:
            stdin.write(text.encode() + b"\n")
            await stdin.drain()

        async def receive(self) -> str | None:
            return (await stdout.readline()).decode() or None

    try:
        async with _reading(Client(Pipe())) as client:
            yield client
            # Its sessions end with its input; what it says on the way is still read.
            stdin.close()
            await asyncio.wait_for(process.wait(), _STOP_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def _reading(client: Client) -> AsyncGenerator[Client]:
    reading = asyncio.create_task(client.read())
    try:
        yield client
    finally:
        reading.cancel()
        await asyncio.wait([reading])
