"""Slash commands: those that are ours are answered by us, everything else is for the model."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tertulia.server.acp.slash_commands import SLASH_COMMANDS, find_slash_command
from tertulia.testing import ScriptedModel, say
from tests.docs.pages import names, table
from tests.server.acp_editor import Silence, desk, scripted


async def test_commands_are_announced_and_answered_without_the_model(tmp_path: Path) -> None:
    """Issue 10 (4): available_commands_update; a prompt that starts with `/`."""
    settings = scripted("never asked")
    model = settings.model
    assert isinstance(model, ScriptedModel)
    async with desk(settings, tmp_path) as at:
        session = await at.new()
        told = await at.editor.until(lambda: at.editor.of(session, "available_commands_update"))
        assert [each["name"] for each in told[0]["availableCommands"]] == list(SLASH_COMMANDS)
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


async def test_a_command_that_cannot_be_done_says_why_and_changes_nothing(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    async with desk(scripted("hi"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "/mode danger-full-access")
        assert "must be one of read-only, workspace-write" in at.editor.said(session)
        await at.prompt(session, "/model nobody/knows")
        assert "nobody" in at.editor.said(session)
        assert (await at.session(session).root.context()).policy["sandbox"] == "workspace-write"


async def test_choosing_by_command_is_told_like_any_other_choice(tmp_path: Path) -> None:
    """Issue 10 (4)."""
    (tmp_path / "other.json").write_text('["another voice"]')
    async with desk(scripted("hi"), tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "/mode read-only")
        assert at.editor.of(session, "current_mode_update")[-1]["currentModeId"] == "read-only"
        await at.prompt(session, f"/model scripted/{tmp_path}/other.json")
        assert "answers from now on" in at.editor.said(session)
        told = at.editor.of(session, "config_option_update")[-1]["configOptions"]
        assert told[1]["currentValue"] == f"scripted/{tmp_path}/other.json"


async def test_compacting_is_done_by_the_model_and_can_be_cancelled(tmp_path: Path) -> None:
    """Issue 10 (4): /compact is a task like any other."""
    silence = Silence()
    script = scripted("word " * 400, "word " * 400, say("never", gate=silence), "In short: words.")
    async with desk(script, tmp_path) as at:
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
