"""What a turn of another agent costs us beyond what its own program costs: CPU of this process, and time.

The program is `cat`, which prints a recorded answer with forty steps. Time is compared with that of running the same
program with asyncio alone, in the same run; medians.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tertulia
from tertulia.events.journal import NoJournal
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
    return [
        ("CPU of ours for a turn", cpu * 1000, "ms", "<= 5"),
        ("CPU of asyncio's own subprocess", bare_cpu * 1000, "ms", ""),
        ("time of a turn", wall * 1000, "ms", ""),
        ("time of the program alone", bare_wall * 1000, "ms", ""),
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
