"""Modes and models of an ACP session: what can be chosen, what is, and what the user's settings forbid."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import call
from tests.server.acp.test_agent import refused
from tests.server.acp_editor import desk, scripted

ALL = ["read-only", "workspace-write", "danger-full-access"]


@pytest.mark.parametrize(
    ("sandbox", "allowed"), [("read_only", ALL[:1]), ("workspace_write", ALL[:2]), ("danger_full_access", ALL)]
)
async def test_a_session_may_be_set_to_any_mode_up_to_what_the_settings_allow(
    tmp_path: Path, sandbox: str, allowed: list[str]
) -> None:
    """Issue 10 (4): full access is there only where the user's settings allow it."""
    async with desk(scripted("hi", sandbox=sandbox), tmp_path) as at:
        made = await at.conn.new_session(cwd=str(tmp_path))
        session = made.session_id
        assert [mode.id for mode in made.modes.available_modes] == allowed
        assert made.modes.current_mode_id == allowed[-1]
        root = at.session(session).root
        for mode in allowed:
            await at.conn.set_session_mode(session_id=session, mode_id=mode)
            assert (await root.context()).policy["sandbox"] == mode
        for mode in [*ALL[len(allowed) :], "yolo"]:
            assert (await refused(at.conn.set_session_mode(session_id=session, mode_id=mode)))[1] == "invalid_params"
            assert (await root.context()).policy["sandbox"] == allowed[-1]


async def test_a_session_can_begin_in_less_than_it_may_have(tmp_path: Path) -> None:
    """Issue 10 (4): `--mode`."""
    async with desk(scripted("hi", sandbox="danger_full_access"), tmp_path, mode="read-only") as at:
        made = await at.conn.new_session(cwd=str(tmp_path))
        assert made.modes.current_mode_id == "read-only"
        assert [mode.id for mode in made.modes.available_modes] == ALL


async def test_options_choose_the_mode_and_the_model_and_are_told_when_they_change(tmp_path: Path) -> None:
    """Issue 10 (4): model choice; what changes is told, whoever changed it."""
    other = tmp_path / "other.json"
    other.write_text('["another voice"]')
    async with desk(scripted("hi"), tmp_path) as at:
        made = await at.conn.new_session(cwd=str(tmp_path))
        session = made.session_id
        assert [option.id for option in made.config_options] == ["mode", "model"]
        said = await at.conn.set_config_option(config_id="mode", session_id=session, value="read-only")
        assert said.config_options[0].current_value == "read-only"
        said = await at.conn.set_config_option(config_id="model", session_id=session, value=f"scripted/{other}")
        assert said.config_options[1].current_value == f"scripted/{other}"
        await at.prompt(session, "who are you?")
        assert at.editor.said(session) == "another voice"
        assert {update["currentModeId"] for update in at.editor.of(session, "current_mode_update")} == {"read-only"}
        told = at.editor.of(session, "config_option_update")[-1]["configOptions"]
        assert told[1]["currentValue"] == f"scripted/{other}"
        for config, value in (("model", "nobody/knows"), ("colour", "blue"), ("mode", "yolo")):
            wrong: Any = at.conn.set_config_option(config_id=config, session_id=session, value=value)
            assert (await refused(wrong))[1] == "invalid_params"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_a_mode_really_holds_for_the_next_command(tmp_path: Path) -> None:
    """Issue 10 (4): the sandbox of a command is that of the mode that the editor shows."""
    touch = {"command": ["touch", "made"]}
    script = scripted(*[call("shell", touch), "tried"] * 2, approval_policy="never")
    async with desk(script, tmp_path) as at:
        session = await at.new()
        await at.conn.set_session_mode(session_id=session, mode_id="read-only")
        await at.prompt(session, "touch it")
        assert not (tmp_path / "made").exists()
        await at.conn.set_session_mode(session_id=session, mode_id="workspace-write")
        await at.prompt(session, "touch it")
        assert (tmp_path / "made").exists()
        ends = [update["status"] for update in at.editor.of(session, "tool_call_update") if "rawOutput" in update]
        assert ends == ["failed", "completed"]
