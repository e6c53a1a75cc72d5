"""Where a session is written down: what can go wrong at the start. The whole way is walked in test_recovery.py."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError, StorageError
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel
from tests.session.lives import Lives


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lives:
    return Lives(monkeypatch, tmp_path)


async def test_a_session_is_recorded_where_the_user_keeps_data_and_nobody_else_can_read_it(lives: Lives) -> None:
    """E7"""
    async with lives.start("ok") as session:
        file = lives.home / "sessions" / f"{session.id}.db"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_refused_start_leaves_no_record(lives: Lives) -> None:
    with pytest.raises(tertulia.errors.InvalidParamsError):
        async with Session.start(tertulia.Settings(model=ScriptedModel([]), tools=["no tool"])):
            raise AssertionError("entered")
    assert not (lives.home / "sessions").exists()


async def test_a_home_that_cannot_be_written_is_a_clear_error_at_the_start(lives: Lives) -> None:
    """F7: what lies there is not touched."""
    lives.home.parent.mkdir(exist_ok=True)
    lives.home.write_text("a file")
    with pytest.raises(StorageError, match=str(lives.home)):
        async with lives.start():
            raise AssertionError("entered")
    assert lives.home.read_text() == "a file"


async def test_what_is_no_record_is_refused_and_left_alone(lives: Lives) -> None:
    """E8, F4: the error names the file, other sessions are unaffected."""
    async with lives.start("ok") as session:
        await session.root.message("hi")
    broken = lives.home / "sessions" / "00000000-0000-4000-8000-000000000000.db"
    broken.write_bytes(b"not a database" * 1000)
    broken.chmod(0o600)
    with pytest.raises(StorageError, match=broken.name):
        async with Session.resume(broken.stem):
            raise AssertionError("entered")
    assert broken.read_bytes() == b"not a database" * 1000
    async with lives.resumed(session.id) as again:
        assert again.root.info.message_count == 2


async def test_durability_full_is_passed_on(lives: Lives) -> None:
    """S002-15: the slow way round gives the same record."""
    async with lives.start("ok", durability="full") as session:
        await session.root.message("hi")
    async with lives.resumed(session.id) as again:
        assert again.root.info.message_count == 2


async def test_the_secrets_of_mcp_servers_are_not_written_down(lives: Lives) -> None:
    """E6 for servers: not even where the model repeats it."""
    secret = "hunter2hunter2hunter2"
    servers = {"x": {"command": "x", "enabled": False, "env": {"API_TOKEN": secret}}}
    async with lives.start(f"It is {secret}.", mcp_servers=servers) as session:
        await session.root.message(f"Is it {secret}?")
        file = lives.home / "sessions" / f"{session.id}.db"
    written = b"".join(path.read_bytes() for path in file.parent.iterdir() if path.name.startswith(file.stem))
    assert b"It is " in written
    assert secret.encode() not in written


async def test_the_secrets_of_agents_are_not_written_down(lives: Lives) -> None:
    """S003-31, HARDENING A15: an agent that says its own keys says them to those who listen, and not to the record."""
    keys = {"AGENT_API_KEY": "a-plain-value-1", "SETTING": "a-common-value"}
    says = "import os; print(os.environ['AGENT_API_KEY'], os.environ['SETTING'])"
    table = {"command": [sys.executable, "-S", "-c", says], "sandbox": {"workspace-write": []}, "env": keys}
    async with lives.start(executors={"loud": table}) as session:
        reply = await (await session.open(backend="command:loud")).message("hello")
        assert reply.text == "a-plain-value-1 a-common-value"
    written = b"".join(path.read_bytes() for path in lives.home.rglob("*") if path.is_file())
    assert b"a-common-value" in written
    assert b"a-plain-value-1" not in written


@pytest.mark.parametrize("table", [5, {"env": 5}, {"env": {"KEY": 5}}, {"args": "x"}, {"args": [7]}])
async def test_a_table_of_an_agent_that_is_none_is_refused_and_not_stumbled_over(lives: Lives, table: Any) -> None:
    fields = {"command": ["x"], **table} if isinstance(table, dict) else table
    with pytest.raises(InvalidParamsError, match=r"executors\.bad"):
        async with lives.start(executors={"bad": fields}):
            pass
