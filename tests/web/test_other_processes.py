"""A session that another process holds, on the page: listed as elsewhere, its question read and answered (S001-34)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tertulia.testing import ScriptedModel
from tests.server.sockets.gated_exec import gated_exec
from tests.web.browser import Browser
from tests.web.stage import staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


async def test_an_exec_of_another_process_is_answered_from_the_page(browser: Browser, tmp_path: Path) -> None:
    """Issue 23: the page reaches it through the server, which holds no session itself."""
    async with (
        staged(browser, ScriptedModel([])) as stage,
        gated_exec(tmp_path / "work") as running,
        stage.page() as page,
    ):
        await page.follows(running.session_id)
        await page.click(".session-button")
        await page.sees(".session-choice:has-text('in exec')")
        await page.press("Escape")
        running.open_gate()
        await page.sees(".card >> text=touch made")
        assert not running.made
        await page.click("text=Allow once")
        code, printed = await running.end()
        assert (code, running.made) == (0, True), printed
        await page.sees("text=No question waits")
        assert not stage.place.host.sessions
