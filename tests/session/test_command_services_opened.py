"""What the commands of a session need, from its start to its end."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from tertulia.protocol.tool_events import ExecCommandEnd
from tertulia.sandbox.mounts import stubs
from tertulia.testing import call
from tests.deadlines import QuietTime
from tests.sandbox.confined import DAEMON, need, tagged
from tests.session.staging import stage


def left_running(tag: str) -> Any:
    return call("exec_command", {"cmd": f"sleep 600; : {tag}", "yield_time_ms": 250})


async def test_a_command_works_where_the_session_does_and_writes_nowhere_else(tmp_path: Path) -> None:
    """A8: a conversation's directory is where it starts, and gives no right to write there."""
    need("bubblewrap")
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    touch = call("shell", {"command": ["touch", "made"]})
    async with stage(touch, "1", touch, "2", touch, "3", cwd=str(own)) as acting:
        (own / "sub").mkdir()
        await acting.root.message("1")
        below = await acting.session.open(cwd=str(own / "sub"))
        await below.message("2")
        outside = await acting.session.open(cwd=str(other))
        await outside.message("3")
        assert [acting.outputs(conversation)[0].success for conversation in (acting.root, below, outside)] == [
            True,
            True,
            False,
        ]
        assert [path.exists() for path in (own / "made", own / "sub" / "made", other / "made")] == [True, True, False]


async def test_roots_that_were_set_are_the_ones_that_can_be_written(tmp_path: Path) -> None:
    need("bubblewrap")
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    touch = call("shell", {"command": ["touch", "made", str(other / "made")]})
    async with stage(touch, "1", cwd=str(own), writable_roots=[str(other)]) as acting:
        await acting.root.message("1")
        assert (other / "made").exists()
        assert not (own / "made").exists()


async def test_a_read_only_conversation_writes_nothing(tmp_path: Path) -> None:
    """S000-16, S000-18: narrowed at the call; the chain of a wider caller changes nothing."""
    need("bubblewrap")
    touch = call("shell", {"command": ["touch", "made"]})
    async with stage(touch, "1", cwd=str(tmp_path)) as acting:
        reader = await acting.session.open(sandbox="read-only")
        await reader.message("1")
        assert not acting.outputs(reader)[0].success
        assert not (tmp_path / "made").exists()


async def test_closing_a_conversation_kills_what_it_left_running_and_says_so(tmp_path: Path) -> None:
    """H3"""
    need("bubblewrap")
    tag = f"tag{secrets.token_hex(6)}"
    async with stage(left_running(tag), "1", cwd=str(tmp_path), shell_mode="streamable") as acting:
        conversation = await acting.session.open()
        await conversation.message("go")
        assert tagged(tag)
        await conversation.close()
        assert tagged(tag) == []
        ends = [event for event in acting.events.drain() if isinstance(event.data, ExecCommandEnd)]
        assert [event.conversation_id for event in ends] == [conversation.id]
        assert acting.events.types()[-1] == "conversation_closed"


async def test_closing_the_session_leaves_nothing_alive(tmp_path: Path) -> None:
    """H3, target 10: neither what was left running nor what ignores every polite signal."""
    need("bubblewrap")
    tag = f"tag{secrets.token_hex(6)}"
    stubborn = call("shell", {"command": ["python3", "-I", "-S", "-c", DAEMON, tag]})
    script = (left_running(tag), "1", stubborn)
    settings: dict[str, Any] = {"cwd": str(tmp_path), "shell_mode": "streamable"}
    async with stage(*script, **settings) as acting:
        await acting.root.message("go")
        shelled = await acting.session.open(shell_mode="default")
        running = acting.begin(shelled.message("go"))
        await acting.until("exec_command_output_delta")
        assert len(tagged(tag)) >= 2
        time_taken = QuietTime()
        await acting.session.close(timeout=5)
        assert time_taken.seconds < 5.1
        assert (await running).status == "interrupted"
        assert tagged(tag) == []


async def test_the_environment_of_commands_follows_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A15"""
    need("bubblewrap")
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("HARMLESS", "value")
    env = call("shell", {"command": ["env"]})
    policy = {"inherit": "all", "set": {"CHOSEN": "yes"}}
    async with stage(env, "1", cwd=str(tmp_path), shell_environment=policy) as acting:
        await acting.root.message("go")
        text = acting.outputs(acting.root)[0].text
        assert "secret" not in text
        assert "HARMLESS=value" in text
        assert "CHOSEN=yes" in text


async def test_stubs_of_a_killed_process_are_swept_when_a_session_starts(tmp_path: Path) -> None:
    """A5"""
    parent = os.open(tmp_path, os.O_RDONLY)
    stub = stubs.hold_stub(parent, ".git")
    assert stub is not None
    # As when a process dies: the lock goes, the directory stays.
    os.close(stub.fd)
    assert [path.name for path in tmp_path.iterdir()] == [".git"]
    async with stage(cwd=str(tmp_path)):
        assert list(tmp_path.iterdir()) == []
    os.close(stub._parent)
    os.close(parent)
