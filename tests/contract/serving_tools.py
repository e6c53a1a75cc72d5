"""MCP servers for the contract: tables as a user writes them, definitions in a file, and what came of the calls."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import tertulia
from tertulia.testing import ScriptedModel, call
from tests.contract.python_session import DEADLINE_S, past
from tests.deadlines import HANG_S
from tests.mcp.fakes import bare, hostile, plain
from tests.mcp.fakes.number import lives

OBJECT = {"type": "object"}

# The first server of a process waits for this, which on a busy machine takes longer than the grace of a session.
import_module("mcp.client.streamable_http")


_WAITED_FOR = {"required": True, "startup_timeout_sec": HANG_S}


def table(*options: str, **fields: Any) -> dict[str, Any]:
    """A small honest server of the old era, called without asking."""
    return _table(bare(*options), fields)


def offering(*names: str, **fields: Any) -> dict[str, Any]:
    """A server with these tools only. The session waits for it, however slowly it starts on a busy machine."""
    return table("--tools", ",".join(names), **{**_WAITED_FOR, **fields})


def modern(*options: str, **fields: Any) -> dict[str, Any]:
    """One of the new era. The session waits for it, as for `offering`."""
    return _table(plain(*options), {**_WAITED_FOR, **fields})


def spoilt(habit: str, *options: str, **fields: Any) -> dict[str, Any]:
    """One with a bad habit."""
    return _table(hostile(habit, *options), fields)


def _table(argv: tuple[str, ...], fields: dict[str, Any]) -> dict[str, Any]:
    return {"command": argv[0], "args": list(argv[1:]), "approval": "approve", **fields}


class Voice:
    """A model that is told what to say next as the test goes on, and else ends its turn."""

    def __init__(self) -> None:
        self.next: deque[Any] = deque()
        self.model = ScriptedModel([lambda request: self.next.popleft() if self.next else "Done."], repeat=True)

    def calls(self, name: str, **arguments: Any) -> None:
        """The next answer is this call."""
        self.next.append(call(name, arguments))

    def session(self, servers: dict[str, Any], **settings: Any) -> AbstractAsyncContextManager[tertulia.Session]:
        """A session with these servers; nobody is there to be asked."""
        fields = {"approval_policy": "never", **settings}
        return tertulia.Session.start(tertulia.Settings(model=self.model, mcp_servers=servers, **fields))


def tool(name: str, description: str = "A tool.", schema: Any = None, **annotations: bool) -> dict[str, Any]:
    """A definition as a server sends it."""
    made = {"name": name, "description": description, "inputSchema": OBJECT if schema is None else schema}
    return {**made, "annotations": annotations} if annotations else made


def define(file: Path, *tools: dict[str, Any], **rest: Any) -> str:
    """Write the answer to tools/list; the option that reads it."""
    file.write_text(json.dumps({"tools": list(tools), **rest}))
    return str(file)


def offered(conversation: tertulia.Conversation) -> list[str]:
    """The MCP tools that it has."""
    return [tool.name for tool in conversation.tools() if tool.source == "mcp"]


async def ends(session: tertulia.Session, conversation: tertulia.Conversation | None = None) -> list[tuple[bool, str]]:
    """Of every call so far: whether it worked, and what came back."""
    where = {} if conversation is None else {"conversation_id": conversation.id}
    return [(end.data.success, end.data.output) for end in await past(session, type="tool_call_end", **where)]


async def kinds(session: tertulia.Session, type: str) -> list[Any]:
    """The data of every durable event of that type so far."""
    return [event.data for event in await past(session, type=type)]


async def until(news: AsyncIterator[tertulia.Event], type: str) -> tertulia.Event:
    """The next event of that type. Whoever holds the stream is somebody who can be asked."""
    async with asyncio.timeout(DEADLINE_S):
        async for event in news:
            if event.type == type:
                return event
    raise AssertionError(f"the session ended without {type}")


def lines(file: Path) -> list[str]:
    """What a server wrote down."""
    return file.read_text().splitlines() if file.exists() else []


def tagged(tag: str) -> list[int]:
    """Every process of this machine that has a word in its command line."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue
        if tag.encode() in words and lives(int(entry)):
            found.append(int(entry))
    return found
