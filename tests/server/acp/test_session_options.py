"""Modes and models of an ACP session: what can be chosen, what is, and what the user's settings forbid."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tertulia.server.acp.session_options import SLASH_COMMANDS, find_slash_command
from tertulia.testing import ScriptedModel, call, say
from tests.docs.pages import names, table
from tests.sandbox.confined import need
from tests.server.acp.test_agent import refused
from tests.server.acp_editor import Silence, editor_stage, scripted

ALL = ["read-only", "workspace-write", "danger-full-access"]


@pytest.mark.parametrize(
    ("sandbox", "allowed"), [("read_only", ALL[:1]), ("workspace_write", ALL[:2]), ("danger_full_access", ALL)]
)
async def test_a_session_may_be_set_to_any_mode_up_to_what_the_settings_allow(
    tmp_path: Path, sandbox: str, allowed: list[str]
) -> None:
    """Issue 10 (4): full access is there only where the user's settings allow it."""
    async with editor_stage(scripted("hi", sandbox=sandbox), tmp_path) as at:
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
    async with editor_stage(scripted("hi", sandbox="danger_full_access"), tmp_path, mode="read-only") as at:
        made = await at.conn.new_session(cwd=str(tmp_path))
        assert made.modes.current_mode_id == "read-only"
        assert [mode.id for mode in made.modes.available_modes] == ALL


async def test_options_choose_the_mode_and_the_model_and_are_told_when_they_change(tmp_path: Path) -> None:
    """Issue 10 (4): model choice; what changes is told, whoever changed it."""
    other = tmp_path / "other.json"
    other.write_text('["another voice"]')
    async with editor_stage(scripted("hi"), tmp_path) as at:
        made = await at.conn.new_session(cwd=str(tmp_path))
        session = made.session_id
        assert [option.id for option in made.config_options] == ["mode", "model"]
        chosen = await at.conn.set_config_option(config_id="mode", session_id=session, value="read-only")
        assert chosen.config_options[0].current_value == "read-only"
        chosen = await at.conn.set_config_option(config_id="model", session_id=session, value=f"scripted/{other}")
        assert chosen.config_options[1].current_value == f"scripted/{other}"
        await at.prompt(session, "who are you?")
        assert at.editor.said(session) == "another voice"
        assert {update["currentModeId"] for update in at.editor.of(session, "current_mode_update")} == {"read-only"}
        updates = at.editor.of(session, "config_option_update")[-1]["configOptions"]
        assert updates[1]["currentValue"] == f"scripted/{other}"
        for config, value in (("model", "nobody/knows"), ("colour", "blue"), ("mode", "yolo")):
            wrong: Any = at.conn.set_config_option(config_id=config, session_id=session, value=value)
            assert (await refused(wrong))[1] == "invalid_params"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_a_mode_really_holds_for_the_next_command(tmp_path: Path) -> None:
    """Issue 10 (4): the sandbox of a command is that of the mode that the editor shows."""
    touch = {"command": ["touch", "made"]}
    script = scripted(*[call("shell", touch), "tried"] * 2, approval_policy="never")
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        await at.conn.set_session_mode(session_id=session, mode_id="read-only")
        await at.prompt(session, "touch it")
        assert not (tmp_path / "made").exists()
        await at.conn.set_session_mode(session_id=session, mode_id="workspace-write")
        await at.prompt(session, "touch it")
        assert (tmp_path / "made").exists()
        ends = [update["status"] for update in at.editor.of(session, "tool_call_update") if "rawOutput" in update]
        assert ends == ["failed", "completed"]


async def test_commands_are_announced_and_answered_without_the_model(tmp_path: Path) -> None:
    """Issue 10 (4): available_commands_update; a prompt that starts with `/`."""
    settings = scripted("never asked")
    model = settings.model
    assert isinstance(model, ScriptedModel)
    async with editor_stage(settings, tmp_path) as at:
        session = await at.new()
        updates = await at.editor.until(lambda: at.editor.of(session, "available_commands_update"))
        assert [command["name"] for command in updates[0]["availableCommands"]] == list(SLASH_COMMANDS)
        for name, expected in {
            "help": "`/compact`",
            "status": "mode: workspace-write",
            "model": "answers.",
            "mode": "`read-only`",
            "mcp": "There is no MCP server.",
            "tools": "`shell`",
        }.items():
            at.editor.updates.clear()
            assert (await at.prompt(session, f"/{name}")).stop_reason == "end_turn"
            assert expected in at.editor.said(session), name
        assert not model.requests
        assert not await at.session(session).root.history()


async def test_what_a_prompt_did_to_files_is_shown_and_taken_back(tmp_path: Path) -> None:
    """26-1: an ACP session has checkpoints, and /undo and /diff, which no model sees."""
    need("bubblewrap")
    write = call("shell", {"command": ["sh", "-c", "echo '```two' > a; echo new > b"]})
    (tmp_path / "a").write_text("one\n")
    settings = scripted(write, "done", "I see", checkpoints=True, approval_policy="never")
    async with editor_stage(settings, tmp_path) as at:
        session = await at.new()

        async def answer(text: str) -> str:
            at.editor.updates.clear()
            assert (await at.prompt(session, text)).stop_reason == "end_turn"
            return at.editor.said(session)

        assert "there is nothing to undo" in await answer("/undo")
        await answer("write")
        assert "````diff\n" in (shown := await answer("/diff"))
        assert "+```two" in shown
        assert "- a changes back\n- b goes\n" in await answer("/undo")
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]
        assert "to which checkpoint" in await answer("/undo to")
        done = await answer("/undo yes")
        assert "- a changed back\n- b is gone\n" in done
        assert (os.listdir(tmp_path), (tmp_path / "a").read_text()) == (["a"], "one\n")
        assert "b came back" in await answer(done.split("- ")[-1].removesuffix(" takes this back"))
        await answer("and now?")
        model = settings.model
        assert isinstance(model, ScriptedModel)
        sent = str(model.requests[-1].request.chunks)
        assert "files_restored" in sent
        assert "/undo" not in sent


async def test_a_command_that_cannot_be_done_says_why_and_changes_nothing(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    async with editor_stage(scripted("hi"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "/mode danger-full-access")
        assert "must be one of read-only, workspace-write" in at.editor.said(session)
        await at.prompt(session, "/model nobody/knows")
        assert "nobody" in at.editor.said(session)
        assert (await at.session(session).root.context()).policy["sandbox"] == "workspace-write"


async def test_choosing_by_command_is_told_like_any_other_choice(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    (tmp_path / "other.json").write_text('["another voice"]')
    async with editor_stage(scripted("hi"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "/mode read-only")
        assert at.editor.of(session, "current_mode_update")[-1]["currentModeId"] == "read-only"
        await at.prompt(session, f"/model scripted/{tmp_path}/other.json")
        assert "answers from now on" in at.editor.said(session)
        updates = at.editor.of(session, "config_option_update")[-1]["configOptions"]
        assert updates[1]["currentValue"] == f"scripted/{tmp_path}/other.json"


async def test_compacting_is_done_by_the_model_and_can_be_cancelled(tmp_path: Path) -> None:
    """Issue 10 (4): /compact is a task like any other."""
    silence = Silence()
    script = scripted("word " * 400, "word " * 400, say("never", gate=silence), "In short: words.")
    async with editor_stage(script, tmp_path) as at:
        session = await at.new()
        for number in range(2):
            await at.prompt(session, f"talk {number}")
        compacting = asyncio.create_task(at.prompt(session, "/compact"))
        await silence.reached()
        await at.conn.cancel(session_id=session)
        assert (await compacting).stop_reason == "cancelled"
        at.editor.updates.clear()
        assert (await at.prompt(session, "/compact")).stop_reason == "end_turn"
        assert "The older part was summarised" in at.editor.said(session)


def test_what_only_looks_like_a_command_is_for_the_model() -> None:
    """Issue 10 (4)."""
    for text in ("/usr/bin is full", "/ help", "help", "//help", "/helpme", ""):
        assert find_slash_command(text) is None
    found = find_slash_command("  /model  openai/gpt-5.2 ")
    assert found is not None
    assert found == (SLASH_COMMANDS["model"], "openai/gpt-5.2")


def test_the_page_lists_every_command() -> None:
    """docs/acp.md."""
    rows = table("acp.md", "command", "what it does")
    assert [names(row[0])[0] for row in rows] == [f"/{name}" for name in SLASH_COMMANDS]
    assert all(row[1].startswith(command.about) for row, command in zip(rows, SLASH_COMMANDS.values(), strict=True))
