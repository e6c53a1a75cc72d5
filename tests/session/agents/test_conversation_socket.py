"""The one MCP server of an agent that stays: a socket for a conversation, open to calls while a task runs."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tertulia.errors import NotRunningError
from tertulia.mcp.serve.sources import ServedCall
from tests.executors.acp_stage import guests, received, said


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "agent-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


async def _nobody(*_: object) -> object:
    raise AssertionError


async def test_one_socket_serves_every_task_of_a_conversation_and_goes_with_it(home: Path) -> None:
    """DESIGN: exactly one MCP server. Only this user can reach it; another conversation has another."""
    async with guests() as acting:
        one, two = [await acting.session.open(backend="acp:fake") for _ in range(2)]
        for conversation in (one, two, one):
            answer = json.loads(await said(conversation, 'call {"name": "conv_list", "arguments": {}}'))
            assert answer["answer"]["isError"] is False
        doors = [Path(params["mcpServers"][0]["args"][-1]) for params in received(home, "session/new")]
        assert len(set(doors)) == 2
        assert all(stat.S_IMODE(door.parent.stat().st_mode) == 0o700 for door in doors)
        await one.close()
        assert [door.exists() for door in doors] == [False, True]
    assert not doors[1].parent.exists()


async def test_between_two_tasks_nothing_can_be_called(home: Path) -> None:
    """DESIGN: rights are those of the task, and there is none; tools can be looked at."""
    async with guests() as acting:
        conversation = await acting.session.open(backend="acp:fake")
        await said(conversation, "hello")
        (guest,) = [each for each in acting.parts.command_services.guests._all if hasattr(each, "_rooms")]
        (room,) = guest._rooms.values()
        assert [tool.name for tool in await room.tools.tools()] == ["conv_list", "conv_history"]
        call = ServedCall("conv_list", {}, "x", False, _nobody, lambda *_: None)  # type: ignore[arg-type]
        with pytest.raises(NotRunningError):
            await room.tools.call(call)
