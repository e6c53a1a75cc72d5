"""What a prompt costs in CPU over ACP beyond the turn itself, and what an editor waits for: a start, a round trip.

The turn is measured in the same run, from Python and with nobody listening. What comes on top is reading the request
with the SDK's models, each update, and the answer. The wire is a sink that drops everything; only the round trip goes
to a process and back, with the SDK's own client.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import acp
from msgspec.structs import replace

from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.server.acp.agent import AcpAgent
from tertulia.server.session_factory import DirectorySettings, SessionFactory
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings, current_environment

PROMPTS = 1_000
ROUND_TRIPS = 1_000
ROUNDS = 3
REPLY = "A tertulia is one table where many conversations are held in turn."

Work = Callable[[], Coroutine[Any, Any, float]]


class _Drop:
    """A client that reads everything at once, counts, and keeps the last answer."""

    def __init__(self) -> None:
        self.messages = 0
        self.answer = b""
        self.answered = asyncio.Event()

    def send(self, messages: Sequence[bytes]) -> None:
        self.messages += len(messages)
        if messages and messages[-1].startswith(b'{"jsonrpc":"2.0","id":'):
            self.answer = messages[-1]
            self.answered.set()

    async def drain(self) -> None:
        pass


def run() -> list[tuple[str, float, str] | tuple[str, float, str, str]]:
    """Measure; each result is (name, value, unit, target). The best of three rounds."""
    turn, prompt = _best(_turns), _best(_prompts)
    start, trip = asyncio.run(_process())
    return [
        ("a turn, from Python, nobody listening", turn, "us"),
        ("a prompt over ACP with its updates", prompt, "us"),
        ("ACP on top of a turn", prompt - turn, "us", "<= 300"),
        ("from the start of a process to initialize", start, "ms"),
        ("a round trip to a process, SDK's client", trip, "ms", "<= 2"),
    ]


def _best(work: Work) -> float:
    return min(asyncio.run(work()) for _ in range(ROUNDS))


def _settings() -> Settings:
    return Settings(model=ScriptedModel([REPLY], repeat=True))


async def _turns() -> float:
    host = Host(_settings())
    session = await host.start()
    begin = time.process_time()
    for _ in range(PROMPTS):
        await session.root.message("hello")
    spent = time.process_time() - begin
    await host.close()
    return spent / PROMPTS * 1e6


async def _prompts() -> float:
    settings, sink = _settings(), _Drop()
    factory = SessionFactory(
        Host(settings), lambda cwd: DirectorySettings(replace(settings, cwd=str(cwd))), current_environment()
    )
    agent = AcpAgent(factory, sink)

    async def ask(method: str, params: dict[str, Any]) -> Any:
        sink.answered.clear()
        await agent.peer.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
        await sink.answered.wait()
        return json.loads(sink.answer)["result"]

    await ask("initialize", {"protocolVersion": 1})
    # A folder of its own: the one for temporary files may hold the home, which is no workspace.
    with tempfile.TemporaryDirectory() as folder:
        session = (await ask("session/new", {"cwd": folder, "mcpServers": []}))["sessionId"]
        fields = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
        begin = time.process_time()
        for _ in range(PROMPTS):
            await ask("session/prompt", fields)
        spent = time.process_time() - begin
    if sink.messages < PROMPTS * 5:
        raise AssertionError(f"updates are missing: {sink.messages} messages")
    await agent.close(1)
    await factory.host.close()
    return spent / PROMPTS * 1e6


class _Editor(acp.Client):
    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        pass

    def on_connect(self, conn: Any) -> None:
        pass


async def _process() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_text(json.dumps({"replies": [REPLY], "repeat": True}))
        command = (sys.executable, "-m", "tertulia", "acp", "-m", f"scripted/{script}")
        begin = time.perf_counter()
        async with acp.spawn_agent_process(_Editor(), *command, env={"TERTULIA_HOME": folder}) as (conn, _):
            await conn.initialize(protocol_version=acp.PROTOCOL_VERSION)
            start = time.perf_counter() - begin
            begin = time.perf_counter()
            for _ in range(ROUND_TRIPS):
                await conn.list_sessions(cwd=folder)
            trip = (time.perf_counter() - begin) / ROUND_TRIPS
    return start * 1e3, trip * 1e3


if __name__ == "__main__":
    for name, value, unit, *_ in run():
        print(f"{name:44} {value:12,.2f} {unit}")
