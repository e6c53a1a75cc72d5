"""What a message did to files, in the browser: shown, undone, and brought back with a fork (26-1)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import ScriptedModel, call
from tests.web.browser import Browser, Page
from tests.web.stage import Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PICTURES = os.environ.get("TERTULIA_PICTURES")
"""A folder in which the pictures are left."""


async def picture(page: Page, name: str) -> None:
    if PICTURES:
        await page.call("screenshot", {"path": str(Path(PICTURES, f"{name}.png"))})


HAS_ONE = "document.querySelector('section[aria-label=Undo]').innerText"


def write(text: str) -> list[Any]:
    return [call("shell", {"command": ["sh", "-c", f"echo {text} > a; echo {text} > {text}"]}), f"wrote {text}"]


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


async def say(page: Page, text: str) -> None:
    await page.fill("#composer", text)
    await page.press("Enter")
    await page.sees(f".assistant >> text=wrote {text}")
    await page.sees_no("text=Stop")


def stage(browser: Browser, folder: Path, *texts: str) -> Any:
    model = ScriptedModel([*(reply for text in texts for reply in write(text)), "In the copy."])
    fields = {"cwd": folder, "checkpoints": True, "approval_policy": "never", "sandbox": "danger-full-access"}
    return staged(browser, model, **fields)


async def panel(own: Stage, page: Page) -> None:
    await own.start_session(page)
    await page.click("role=tab[name='Files']")
    await page.sees("text=there is nothing to undo")


async def test_the_files_of_a_message_are_shown_and_taken_back_after_a_yes(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine\n")
    async with stage(browser, tmp_path, "one") as own, own.page() as page:
        await panel(own, page)
        await say(page, "one")
        await page.sees(".diff >> text=mine")
        await picture(page, "files-1-diff")
        await page.click("text=Undo…")
        await page.sees("section[aria-label=Undo] >> text=a changes back")
        await page.sees("section[aria-label=Undo] >> text=one goes")
        await picture(page, "files-2-plan")
        assert files(tmp_path) == {"a": "one", "one": "one"}
        await page.click("text=Leave them")
        await page.sees_no("section[aria-label=Undo]")
        (tmp_path / "one").write_text("by the user\n")
        await page.click("text=Undo…")
        await page.sees("text=left: one: changed since, and not by this conversation")
        await page.click("text=Undo these")
        await page.sees("text=a changed back")
        await picture(page, "files-3-undone")
        assert files(tmp_path) == {"a": "mine", "one": "by the user"}
        await page.click("text=Take this back")
        await page.until(f"{HAS_ONE}.includes('a changed back') && !{HAS_ONE}.includes('left')")
        assert files(tmp_path) == {"a": "one", "one": "by the user"}
        await page.click("role=button[name='Close']")
        await page.click("text=Undo…")
        await page.click("text=Undo all, also what others changed")
        await page.sees("text=one is gone")
        assert files(tmp_path) == {"a": "mine"}


async def test_a_fork_offers_to_bring_the_files_back_too(browser: Browser, tmp_path: Path) -> None:
    """Not before a person says so, and both ways are there."""
    async with stage(browser, tmp_path, "one", "two") as own, own.page() as page:
        await own.start_session(page)
        await say(page, "one")
        await say(page, "two")
        after = {"a": "two", "one": "one", "two": "two"}
        first = ".assistant:has-text('wrote one')"
        await page.call("hover", first)
        await page.click(f"{first} >> text=Fork here")
        await page.sees("[aria-label='Fork here'] >> text=Changed since then: a, two")
        await picture(page, "fork-1-offer")
        await page.click("text=Leave it")
        await page.sees_no("[aria-label='Fork here']")
        assert (files(tmp_path), await page.run("document.querySelectorAll('.row').length")) == (after, 1)
        await page.call("hover", first)
        await page.click(f"{first} >> text=Fork here")
        await page.click("text=Fork and bring the files back")
        await page.until("document.querySelectorAll('.row').length === 2")
        await page.sees("text=2 files are as they were then")
        await picture(page, "fork-2-back")
        assert files(tmp_path) == {"a": "one", "one": "one"}
        await page.sees(".row:nth-child(2).chosen")
        await page.fill("#composer", "Three")
        await page.press("Enter")
        await page.sees(".assistant >> text=In the copy.")
