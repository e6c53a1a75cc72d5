"""What a turn of an executor costs us beyond what its own program costs: CPU of this process, and time.

The program is `cat`, which prints a recorded answer with forty steps. Time is compared with that of running the same
program with asyncio alone, in the same run; medians. An ACP agent that answers at once is given prompts through our
client, and through the SDK's own.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import acp

import tertulia
from tertulia.events.clock import SystemClock
from tertulia.events.journal import NoJournal
from tertulia.executors.acp.agent_process import AcpProcess, load_sdk
from tertulia.executors.acp.task import AcpTask
from tertulia.sandbox.runner import Command, Confinement
from tertulia.sandbox.sandbox import Sandbox
from tertulia.scheduler.nursery import Nursery
from tertulia.testing import ScriptedModel

Row = tuple[str, float, str, str]
TURNS = 60
WARM = 10
STEPS = 20


def run() -> list[Row]:
    """All rows: name, value, unit, target."""
    with tempfile.TemporaryDirectory(prefix="tertulia-bench-") as folder:
        recorded = Path(folder) / "answer.jsonl"
        recorded.write_text("".join(json.dumps(line) + "\n" for line in _answer()))
        return asyncio.run(_all(recorded))


def _answer() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": "t-1"}, {"type": "turn.started"}]
    for number in range(STEPS):
        item = {"id": f"item_{number}", "type": "command_execution", "command": "ls -l", "status": "in_progress"}
        lines.append({"type": "item.started", "item": item})
        done = {**item, "status": "completed", "exit_code": 0, "aggregated_output": "total 0\n" * 50}
        lines.append({"type": "item.completed", "item": done})
    text = "It is done. " * 40
    lines.append({"type": "item.completed", "item": {"id": "item_99", "type": "agent_message", "text": text}})
    return [*lines, {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 10}}]


async def _all(recorded: Path) -> list[Row]:
    table = {
        "command": ["cat", str(recorded)],
        "output": "codex-jsonl",
        "strategy": "transcript",
        "sandbox": {"workspace-write": []},
    }
    settings = tertulia.Settings(model=ScriptedModel([]), executors={"cat": table})
    async with tertulia.Session.start(settings, journal=NoJournal()) as session:
        conversation = await session.open(backend="command:cat")
        cpu, wall = await _measured(lambda: conversation.message("Go on, please. " * 20))
    bare_cpu, bare_wall = await _measured(lambda: _bare(recorded))
    theirs = await _of_the_sdk()
    (acp_cpu, whole), ours = await _acp_turn(), await _acp_prompt()
    return [
        ("CPU of ours for a turn", cpu * 1000, "ms", "<= 5"),
        ("CPU of asyncio's own subprocess", bare_cpu * 1000, "ms", ""),
        ("time of a turn", wall * 1000, "ms", ""),
        ("time of the program alone", bare_wall * 1000, "ms", ""),
        ("ACP: CPU of ours for a turn", acp_cpu * 1000, "ms", "<= 5"),
        ("ACP: time of a turn", whole * 1000, "ms", ""),
        ("ACP: round trip of a prompt", ours * 1000, "ms", ""),
        ("ACP: the same with the SDK's client", theirs * 1000, "ms", ""),
        ("ACP: ours, by the SDK's", ours / theirs, "x", "<= 1.5"),
    ]


async def _measured(turn: Any) -> tuple[float, float]:
    cpu: list[float] = []
    wall: list[float] = []
    for number in range(TURNS + WARM):
        used, began = time.process_time(), time.perf_counter()
        await turn()
        if number >= WARM:
            cpu.append(time.process_time() - used)
            wall.append(time.perf_counter() - began)
    return statistics.median(cpu), statistics.median(wall)


async def _bare(recorded: Path) -> None:
    process = await asyncio.create_subprocess_exec("cat", str(recorded), stdout=asyncio.subprocess.PIPE)
    await process.communicate()


# ── ACP ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_AGENT = """
import json, sys
def send(**said):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **said}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    said = json.loads(line)
    result = {"protocolVersion": 1, "agentCapabilities": {}, "sessionId": "s-1", "stopReason": "end_turn"}
    if said.get("method") == "session/prompt":
        for piece in ("It ", "is ", "done."):
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}}
            send(method="session/update", params={"sessionId": "s-1", "update": update})
    if "id" in said:
        send(id=said["id"], result=result)
"""


async def _acp_turn() -> tuple[float, float]:
    """All of it, from a message to its answer."""
    table = {"command": [sys.executable, "-c", _AGENT], "sandbox": {"workspace-write": {}}}
    settings = tertulia.Settings(model=ScriptedModel([]), acp={"quick": table})
    async with tertulia.Session.start(settings, journal=NoJournal()) as session:
        conversation = await session.open(backend="acp:quick")
        return await _measured(lambda: conversation.message("Go on, please."))


async def _acp_prompt() -> float:
    """The prompt alone, until its end is known."""
    load_sdk()
    sandbox, nursery = Sandbox(clock=SystemClock()), Nursery()
    process = AcpProcess("quick", sandbox, nursery.start)
    command = Command(
        argv=(sys.executable, "-c", _AGENT),
        cwd="/",
        confinement=Confinement(mode="danger_full_access"),
        environment={},
        keep_stdin=True,
    )
    try:
        await process.start(command)
        await process.begin({"cwd": "/", "mcpServers": []})
        return (await _measured(lambda: process.work(AcpTask(None), "Go on, please.")))[1]
    finally:
        await process.close(0)
        await sandbox.close()
        await nursery.close(1)


async def _of_the_sdk() -> float:
    class Client(acp.Client):
        async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
            pass

    async with acp.spawn_agent_process(Client(), sys.executable, "-c", _AGENT) as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        made = await agent.new_session(cwd="/", mcp_servers=[])
        prompt = [acp.text_block("Go on, please.")]
        return (await _measured(lambda: agent.prompt(session_id=made.session_id, prompt=prompt)))[1]
