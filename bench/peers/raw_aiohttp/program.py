"""The least that the work can cost: aiohttp posts the same bytes and reads the answer, without parsing any of it.

Each message is encoded once, when it is added. What the provider will say is known, so nothing of it has to be read.
Every other figure is a ratio to this one.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from peer_protocol import CHILD_INSTRUCTIONS, INSTRUCTIONS, WORK, Kind, Peer, big_output, serve

ANSWER = "It is as you say: the work is done, and nothing is left to be looked at. " * 4
TOOL = {"name": "ask_child", "description": "Ask.", "parameters": {"type": "object", "properties": {}}}
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none"}


def _message(role: str, content: str | None, **more: Any) -> bytes:
    return b"," + json.dumps({"role": role, "content": content, **more}).encode()


class History:
    """The messages of one conversation, as bytes that are sent as they are."""

    def __init__(self, kind: Kind, instructions: str = INSTRUCTIONS) -> None:
        self.kind = kind
        tools = b"" if kind == "plain" else b'"tools":' + json.dumps([{"type": "function", "function": TOOL}]).encode()
        head = json.dumps({"role": "system", "content": instructions}).encode()
        self._chunks = [b'{"model":"gpt-4.1","stream":true,', tools + b"," if tools else b"", b'"messages":[', head]

    def add(self, message: bytes) -> None:
        """Put a message behind the others."""
        self._chunks.append(message)

    def body(self) -> bytes:
        """The next request, whole."""
        return b"".join((*self._chunks, b"]}"))


class Program(Peer):
    """No framework, and no history but bytes."""

    async def start(self) -> None:
        # The limit of connections is raised for W8, as it is for every peer that has one.
        self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1_000))
        self._server: asyncio.subprocess.Process | None = None

    async def stop(self) -> None:
        await self._http.close()
        if self._server is not None:
            self._server.terminate()
            await self._server.wait()

    async def conversation(self, kind: Kind) -> History:
        if kind == "mcp" and self._server is None:
            pipe = asyncio.subprocess.PIPE
            self._server = await asyncio.create_subprocess_exec(*self.mcp_command, stdin=pipe, stdout=pipe)
            await self._rpc("initialize", {"protocolVersion": "2025-06-18"})
        return History(kind)

    async def turn(self, history: History, text: str) -> str:
        history.add(_message("user", text))
        await self._post(history)
        if text.startswith("@call "):
            await self._call(history, json.loads(text.removeprefix("@call ")))
            await self._post(history)
        history.add(_message("assistant", ANSWER))
        return ANSWER

    async def _post(self, history: History) -> None:
        url = f"{self.url}/v1/chat/completions"
        async with self._http.post(url, data=history.body(), headers=HEADERS) as response:
            while await response.content.readany():
                pass

    async def _call(self, history: History, wish: dict[str, Any]) -> None:
        function = {"name": wish["tool"], "arguments": json.dumps(wish["arguments"])}
        calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(wish["times"])]
        history.add(_message("assistant", None, tool_calls=calls))
        outputs = await asyncio.gather(*(self._output(history.kind, wish) for _ in calls))
        for call, output in zip(calls, outputs, strict=True):
            history.add(_message("tool", output, tool_call_id=call["id"]))

    async def _output(self, kind: Kind, wish: dict[str, Any]) -> str:
        if kind == "tool":
            return big_output()
        if kind == "mcp":
            return await self._rpc("tools/call", {"name": wish["tool"], "arguments": wish["arguments"]})
        child = History("plain", CHILD_INSTRUCTIONS)
        return await self.turn(child, WORK)

    async def _rpc(self, method: str, parameters: dict[str, Any]) -> str:
        assert self._server is not None
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        return (await self._server.stdout.readline()).decode()


if __name__ == "__main__":
    serve(Program)
