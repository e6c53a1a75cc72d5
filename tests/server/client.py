"""A client without a wire: it sends lines into a connection and has everything that comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from tertulia.models.scripted.scripted_model import ReplyLike, ScriptedModel
from tertulia.server.jsonrpc.connection import RpcConnection
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S
Message = dict[str, Any]


class MemorySink:
    """Keeps what is sent. While it is stuck it has no room, like a pipe whose reader went to lunch."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.bursts: list[int] = []
        self._room = asyncio.Event()
        self._room.set()
        self._news = asyncio.Event()

    @property
    def messages(self) -> list[Any]:
        return [json.loads(line) for line in self.sent]

    def send(self, messages: Sequence[bytes]) -> None:
        self.sent += messages
        self.bursts.append(len(messages))
        self._news.set()

    async def drain(self) -> None:
        await self._room.wait()

    def stick(self) -> None:
        self._room.clear()

    def loosen(self) -> None:
        self._room.set()

    async def until(self, wanted: Callable[[Any], bool], start: int = 0) -> Any:
        """The first message from number `start` on that is wanted, as soon as it is there."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    self._news.clear()
                    for line in self.sent[start:]:
                        start += 1
                        if wanted(message := json.loads(line)):
                            return message
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"it did not come; there came {self.messages[-5:]}") from None


class Client:
    """One connection, seen from its other end."""

    def __init__(self, host: Host, ready: Session | None = None) -> None:
        self.sink = MemorySink()
        self.connection = RpcConnection(host, self.sink, ready)
        self.session_id = ""
        self._ids = count(1)

    async def send(self, line: bytes | str | Message | list[Any]) -> None:
        """One line, as it is or as JSON."""
        if isinstance(line, dict | list):
            line = json.dumps(line)
        data = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
        async with asyncio.timeout(DEADLINE_S):
            await self.connection.receive(data)

    async def ask(self, method: str, **params: Any) -> int:
        """Send a request and do not wait; its id."""
        id = next(self._ids)
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    async def answer(self, id: Any) -> Message:
        """The answer to a request, whatever it is."""
        return await self.sink.until(lambda m: isinstance(m, dict) and "method" not in m and m["id"] == id)

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        answer = await self.answer(await self.ask(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def fail(self, method: str, **params: Any) -> Message:
        """The error of a request."""
        answer = await self.answer(await self.ask(method, **params))
        assert "error" in answer, answer
        return answer["error"]

    async def initialize(self) -> Message:
        """Say hello."""
        result = await self.call("initialize", client={"name": "test", "version": "1"}, attend=True)
        self.session_id = result["session_id"]
        return result

    async def event(self, type: str, start: int = 0, **fields: Any) -> Message:
        """The first event of that type, and with these fields, from message number `start` on."""
        wanted = {"type": type, **fields}
        message = await self.sink.until(lambda m: is_event(m) and wanted.items() <= m["params"].items(), start)
        return message["params"]

    def events(self, session_id: str | None = None) -> list[Message]:
        """All events so far, of one session or of all."""
        events = [m["params"] for m in self.sink.messages if is_event(m)]
        return [event for event in events if session_id in (None, event["session_id"])]

    def place(self, wanted: Callable[[Message], bool]) -> int:
        """Where among all messages the first wanted one stands."""
        return next(number for number, message in enumerate(self.sink.messages) if wanted(message))


def is_event(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "event"


def model(replies: Iterable[ReplyLike] = ("hello",), *, repeat: bool = True) -> ScriptedModel:
    return ScriptedModel(replies, repeat=repeat)


@asynccontextmanager
async def connected(
    replies: Iterable[ReplyLike] = ("hello",), *, initialize: bool = True, **settings: Any
) -> AsyncIterator[Client]:
    """A client with a host of its own, both closed at the end."""
    host = Host(Settings(model=model(replies), **settings))
    client = Client(host)
    if initialize:
        await client.initialize()
    try:
        yield client
    finally:
        client.sink.loosen()
        async with asyncio.timeout(DEADLINE_S):
            await client.connection.close(5)
            await host.close(5)


async def ticks(number: int = 20) -> None:
    """Let the loop run what is due, and what that made due."""
    for _ in range(number):
        await asyncio.sleep(0)
