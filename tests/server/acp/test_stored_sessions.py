"""Stored sessions, page by page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.server.acp import agent
from tertulia.server.acp.agent import list_page
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.testing import ScriptedModel, call
from tests.server.acp_editor import editor_stage


async def stored(cwd: Path, text: str, **settings: str) -> str:
    model = ScriptedModel(["ok"])
    async with Session.start(Settings(model=model, cwd=str(cwd), **settings)) as session:
        await session.root.message(text)
        return session.id


async def test_pages_follow_one_another_without_a_gap_or_a_repetition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 10 (4): session/list with a cursor; what is used meanwhile moves to the front and hurts nothing."""
    monkeypatch.setattr(agent, "PAGE", 2)
    home = current_environment().home
    made = [await stored(tmp_path, f"question {n}") for n in range(5)]
    seen: list[str] = []
    cursor = None
    for size in (2, 2, 1):
        page = list_page(home, None, cursor)
        assert len(page["sessions"]) == size
        seen += [entry["sessionId"] for entry in page["sessions"]]
        cursor = page.get("nextCursor")
        await stored(tmp_path, "one more")
    assert cursor is None
    assert seen == made[::-1]


async def test_what_has_no_text_or_lies_elsewhere_is_not_listed(tmp_path: Path) -> None:
    """Issue 10 (4): a list says what each session is about; without text there is nothing to say."""
    home = current_environment().home
    await stored(tmp_path, "secret", storage_policy="headers_only")
    seen = await stored(tmp_path, "open")
    assert [entry["sessionId"] for entry in list_page(home, None, None)["sessions"]] == [seen]
    assert list_page(home, str(tmp_path / "elsewhere"), None) == {"sessions": []}
    with pytest.raises(InvalidParamsError, match="cursor"):
        list_page(home, None, "nonsense")
    with pytest.raises(InvalidParamsError, match="cwd"):
        list_page(home, "/with\0nul", None)


async def test_what_was_recorded_of_files_goes_with_the_session(tmp_path: Path) -> None:
    """Issue 10 (4): session/delete leaves no checkpoint of a deleted session."""
    write = call("shell", {"command": ["sh", "-c", "echo two > a"]}, "c1")
    model = ScriptedModel([write, "done"])
    settings = Settings(model=model, checkpoints=True, approval_policy="never", sandbox="danger_full_access")
    async with editor_stage(settings, tmp_path) as at:
        session = await at.new()
        await at.prompt(session, "write it")
        assert (tmp_path / "a").exists()
        await at.raw("session/close", {"sessionId": session})
        (recorded,) = (current_environment().home / "checkpoints").glob("*/windows.json")
        assert session in recorded.read_text()
        await at.raw("session/delete", {"sessionId": session})
        assert session not in recorded.read_text()
