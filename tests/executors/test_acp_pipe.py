"""The pipes of an ACP agent: bounded both ways, and over when the program is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.executors import acp_pipe
from tertulia.executors.acp_pipe import AcpPipe
from tertulia.sandbox.runner import Command, Confinement
from tests.executors.acp_hosts import AcpCrew, acp_crew


async def started(crew: AcpCrew, code: str, **fields: Any) -> tuple[AcpPipe, asyncio.Task[None]]:
    pipe = AcpPipe(**fields)
    command = Command(
        argv=(sys.executable, "-S", "-c", code),
        cwd="/",
        confinement=Confinement(mode="danger_full_access"),
        environment={"PATH": "/usr/bin:/bin"},
        keep_stdin=True,
    )
    await pipe.start(crew.sandbox, command)
    return pipe, asyncio.create_task(pipe.watch())


async def test_messages_go_both_ways_and_nonsense_is_counted(tmp_path: Path) -> None:
    """HARDENING C9: stderr is a pipe of its own, and drained."""
    code = "import sys; sys.stderr.write('e' * 600_000); print('<html>'); print(input(), flush=True)"
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, code)
        await pipe.send({"a": "ä"})
        assert await pipe.receive() == {"a": "ä"}
        assert await pipe.receive() is None
        await watch
        assert (pipe.passed_over, pipe.is_over, pipe.broken) == (1, True, None)
        assert pipe.exited is not None
        assert pipe.errors.last_lines()
        with pytest.raises(ConnectionError):
            await pipe.send({"b": 1})


async def test_a_line_that_is_too_long_ends_it(tmp_path: Path) -> None:
    """HARDENING C10."""
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, "print('{\"a\": \"' + 'x' * 5000 + '\"}')", max_line_bytes=1000)
        assert await pipe.receive() is None
        assert pipe.broken is not None
        assert "line of 5,0" in pipe.broken
        await watch


async def test_more_than_anybody_can_want_in_one_task_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 11, bad input: floods stdout."""
    monkeypatch.setattr(acp_pipe, "MAX_OUTPUT_BYTES", 10_000)
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, "while True: print('{}')")
        while await pipe.receive() is not None:
            pass
        assert pipe.broken == "it wrote more than 10,000 bytes in one task"
        await crew.sandbox.close()
        await watch


async def test_whoever_reads_slowly_holds_the_agent_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded memory: the program waits, and nothing is lost."""
    monkeypatch.setattr(acp_pipe, "MAX_UNREAD", 10)
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, "for n in range(100_000): print('{\"n\": %d}' % n)")
        heard = [message["n"] async for message in _all(pipe)]
        assert heard == list(range(100_000))
        await watch


async def _all(pipe: AcpPipe) -> Any:
    while (message := await pipe.receive()) is not None:
        yield message
