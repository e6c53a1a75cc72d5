"""Stored sessions, page by page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.server.acp import agent
from tertulia.server.acp.agent import delete_session, list_page
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings, current_environment
from tertulia.testing import ScriptedModel


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


async def test_removing_is_for_good_and_twice_no_mistake(tmp_path: Path) -> None:
    """Issue 10 (4): session/delete."""
    home = current_environment().home
    gone = await stored(tmp_path, "hello")
    for id in (gone, gone, "no id at all"):
        delete_session(home, id)
    assert list_page(home, None, None) == {"sessions": []}
