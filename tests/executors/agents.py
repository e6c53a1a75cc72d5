"""Executors that are `fake_agent.py`, for tests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tertulia.events.clock import SystemClock
from tertulia.executors.command.claude_stream import ClaudeStream
from tertulia.executors.command.codex_jsonl import CodexJsonl
from tertulia.executors.command.command_executor import CommandExecutor, PlainText
from tertulia.executors.command.definition import ExecutorDefinition
from tertulia.executors.executor import Assignment, ProgramServices, RunEnd, Step
from tertulia.sandbox.sandbox import Sandbox
from tests.deadlines import HANG_S

PROGRAM = str(Path(__file__).with_name("fake_agent.py"))
EVERY_MODE = {"read_only": (), "workspace_write": (), "danger_full_access": ()}
PARSERS: Mapping[str, Any] = {
    "text": lambda _: PlainText(),
    "codex-jsonl": CodexJsonl,
    "claude-stream-json": lambda _: ClaudeStream(),
}


def fake(mode: str, *arguments: str, **fields: Any) -> ExecutorDefinition:
    """One way in which the program behaves."""
    return ExecutorDefinition(
        **{"command": (sys.executable, "-S", PROGRAM, mode, *arguments), "sandbox": EVERY_MODE, **fields}
    )


def table(mode: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    """The same, as a table of settings."""
    return {
        "command": [sys.executable, "-S", PROGRAM, mode, *arguments],
        "sandbox": {"read-only": [], "workspace-write": []},
        **fields,
    }


def codex_table(**fields: Any) -> dict[str, Any]:
    """One that remembers."""
    return table("codex", output="codex-jsonl", resume=["resume", "{id}"], **fields)


async def until(ready: Callable[[], object]) -> None:
    """Let others work until it is so: a program has to start first."""
    async with asyncio.timeout(HANG_S):
        for _ in count():
            if ready():
                return
            await asyncio.sleep(0)


class Crew:
    """Makes executors, and runs them to their end."""

    def __init__(self, sandbox: Sandbox, spawn: Any, home: Path) -> None:
        self.sandbox, self._spawn, self.home = sandbox, spawn, home

    def executor(self, definition: ExecutorDefinition, *, grace_s: float = 0.5, **variables: str) -> CommandExecutor:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), **variables}
        parser = PARSERS[definition.output]
        services = ProgramServices(self.sandbox, environment, self._spawn, grace_s)
        return CommandExecutor("fake", definition, parser, services)

    async def run(self, definition: ExecutorDefinition, prompt: str = "hello", **fields: Any) -> list[Step]:
        assignment = Assignment(prompt=prompt, cwd="/", **fields)
        return [step async for step in self.executor(definition).run(assignment)]

    async def ending(self, definition: ExecutorDefinition, prompt: str = "hello", **fields: Any) -> Any:
        *_, ending = await self.run(definition, prompt, **fields)
        assert isinstance(ending, RunEnd)
        return ending


@asynccontextmanager
async def crew(home: Path) -> AsyncIterator[Crew]:
    """With a sandbox of its own; on leaving, nothing may run any more."""
    sandbox = Sandbox(clock=SystemClock())
    async with asyncio.TaskGroup() as group:
        try:
            yield Crew(sandbox, lambda work, name: group.create_task(work, name=name), home)
        finally:
            await sandbox.close()
