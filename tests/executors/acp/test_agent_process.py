"""One ACP agent that runs: who it is, its session, and what it may ask when nobody gave it a task."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import ModelError
from tertulia.executors.acp.agent_process import AcpProcess, load_sdk
from tertulia.executors.acp.task import AcpTask
from tertulia.executors.executor import RunFinished
from tertulia.sandbox.runner import Command, Confinement
from tests.executors.acp_hosts import acp_crew
from tests.executors.acp_stage import PROGRAM, received

NEW: dict[str, Any] = {"cwd": "/", "mcpServers": []}


@asynccontextmanager
async def process(home: Path, mode: str = "good") -> AsyncIterator[AcpProcess]:
    load_sdk()
    async with acp_crew(home) as crew:
        made = AcpProcess("fake", crew.sandbox, lambda work, name: asyncio.ensure_future(work), start_s=10.0)
        command = Command(
            argv=(sys.executable, "-S", PROGRAM, mode),
            cwd="/",
            confinement=Confinement(mode="danger_full_access"),
            environment={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            keep_stdin=True,
        )
        try:
            await made.start(command)
            yield made
        finally:
            await made.close(0.5)


async def test_it_says_who_we_are_and_what_we_do(tmp_path: Path) -> None:
    """ACP: files and terminals are offered; the version is ours."""
    async with process(tmp_path) as made:
        assert made.is_alive
        (message,) = received(tmp_path, "initialize")
        assert message["protocolVersion"] == 1
        assert message["clientCapabilities"] == {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    assert not made.is_alive
    await made.close()


async def test_another_version_is_refused(tmp_path: Path) -> None:
    """Issue 11, bad input: wrong version."""
    with pytest.raises(ExceptionGroup) as refused:
        async with process(tmp_path, "old"):
            pass
    (error,) = refused.value.exceptions
    assert isinstance(error, ModelError)
    assert "version 99 of ACP" in error.message


async def test_a_session_that_is_not_known_cannot_be_taken_up(tmp_path: Path) -> None:
    """The caller falls back to the transcript."""
    async with process(tmp_path) as made:
        with pytest.raises(ModelError, match="cannot go on"):
            await made.take_up("x", NEW)
        assert made.session is None
        assert await made.begin(NEW) == made.session


async def test_it_works_on_one_task_after_another(tmp_path: Path) -> None:
    """The end of each is told to its task; between them updates go nowhere."""
    async with process(tmp_path) as made:
        await made.begin(NEW)
        for text in ("stop end_turn", "tools"):
            task = AcpTask(None)
            await made.work(task, text)
            assert isinstance(task.ending, RunFinished)
        await made.set_mode("any")
        assert [params["modeId"] for params in received(tmp_path, "session/set_mode")] == ["any"]


async def test_a_refusal_is_told_in_its_words(tmp_path: Path) -> None:
    """Issue 11, bad input: not logged in."""
    async with process(tmp_path, "auth") as made:
        with pytest.raises(ModelError, match="Authentication required") as refused:
            await made.begin(NEW)
        assert refused.value.detail["log_in"] is True
        assert refused.value.message == "Authentication required (it offers: Log in: run `fake login`)"


async def test_the_death_of_the_program_ends_its_task(tmp_path: Path) -> None:
    """HARDENING C11: mid-call; whoever asks next is told at once."""
    async with process(tmp_path) as made:
        await made.begin(NEW)
        task = AcpTask(None)
        await made.work(task, "crash")
        assert task.failure is not None
        assert not made.is_alive
        await made.cancel()
        with pytest.raises(ModelError):
            await made.set_mode("x")
