"""A Codex client without a window, over real pipes to our server in this process.

Everything that the server sends is held against the schemas that Codex itself prints, where it is installed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tertulia.models.scripted.scripted_model import ReplyLike, ScriptedModel
from tertulia.server.codex.server import CodexServer
from tertulia.server.jsonrpc.event_batching import Sink
from tertulia.server.jsonrpc.stdio import ClientHandler, serve_descriptors
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tests.agents.codex_schemas import schemas
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S
Message = dict[str, Any]


class CodexClient:
    """Keeps what it is told, and answers questions as it was told to."""

    def __init__(self, reader: asyncio.StreamReader, write: Callable[[bytes], object]) -> None:
        self.messages: list[Message] = []
        self.decisions: list[Any] = []
        """What to answer to questions, in order; None answers nothing, what is missing is a yes."""
        self._reader = reader
        self._write = write
        self._asked: dict[int, str] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        known = schemas()
        while line := await self._reader.readline():
            message = json.loads(line)
            if known is not None:
                answers = self._asked.get(message["id"]) if "id" in message and "method" not in message else None
                known.check(message, answers)
            self.messages.append(message)
            if "id" in message and "method" in message:
                decision = self.decisions.pop(0) if self.decisions else {"decision": "accept"}
                if decision is not None:
                    self.send(
                        {
                            "id": message["id"],
                            **({"result": decision} if isinstance(decision, dict) else {"error": decision}),
                        }
                    )
            self._news.set()

    def send(self, message: Any) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._write(line + b"\n")

    def ask(self, method: str, **params: Any) -> int:
        """Send a request and do not wait; its id."""
        id = len(self._asked) + 1
        self._asked[id] = method
        self.send({"id": id, "method": method, "params": params})
        return id

    async def answer(self, id: int) -> Message:
        return await self.until(lambda m: m.get("id") == id and "method" not in m)

    async def call(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        answer = await self.answer(self.ask(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def fail(self, method: str, **params: Any) -> Message:
        """The error of a request."""
        answer = await self.answer(self.ask(method, **params))
        assert "error" in answer, answer
        return answer["error"]

    async def start(self, **params: Any) -> str:
        return (await self.call("thread/start", **params))["thread"]["id"]

    async def turn(self, thread: str, text: str, **params: Any) -> Message:
        """Carry out a whole turn; the turn as it ended."""
        begun = await self.call("turn/start", threadId=thread, input=[{"type": "text", "text": text}], **params)
        return await self.ended(begun["turn"]["id"])

    async def ended(self, turn: str) -> Message:
        message = await self.told("turn/completed", lambda p: p["turn"]["id"] == turn)
        return message["turn"]

    async def told(self, method: str, wanted: Callable[[Any], bool] = lambda params: True) -> Any:
        """The parameters of the first wanted notification or request of that method."""
        found = await self.until(lambda m: m.get("method") == method and wanted(m["params"]))
        return found["params"]

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    self._news.clear()
                    for message in self.messages:
                        if wanted(message):
                            return message
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"it did not come; there came {self.messages[-5:]}") from None

    def all(self, method: str) -> list[Any]:
        return [message["params"] for message in self.messages if message.get("method") == method]

    def items(self, kind: str) -> list[Message]:
        """All items of that kind that have ended."""
        return [params["item"] for params in self.all("item/completed") if params["item"]["type"] == kind]


class CodexStage:
    """The client, and the server behind it."""

    def __init__(self, client: CodexClient, host: Host) -> None:
        self.client = client
        self.host = host
        self.hang_up: Callable[[], object] = lambda: None

    def session(self, id: str) -> Session:
        return self.host[id]

    async def start(self, **params: Any) -> str:
        """A thread whose MCP servers have started, or failed: a busy machine needs longer than a first turn waits."""
        id = await self.client.start(**params)
        async with asyncio.timeout(DEADLINE_S):
            for member in self.session(id).parts.servers.members:
                if member.server is not None:
                    await member.server.monitor.wait_until_known()
        return id


def scripted(*replies: ReplyLike, **settings: Any) -> Settings:
    return Settings(model=ScriptedModel(list(replies), repeat=False), close_timeout_s=5, **settings)


@asynccontextmanager
async def codex_stage(
    settings: Settings, cwd: Path, *, hello: bool = True, mute: Iterable[str] = ()
) -> AsyncIterator[CodexStage]:
    """A client that has said `initialize`. In the end nothing of it is left."""
    hosts: list[Host] = []
    connected = asyncio.Event()

    def connect(host: Host, sink: Sink, ready: Session | None) -> ClientHandler:
        hosts.append(host)
        connected.set()

        def settle(where: Path) -> DirectorySettings:
            return DirectorySettings(replace(settings, cwd=str(where)))

        return CodexServer(SessionFactory(host, settle, current_environment(), model=True), sink)

    source, client_out = os.pipe()
    client_in, target = os.pipe()
    serving = asyncio.create_task(
        serve_descriptors(replace(settings, cwd=str(cwd)), source, target, asyncio.Event(), connect=connect)
    )
    reader, writer = await _streams(client_in, client_out)
    client = CodexClient(reader, writer.write)
    listening = asyncio.create_task(client.run())
    try:
        if hello:
            able = {"optOutNotificationMethods": list(mute)}
            await client.call("initialize", clientInfo={"name": "test", "version": "1"}, capabilities=able)
            client.send({"method": "initialized"})
        else:
            await connected.wait()
        at = CodexStage(client, hosts[0])
        at.hang_up = writer.transport.abort
        yield at
    finally:
        if not writer.is_closing():
            writer.transport.abort()
        async with asyncio.timeout(DEADLINE_S):
            await serving
        os.close(target)
        async with asyncio.timeout(DEADLINE_S):
            await listening
        reader._transport.close()
        os.close(source)
        for _ in range(3):
            await asyncio.sleep(0)
    assert not hosts[0].sessions


async def _streams(source: int, target: int) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=50 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), FileIO(source, "r"))
    transport, writing = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, FileIO(target, "w"))
    return reader, asyncio.StreamWriter(transport, writing, None, loop)
