"""The pipes of an ACP agent: bounded both ways, and over when the program is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tertulia.executors.acp import pipe as acp_pipe
from tertulia.executors.acp.pipe import AcpPipe, is_message
from tertulia.sandbox.runner import Command, Confinement
from tests.executors.acp_hosts import AcpCrew, acp_crew
from tests.tables import each_row


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
        await pipe.send({"method": "ä"})
        assert await pipe.receive() == {"method": "ä"}
        assert await pipe.receive() is None
        await watch
        assert (pipe.passed_over, pipe.is_over, pipe.broken) == (1, True, None)
        assert pipe.exited is not None
        assert pipe.errors.last_lines()
        with pytest.raises(ConnectionError):
            await pipe.send({"method": "b"})


async def test_a_line_that_is_too_long_ends_it(tmp_path: Path) -> None:
    """HARDENING C10."""
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, "print('{\"method\": \"' + 'x' * 5000 + '\"}')", max_line_bytes=1000)
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
    monkeypatch.setattr(acp_pipe, "UNREAD_BYTES", 100)
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, "for n in range(100_000): print('{\"id\": %d}' % n)")
        heard = [message["id"] async for message in _all(pipe)]
        assert heard == list(range(100_000))
        await watch


@each_row(
    ("line", "counts"),
    [
        ({"id": 1, "method": "a"}, True),
        ({"id": "x", "method": "a", "params": 7}, True),
        ({"method": "a"}, True),
        ({"id": 1, "result": None}, True),
        ({"id": 1, "error": {}}, True),
        ({"id": 1, "error": None}, True),
        ({}, False),
        ({"result": 1}, False),
        ({"id": None, "method": "a"}, False),
        ({"id": [], "result": 1}, False),
        ({"id": {}, "method": "a"}, False),
        ({"id": True, "result": 1}, False),
        ({"id": 1.5, "result": 1}, False),
        ({"id": 1, "error": "no"}, False),
        ({"id": 1, "error": []}, False),
        ({"id": 1, "method": 7}, False),
        ({"method": None}, False),
    ],
)
def test_what_is_no_message_is_not_handed_on(line: dict[str, Any], counts: bool) -> None:
    """Issue 11, bad input: one of these would end the connection of an agent that only stammers."""
    assert is_message(line) is counts


async def test_one_that_asks_and_does_not_listen_is_not_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded memory: so many requests without an answer, and the next is heard when one has been answered."""
    monkeypatch.setattr(acp_pipe, "MAX_OPEN_REQUESTS", 3)
    code = 'for n in range(9): print(\'{"id": %d, "method": "a"}\' % n, flush=True)\ninput()\ninput()'
    async with acp_crew(tmp_path) as crew:
        pipe, watch = await started(crew, code)
        heard = [await pipe.receive() for _ in range(3)]
        assert [message and message["id"] for message in heard] == [0, 1, 2]
        fourth = asyncio.create_task(pipe.receive())
        await pipe.send({"method": "ours"})
        await asyncio.wait((fourth,), timeout=0)
        assert not fourth.done()
        await pipe.send({"id": 1, "result": None})
        assert await fourth == {"id": 3, "method": "a"}
        await pipe.close()
        await crew.sandbox.close()
        await watch


async def _all(pipe: AcpPipe) -> Any:
    while (message := await pipe.receive()) is not None:
        yield message
