"""An editor without a window: the client of ACP's own Python SDK, over real pipes to our agent in this process.

Everything that the agent sends is held against the SDK's schema: not only must it be readable, nothing of it may be
something that the schema does not know.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import acp
from acp import schema as s
from acp.connection import StreamDirection, StreamEvent
from msgspec.structs import replace

from tertulia.models.scripted.scripted_model import ReplyLike, ScriptedModel
from tertulia.server.acp.agent import serve_acp_client
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tests.deadlines import HANG_S

DEADLINE_S = HANG_S
Update = dict[str, Any]


class Editor(acp.Client):
    """Keeps what it is told, and answers questions as it was told to."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Update]] = []
        self.asked: list[dict[str, Any]] = []
        self.answers: list[Any] = []
        """What to choose, in order: an option's id, None for a cancellation, an Exception, or something to await."""
        self.forms: list[Any] = []
        self.buffers: dict[str, Any] = {}
        """What is open and not saved, by absolute path: a text, or something to call that gives one or fails."""
        self.files: list[tuple[str, str]] = []
        """What was asked about files: the method and the path."""
        self.saves = True
        """Whether it writes what it is told to write."""
        self.format: Callable[[str], str] = str
        """What it makes of a text before it saves it."""
        self._news = asyncio.Event()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        shown = tool_call.model_dump(by_alias=True, exclude_none=True, mode="json")
        ids, names = [option.option_id for option in options], [option.name for option in options]
        self.asked.append({"session": session_id, "call": shown, "options": ids, "names": names})
        self._news.set()
        answer = self.answers.pop(0)
        if hasattr(answer, "__await__"):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return acp.RequestPermissionResponse(outcome=s.DeniedOutcome(outcome="cancelled"))
        return acp.RequestPermissionResponse(outcome=s.AllowedOutcome(outcome="selected", option_id=answer))

    async def create_elicitation(self, message: str, mode: Any, **more: Any) -> Any:
        self.asked.append({"message": message, "mode": mode.model_dump(by_alias=True, mode="json")})
        self._news.set()
        return self.forms.pop(0)

    async def read_text_file(self, path: str, session_id: str, **more: Any) -> Any:
        self.files.append(("read", path))
        text = self.buffers.get(path)
        if callable(text):
            text = text()
        if hasattr(text, "__await__"):
            text = await text
        return acp.ReadTextFileResponse(content=Path(path).read_bytes().decode() if text is None else text)

    async def write_text_file(self, content: str, path: str, session_id: str, **more: Any) -> Any:
        self.files.append(("write", path))
        if self.saves:
            self.buffers.pop(path, None)
            Path(path).write_bytes(self.format(content).encode())

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        """Told by `observe`, which sees the bytes."""

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    def observe(self, event: StreamEvent) -> None:
        if event.direction is not StreamDirection.INCOMING or event.message.get("method") != "session/update":
            return
        params = event.message["params"]
        read = s.SessionNotification.model_validate(params)
        assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == params, params
        self.updates.append((params["sessionId"], params["update"]))
        self._news.set()

    def of(self, session_id: str, kind: str | None = None) -> list[Update]:
        """What it was told of one session."""
        updates = [update for of, update in self.updates if of == session_id]
        return [update for update in updates if kind is None or update["sessionUpdate"] == kind]

    def said(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"].get("text", "") for update in self.of(session_id, kind))

    def call(self, session_id: str, id: str) -> Update:
        """A tool call as it looks now: its beginning, and every update on top of it."""
        shown: Update = {}
        for update in self.of(session_id):
            if update.get("toolCallId") == id:
                shown.update(update)
        return shown

    async def until(self, wanted: Callable[[], Any]) -> Any:
        """As soon as it holds."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not (found := wanted()):
                    self._news.clear()
                    await self._news.wait()
                return found
        except TimeoutError:
            raise TimeoutError(f"it did not come; there came {self.updates[-5:]} {self.asked}") from None


class EditorStage:
    """The editor, its connection, and the agent behind it."""

    def __init__(self, editor: Editor, conn: Any, host: Host, cwd: Path) -> None:
        self.editor = editor
        self.conn = conn
        self.host = host
        self.cwd = cwd
        self.hang_up: Callable[[], object] = lambda: None
        self.serving: asyncio.Task[None]

    async def initialize(self, **able: Any) -> Any:
        return await self.conn.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=s.ClientCapabilities(**able)
        )

    async def new(self, **fields: Any) -> str:
        made = (await self.conn.new_session(cwd=str(self.cwd), **fields)).session_id
        # A busy machine may need longer for a server than a first turn waits for it.
        async with asyncio.timeout(DEADLINE_S):
            for member in self.session(made).parts.servers.members:
                if member.server is not None:
                    await member.server.monitor.wait_until_known()
        return made

    async def prompt(self, session_id: str, *blocks: Any) -> Any:
        content = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
        async with asyncio.timeout(DEADLINE_S):
            return await self.conn.prompt(session_id=session_id, prompt=content)

    def session(self, session_id: str) -> Session:
        return self.host[session_id]

    async def raw(self, method: str, params: Any) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return await self.conn._conn.send_request(method, params)


class Silence:
    """A gate that never opens, and says when somebody stands before it."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()

    async def wait(self) -> None:
        self._reached.set()
        await asyncio.get_running_loop().create_future()

    async def reached(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self._reached.wait()


def scripted(*replies: ReplyLike, **settings: Any) -> Settings:
    return Settings(model=ScriptedModel(list(replies), repeat=False), close_timeout_s=5, **settings)


@asynccontextmanager
async def editor_stage(
    settings: Settings, cwd: Path, *, mode: str | None = None, hello: bool = True
) -> AsyncIterator[EditorStage]:
    """An editor that has said `initialize`. In the end nothing of it is left."""

    def settle(where: Path) -> DirectorySettings:
        return DirectorySettings(replace(settings, cwd=str(where), begins_in=mode))

    host = Host(settings)
    factory = SessionFactory(host, settle, current_environment(), model=True)
    source, client_out = os.pipe()
    client_in, target = os.pipe()
    serving = asyncio.create_task(serve_acp_client(factory, source, target, asyncio.Event()))
    editor = Editor()
    reader, writer = await _streams(client_in, client_out)
    conn = acp.connect_to_agent(editor, writer, reader, use_unstable_protocol=True, observers=[editor.observe])
    at = EditorStage(editor, conn, host, cwd)
    at.serving, at.hang_up = serving, lambda: None if writer.is_closing() else writer.transport.abort()
    try:
        if hello:
            await at.initialize()
        yield at
    finally:
        at.hang_up()
        async with asyncio.timeout(DEADLINE_S):
            await serving
        await conn.close()
        reader._transport.close()
        os.close(source)
        os.close(target)
        # asyncio closes what it was given in its next step.
        for _ in range(3):
            await asyncio.sleep(0)
    assert not host.sessions


async def _streams(source: int, target: int) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=50 * 1024 * 1024)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, FileIO(source, "r"))
    transport, writing = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, FileIO(target, "w"))
    return reader, asyncio.StreamWriter(transport, writing, None, loop)
