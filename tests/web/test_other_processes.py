"""A session that another process holds, on the page: listed as elsewhere, its question read and answered (S001-34)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from time import monotonic

import pytest

from tertulia.testing import ScriptedModel
from tests.deadlines import HANG_S
from tests.server.sockets.gated_exec import gated_exec
from tests.terminal.conftest import tmux
from tests.terminal.real_terminal import Tmux
from tests.web.browser import Browser
from tests.web.stage import staged

__all__ = ["tmux"]
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


def _press_until_answered(tmux: Tmux) -> None:
    """A key that comes right after the question counts as typed by accident, so it takes several."""
    deadline = monotonic() + HANG_S
    while "yes, once" in tmux.screen:
        assert monotonic() < deadline, tmux.screen
        tmux.type("y")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
async def test_two_pages_and_a_terminal_race_and_the_first_answer_counts_for_all(
    browser: Browser, tmux: Tmux, tmp_path: Path
) -> None:
    """Issue 23, X-48: one of the three answers an `exec` of a fourth process, and all say whose it was."""
    async with (
        staged(browser, ScriptedModel([])) as stage,
        gated_exec(tmp_path / "work") as running,
        stage.page(f"&/s/{running.session_id}") as first,
        stage.page(f"&/s/{running.session_id}") as second,
    ):
        home = os.environ["TERTULIA_HOME"]
        tmux.type(f"TERTULIA_HOME={home} {sys.executable} -m tertulia attach {running.session_id}", "Enter")
        await asyncio.to_thread(tmux.until, "cat gate")
        for page in (first, second):
            await page.follows(running.session_id)
        running.open_gate()
        await first.sees(".card .yes-button:enabled")
        await second.sees(".card .yes-button:enabled")
        await asyncio.to_thread(tmux.until, "asks to run a command")
        tmux.type("F6")
        await asyncio.to_thread(tmux.until, "yes, once")
        await asyncio.gather(
            first.run("document.querySelector('.yes-button')?.click()"),
            second.run("document.querySelector('.no-button')?.click()"),
            asyncio.to_thread(_press_until_answered, tmux),
        )
        await first.sees(".answered li")
        await second.sees(".answered li")
        answer = await first.text(".answered li .dim")
        assert answer == await second.text(".answered li .dim")
        assert answer.split(" by ")[0] in ("allowed once", "denied")
        await asyncio.to_thread(tmux.until, answer)
        await running.end()
        assert running.made is answer.startswith("allowed")
