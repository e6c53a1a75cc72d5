"""A host for tests that remembers what it was asked, and a crew of ACP agents without a session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tertulia.errors import NotFoundError
from tertulia.events.clock import SystemClock
from tertulia.executors.acp.acp_executor import AcpExecutor
from tertulia.executors.acp.definition import AcpDefinition, acp_from_wire
from tertulia.executors.executor import (
    Assignment,
    PermissionAnswer,
    PermissionQuestion,
    ProgramServices,
    Progress,
    Step,
)
from tertulia.protocol.tool_events import Decider
from tertulia.sandbox.runner import Command, Confinement, OnOutput, RunningCommand
from tertulia.sandbox.sandbox import Sandbox
from tests.executors.acp_stage import acp_table


class RecordingHost:
    """Allows what it is told to allow; files are in memory, commands run."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self.consent = PermissionAnswer(allowed=True)
        self.asked: list[PermissionQuestion] = []
        self.files: dict[str, str] = {}
        self._sandbox = sandbox

    async def permit(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        return self.consent

    async def read(self, path: str) -> str:
        if path not in self.files:
            raise NotFoundError("there is none")
        return self.files[path]

    async def write(self, path: str, text: str, call: str) -> None:
        if path == "/forbidden":
            raise NotFoundError("not here")
        self.files[path] = text

    async def start(
        self, argv: tuple[str, ...], cwd: str | None, variables: Mapping[str, str], on_output: OnOutput, call: str
    ) -> RunningCommand:
        assert self._sandbox is not None
        command = Command(
            argv=argv,
            cwd=cwd or "/",
            confinement=Confinement(mode="danger_full_access"),
            environment={"PATH": "/usr/bin:/bin", **variables},
        )
        return await self._sandbox.start(command, on_output)

    def allowed_by(self, call: str) -> Decider | None:
        return None


class AcpCrew:
    """Makes executors, and runs them to their end."""

    def __init__(self, sandbox: Sandbox, spawn: Any, home: Path) -> None:
        self.sandbox, self.home, self._spawn = sandbox, home, spawn

    def executor(
        self, mode: str = "good", *, start_s: float = 20.0, below: AcpDefinition | None = None, **fields: Any
    ) -> AcpExecutor:
        definition = acp_from_wire("fake", acp_table(mode, start_timeout_s=start_s, **fields), below)
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(self.home)}
        return AcpExecutor("fake", definition, ProgramServices(self.sandbox, environment, self._spawn, 0.5))

    async def run(self, executor: AcpExecutor, prompt: str, **fields: Any) -> list[Step]:
        steps = await self.run_whole(executor, prompt, **fields)
        return [step for step in steps if not isinstance(step, Progress)]

    async def run_whole(self, executor: AcpExecutor, prompt: str, **fields: Any) -> list[Step]:
        """With what is told of its start."""
        fields = {"conversation": "c", "roots": ("/",), **fields}
        return [step async for step in executor.run(Assignment(prompt=prompt, cwd="/", **fields))]


@asynccontextmanager
async def acp_crew(home: Path) -> AsyncIterator[AcpCrew]:
    """With a sandbox of its own; on leaving, nothing may run any more."""
    sandbox = Sandbox(clock=SystemClock())
    async with asyncio.TaskGroup() as group:
        try:
            yield AcpCrew(sandbox, lambda work, name: group.create_task(work, name=name), home)
        finally:
            await sandbox.close()
