"""The published schema, as a client would use it: everything that goes over a wire is held against it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
from websockets.asyncio.client import ClientConnection, connect

from tests.contract.app_server import DEADLINE_S, Message, Refused, Server, surroundings, write_script
from tests.forked import AsyncProgram

SCHEMA = Path(__file__).parent.parent.parent / "docs" / "schema.json"

ENVELOPE = {"epoch", "seq", "ts", "type", "session_id", "sub_id", "conversation_id", "task_id", "trace_id", "span_id"}


class Published:
    """The schema that is checked in, and what of it was seen."""

    def __init__(self) -> None:
        self.page: Any = json.loads(SCHEMA.read_text())
        self.operations: set[str] = set()
        self.events: set[str] = set()

    async def call(self, server: Server, method: str, **params: Any) -> Any:
        """Ask, and hold the question and the answer against it."""
        result = await server.call(method, **params)
        self.answered(method, params, result)
        return result

    def answered(self, method: str, params: Message, result: Any) -> None:
        operation = self.page["operations"][method]
        self._fits(params, operation["params"], f"{method} params")
        self._fits(result, operation["result"], f"{method} result")
        self.operations.add(method)

    def told(self, event: Message) -> None:
        assert set(event) == ENVELOPE | {"data"}
        assert event["sub_id"]
        self._fits(event, self.page["event"], "event")
        self._fits(event["data"], self.page["events"][event["type"]]["data"], event["type"])
        self.events.add(event["type"])

    def _fits(self, value: Any, reference: Any, what: str) -> None:
        validator = jsonschema.Draft202012Validator({**reference, "$defs": self.page["$defs"]})
        for problem in validator.iter_errors(value):
            raise AssertionError(f"{what}: {problem.message} at {list(problem.absolute_path)}")
        assert not (hidden := list(self._hidden(value, reference))), f"{what} has what no schema names: {hidden}"

    def _hidden(self, value: Any, schema: Any) -> Any:
        """Members that are there and in no schema. Where a schema names none, anything goes."""
        schema = self.page["$defs"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
        if isinstance(value, list):
            for entry in value:
                yield from self._hidden(entry, schema.get("items", {}))
        elif isinstance(value, dict) and (named := schema.get("properties")):
            yield from set(value) - set(named)
            for name in set(value) & set(named):
                yield from self._hidden(value[name], named[name])


class Socket:
    """JSON-RPC over a WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[Message] = []
        self._answers: dict[int, Message] = {}
        self._ids = 0

    async def ask(self, method: str, **params: Any) -> int:
        """Send a request; its id."""
        self._ids += 1
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}))
        return self._ids

    async def answer(self, id: int) -> Any:
        """The result of a request; a refusal is raised."""
        while id not in self._answers:
            await self.read()
        response = self._answers.pop(id)
        if "error" in response:
            raise Refused(response["error"])
        return response["result"]

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.ask(method, **params))

    async def event(self, type: str, start: int = 0) -> Message:
        """The first event of this type from number `start` on, read already or still to come."""
        while not (found := [event for event in self.events[start:] if event["type"] == type]):
            await self.read()
        return found[0]

    async def until_seq(self, seq: int) -> None:
        """Read up to that event."""
        while not self.numbers or self.numbers[-1] < seq:
            await self.read()

    @property
    def numbers(self) -> list[int]:
        return [event["seq"] for event in self.events if event["seq"] is not None]

    async def read(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            message = json.loads(await self.socket.recv())
        if message.get("method") == "event":
            self.events.append(message["params"])
        else:
            self._answers[message["id"]] = message


class Place:
    """A `tertulia serve`, and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process, address: dict[str, str]) -> None:
        self.process = process
        self.url = address["url"]
        self.token = Path(address["token_file"]).read_text()

    @contextlib.asynccontextmanager
    async def socket(self, **headers: str) -> AsyncIterator[Socket]:
        """A connection with the token, unless other headers are given."""
        sent_headers = headers or {"Authorization": f"Bearer {self.token}"}
        async with connect(f"{self.url.replace('http', 'ws', 1)}/ws", additional_headers=sent_headers) as socket:
            yield Socket(socket)


@contextlib.asynccontextmanager
async def serving_web(folder: Path, replies: list[Any], *flags: str) -> AsyncIterator[Place]:
    """A server on a script, in a process of its own."""
    model = write_script(folder, replies)
    words = ("serve", "--port", "0", "-m", model, *flags)
    process = await AsyncProgram.start(*words, cwd=folder, env=surroundings(folder / "home"))
    process.stdin.close()
    try:
        async with asyncio.timeout(DEADLINE_S):
            line = await process.stdout.readline()
        yield Place(process, json.loads(line))
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        async with asyncio.timeout(DEADLINE_S):
            await process.communicate()
