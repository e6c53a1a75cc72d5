"""A client of a session's socket that shares no code with ours: lines of JSON on a UNIX socket."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.deadlines import HANG_S

MAX_LINE = 256 * 1024 * 1024


def sockets_folder() -> Path:
    """Of the home that this test has."""
    return Path(os.environ["TERTULIA_HOME"]) / "sockets"


def session_names(folder: Path | None = None) -> set[str]:
    """The ids of the sessions that have a socket."""
    place = folder or sockets_folder()
    return {entry.stem for entry in place.glob("*.sock") if len(entry.stem) == 36} if place.exists() else set()


class LineClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.events: list[dict[str, Any]] = []
        self.answers: dict[Any, Any] = {}
        self._ids = count(1)

    async def send(self, method: str, **params: Any) -> int:
        number = next(self._ids)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.writer.write(json.dumps(request).encode() + b"\n")
        return number

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.send(method, **params))

    async def answer(self, number: Any) -> Any:
        async with asyncio.timeout(HANG_S):
            while number not in self.answers:
                assert await self.read(), "the connection has ended"
        return self.answers.pop(number)

    async def event(self, kind: str) -> dict[str, Any]:
        """The first event of that type; it is taken."""
        async with asyncio.timeout(HANG_S):
            while not (found := [event for event in self.events if event["type"] == kind]):
                assert await self.read(), f"the connection has ended before {kind}"
        self.events.remove(found[0])
        return found[0]

    async def read(self) -> bool:
        """One message more; False at the end."""
        line = await self.reader.readline()
        if not line:
            return False
        message = json.loads(line)
        if message.get("method") == "event":
            self.events.append(message["params"])
        else:
            self.answers[message.get("id", "notification")] = message
        return True

    async def to_end(self) -> None:
        """Read everything until the other side has closed the connection."""
        async with asyncio.timeout(HANG_S):
            while await self.read():
                pass


@asynccontextmanager
async def connected(session_id: str, folder: Path | None = None) -> AsyncIterator[LineClient]:
    """A connection to the socket of that session."""
    path = (folder or sockets_folder()) / f"{session_id}.sock"
    fd = os.open(path.parent, os.O_DIRECTORY)
    try:
        async with asyncio.timeout(HANG_S):
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{fd}/{path.name}", limit=MAX_LINE)
    finally:
        os.close(fd)
    try:
        yield LineClient(reader, writer)
    finally:
        writer.transport.abort()
