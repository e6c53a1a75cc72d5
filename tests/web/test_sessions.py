"""All sessions of the machine in one place: running, stored, searched; a stored one is brought back (S001-34)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.session.settings.settings import current_environment
from tertulia.testing import ScriptedModel, call
from tests.web.browser import Browser
from tests.web.stage import staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def stored(session_id: str) -> bool:
    """Whether anything of it is stored."""
    return any((current_environment().home / "sessions").glob(f"{session_id}*"))


async def test_a_stored_session_is_found_read_deleted_and_brought_back(browser: Browser) -> None:
    model = ScriptedModel(["The first answer.", "Another answer.", "It goes on."])
    async with staged(browser, model) as stage, stage.page() as page:
        for text in ("Talk about olives", "Talk about bread"):
            session = await stage.place.host.start()
            await session.root.message(text)
            await stage.place.host.close_session(session)
        bread = session.id
        running = await stage.place.host.start()
        await page.follows(running.id)
        await page.click(".session-button")
        await page.click("text=All sessions")
        await page.sees("section[aria-label='Running here'] li")
        await page.until("document.querySelectorAll('section[aria-label=Stored] li').length === 2")
        await page.click("[aria-label='Delete…: Talk about bread']")
        await page.click("text=Keep it")
        await page.click("[aria-label='Delete…: Talk about bread']")
        await page.run(f"location.hash = '#/s/{bread}'")
        await page.sees(".assistant >> text=Another answer.")
        await page.click("text=Delete…")
        await page.sees("text=Delete it for good?")
        assert stored(bread)
        await page.click("role=button[name='Delete']")
        await page.sees("text=The session is deleted.")
        await page.until("document.querySelectorAll('section[aria-label=Stored] li').length === 1")
        assert not stored(bread)
        await page.fill("[aria-label='Search sessions']", "olives")
        await page.click(".session-row:has-text('Talk about olives')")
        await page.sees("text=This is its record.")
        await page.sees(".assistant >> text=The first answer.")
        assert len(stage.place.host) == 1, "reading a record starts nothing"
        await page.click("text=Bring it back")
        await page.sees_no("text=This is its record.")
        await page.fill("#composer", "Go on")
        await page.press("Enter")
        await page.sees(".assistant >> text=It goes on.")


async def test_a_question_of_another_session_is_answered_from_here(browser: Browser, tmp_path: Path) -> None:
    model = ScriptedModel([call("shell", {"command": ["touch", "made"]}), "Made."])
    async with staged(browser, model, cwd=tmp_path, approval_policy="untrusted") as stage, stage.page() as page:
        await stage.start_session(page)
        other = await stage.place.host.start()
        await page.follows(other.id)
        async with stage.place.socket() as client:
            await client.call("initialize", observe=True)
            where = {"session_id": other.id, "conversation_id": "root"}
            sent = await client.send("conversation/message", text="Go", **where)
            await page.sees(".card >> text=in Go")
            await page.until("document.title === '(1) Tertulia'")
            await page.click("text=Allow once")
            await page.sees("text=No question waits")
            assert (await client.answer(sent))["result"]["last_assistant_message"] == "Made."
    assert (tmp_path / "made").exists()
