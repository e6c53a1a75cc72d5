"""A client written from the public page alone: it starts the program, writes lines and reads lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tests.deadlines import HANG_S
from tests.forked import AsyncProgram

DEADLINE_S = HANG_S
NEVER_MS = 3_600_000

Message = dict[str, Any]


class Refused(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: Message) -> None:
        super().__init__(json.dumps(error))
        self.number: int = error["code"]
        self.code: str = error["data"]["code"]
        self.message: str = error["message"]
        self.data: Message = error["data"]


class Server:
    """One `tertulia app-server` and everything it has written so far."""

    def __init__(self, process: AsyncProgram | asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[Any] = []
        self._ids = 0

    async def send(self, line: bytes | Message | list[Any]) -> None:
        """One line, as it is or as JSON."""
        raw = line if isinstance(line, bytes) else json.dumps(line).encode()
        assert self.process.stdin
        self.process.stdin.write(raw + b"\n")
        async with asyncio.timeout(DEADLINE_S):
            await self.process.stdin.drain()

    async def ask(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        self._ids += 1
        await self.send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        return self._ids

    async def read(self) -> Any:
        """The next line."""
        assert self.process.stdout
        async with asyncio.timeout(DEADLINE_S):
            line = await self.process.stdout.readline()
        assert line.endswith(b"\n"), f"the server has stopped: {line!r}"
        self.lines.append(json.loads(line))
        return self.lines[-1]

    async def until(self, wanted: Callable[[Any], bool], start: int = 0) -> Any:
        """The first line that is wanted, among those from `start` on, read already or still to come."""
        for line in self.lines[start:]:
            if wanted(line):
                return line
        while not wanted(line := await self.read()):
            pass
        return line

    async def reply(self, id: Any) -> Message:
        """The whole response to a request."""
        return await self.until(lambda line: isinstance(line, dict) and "method" not in line and line.get("id") == id)

    async def answer(self, id: int) -> Any:
        """The result of a request; a refusal is raised."""
        response = await self.reply(id)
        assert response["jsonrpc"] == "2.0"
        assert ("result" in response) != ("error" in response), response
        if "error" in response:
            raise Refused(response["error"])
        return response["result"]

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.ask(method, **params))

    async def say(self, text: str, conversation: str = "root", **params: Any) -> Any:
        return await self.call("conversation/message", conversation_id=conversation, text=text, **params)

    async def event(self, type: str, start: int = 0, **where: Any) -> Message:
        """The envelope of the first event of this type, and of this conversation or task."""

        def wanted(line: Any) -> bool:
            if not is_event(line) or line["params"]["type"] != type:
                return False
            return all(line["params"][name] == value for name, value in where.items())

        return (await self.until(wanted, start))["params"]

    @property
    def events(self) -> list[Message]:
        """All events so far."""
        return [line["params"] for line in self.lines if is_event(line)]

    def types(self, task_id: str) -> list[str]:
        return [event["type"] for event in self.events if event["task_id"] == task_id]

    async def end(self) -> int:
        """Close standard input, read the rest, and return the exit code."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            rest = await self.process.stdout.read()
            self.lines.extend(json.loads(line) for line in rest.splitlines())
            return await self.process.wait()


def is_event(line: Any) -> bool:
    return isinstance(line, dict) and line.get("method") == "event"


def program() -> str:
    return str(Path(sys.executable).parent / "tertulia")


def surroundings(home: Path) -> dict[str, str]:
    """An environment with nobody's settings and nobody's keys in it.

    The home really lies beside the folder that it is found in: most work in that folder, and one with a home inside is
    no workspace.
    """
    beside = home.parent.with_name(f"{home.parent.name}-{home.name}")
    if not home.is_symlink():
        if home.exists():
            home.rename(beside)
        beside.mkdir(parents=True, exist_ok=True)
        home.symlink_to(beside)
    path = os.environ.get("PATH", "/usr/bin:/bin")
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}


def write_script(folder: Path, replies: list[Any], **rest: Any) -> str:
    """A script as a model's name. A script of no replies is none, so an unasked one says a word."""
    (folder / "script.json").write_text(json.dumps({"replies": replies or ["Hello."], **rest}))
    return "scripted/script.json"


@contextlib.asynccontextmanager
async def serving(
    folder: Path, replies: list[Any], *flags: str, hello: bool = True, attend: bool = True
) -> AsyncIterator[Server]:
    """An app-server on a script, after `initialize`; `attend`: its client answers approvals."""
    model = write_script(folder, replies)
    process = await AsyncProgram.start(
        "app-server", "-m", model, *flags, cwd=folder, env=surroundings(folder / "home"), limit=2**26
    )
    server = Server(process)
    try:
        if hello:
            await server.call("initialize", client={"name": "contract", "version": "1"}, attend=attend)
        yield server
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        async with asyncio.timeout(DEADLINE_S):
            await process.communicate()
