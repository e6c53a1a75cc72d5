"""The Codex app-server, a program in Rust from npm: a thread for each conversation, over its standard streams.

What is measured is that process alone, not this one that drives it. In its favour: threads are ephemeral, so that
nothing is stored, and commands run without its sandbox. Plug-ins and apps are off: they are looked for elsewhere. It
speaks Responses, always as a stream, and sends its own tools with every request. It has no tools in Python: the ten
megabytes of W6 are the output of a command.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from pathlib import Path
from typing import Any

from peer_protocol import BIG_OUTPUT_BYTES, INSTRUCTIONS, Kind, NoSuchFeatureError, Peer, serve

CONFIG = """
model = "gpt-4.1"
model_provider = "mock"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
apps = false
plugins = false
remote_plugin = false
[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
wire_api = "responses"
"""


class Thread:
    """A thread of the app-server, and the turn that it has now."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.turn = ""
        self.answer = ""
        self.ended: asyncio.Future[str] | None = None


class Program(Peer):
    """One app-server for all conversations, as an editor would run it."""

    tool_call = ("exec_command", {"cmd": f"yes 0123456789abcdef | head -c {BIG_OUTPUT_BYTES}"})

    async def start(self) -> None:
        home = Path(os.environ["HOME"]) / ".codex"
        home.mkdir()
        (home / "config.toml").write_text(CONFIG.format(url=self.url))
        (program,) = Path(os.environ["PEER_PACKAGES"]).glob("@openai/codex-*/vendor/*/bin/codex")
        pipe = asyncio.subprocess.PIPE
        self._server = await asyncio.create_subprocess_exec(
            str(program), "app-server", stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=2**26
        )
        self.process = self._server.pid
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._threads: dict[str, Thread] = {}
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._reader = self._group.create_task(self._read())
        await self._call("initialize", clientInfo={"name": "bench", "title": "Bench", "version": "1"})
        self._send({"method": "initialized"})

    async def stop(self) -> None:
        self._server.terminate()
        await self._server.wait()

    async def conversation(self, kind: Kind) -> Thread:
        if kind == "delegate":
            raise NoSuchFeatureError("an agent starts another with one call and learns of its end by a later one")
        command, *arguments = self.mcp_command
        server = {"command": command, "args": arguments, "default_tools_approval_mode": "approve"}
        answer = await self._call(
            "thread/start",
            cwd=str(Path.cwd()),
            ephemeral=True,
            approvalPolicy="never",
            sandbox="danger-full-access",
            baseInstructions=INSTRUCTIONS,
            config={"mcp_servers": {"bench": server}} if kind == "mcp" else {},
        )
        thread = Thread(answer["thread"]["id"])
        self._threads[thread.id] = thread
        return thread

    async def turn(self, thread: Thread, text: str) -> str:
        thread.ended = asyncio.get_running_loop().create_future()
        answer = await self._call("turn/start", threadId=thread.id, input=[{"type": "text", "text": text}])
        thread.turn = answer["turn"]["id"]
        return await thread.ended

    async def cancel(self, thread: Thread, turn: asyncio.Task[str]) -> None:
        await self._call("turn/interrupt", threadId=thread.id, turnId=thread.turn)

    async def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": parameters})
        return await answer

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self._server.stdout is not None
        async for line in self._server.stdout:
            message = json.loads(line)
            if "method" in message:
                self._notice(message["method"], message.get("params") or {})
            elif "error" in message:
                error = RuntimeError(f"the app-server refused a request: {message['error']['message']}")
                self._answers.pop(message["id"]).set_exception(error)
            else:
                self._answers.pop(message["id"]).set_result(message["result"])
        for answer in (*self._answers.values(), *(thread.ended for thread in self._threads.values())):
            if answer is not None and not answer.done():
                answer.set_exception(RuntimeError("the app-server has ended"))

    def _notice(self, method: str, parameters: dict[str, Any]) -> None:
        thread = self._threads.get(parameters.get("threadId", ""))
        if thread is None:
            return
        if method == "item/completed" and parameters["item"]["type"] == "agentMessage":
            thread.answer = parameters["item"]["text"]
        elif method == "turn/completed" and thread.ended is not None and not thread.ended.done():
            error = parameters["turn"].get("error")
            thread.ended.set_result(thread.answer if error is None else str(error))


if __name__ == "__main__":
    serve(Program)
