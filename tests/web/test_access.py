"""The page for people who see otherwise, use the keyboard, or hold a phone: axe finds nothing serious (S001-49)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import TOOLS, Browser, Page
from tests.web.scene import ask_about_the_basket, ask_in_another_session, shop

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PHONE = {"viewport": {"width": 390, "height": 844}, "isMobile": True, "hasTouch": True}
SMALL = """[...document.querySelectorAll('button, select, input:not([type=radio]):not([type=checkbox]), textarea')]
  .filter((one) => one.offsetParent && one.getBoundingClientRect().height < 43.5)
  .map((one) => one.outerHTML.slice(0, 120))"""


async def _findings(page: Page) -> list[str]:
    """What axe calls serious or worse."""
    await page.call("evaluate", (TOOLS / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8"))
    found: list[Any] = await page.run("axe.run(document, { iframes: false }).then((result) => result.violations)")
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


async def test_axe_finds_nothing_serious_in_dark_light_and_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    async with shop(browser, tmp_path) as stage, stage.page(colorScheme="dark") as page:
        await ask_about_the_basket(stage, page)
        await ask_in_another_session(stage, page)
        await page.sees(".card:nth-of-type(2)")
        assert await _findings(page) == []
        for name in await page.run("[...document.querySelectorAll('[role=tab]')].map((one) => one.id)"):
            await page.click(f"#{name}")
            assert await _findings(page) == [], name
        address = f"&{(await page.run('location.hash'))[1:].split('?')[0]}"
        async with stage.page(address, colorScheme="light") as light:
            await light.sees(".card .diff")
            assert await _findings(light) == []
        async with stage.page(address, colorScheme="dark", **PHONE) as phone:
            await phone.sees(".question.open")
            for number in (2, 1, 3):
                await phone.click(f".pages button:nth-child({number})")
                assert await _findings(phone) == []
                assert await phone.run(SMALL) == [], "targets for fingers"
                assert await phone.run("document.documentElement.scrollWidth") <= 390
            for place, shown in ((f"{address[1:]}?n=20", ".scrubber"), ("/", ".session-row")):
                await phone.run(f"location.hash = '#{place}'")
                await phone.sees(shown)
                assert await _findings(phone) == [], place
                assert await phone.run(SMALL) == [], place
                assert await phone.run("document.documentElement.scrollWidth") <= 390


async def test_the_keyboard_alone_leads_through_conversations_help_and_find(browser: Browser, tmp_path: Path) -> None:
    async with shop(browser, tmp_path) as stage, stage.page() as page:
        await ask_about_the_basket(stage, page)
        await page.run("document.activeElement.blur()")
        await page.press("j")
        await page.sees(".row.chosen:has-text('tester')")
        await page.press("k")
        await page.sees(".row.chosen:has-text('root')")
        await page.press("/")
        await page.sees(".find input")
        await page.fill(".find input", "Now the change")
        await page.sees(".cell.found:has-text('Now the change')")
        await page.press("Escape")
        await page.sees_no(".find input")
        await page.press("?")
        await page.sees("dialog.help[open]")
        await page.press("Escape")
        await page.sees_no("dialog.help[open]")
        await page.press("w")
        await page.sees(".whose:has-text('tester')")


async def test_the_page_says_what_a_command_would_meet_and_what_set_a_right(browser: Browser, tmp_path: Path) -> None:
    async with shop(browser, tmp_path) as stage, stage.page() as page:
        session_id = await stage.start_session(page)
        opened = await stage.place.host[session_id].open(title="greedy", sandbox="danger-full-access")
        await page.click(".row:has-text('greedy')")
        await page.click("#choose-rights")
        row = await page.text("tr.cut:has-text('sandbox')")
        assert "danger-full-access" in row
        assert "the session allows no more" in row
        await page.fill("#try-command", "rm -rf build")
        await page.press("Enter")
        await page.sees(".verdict.ask >> text=the approval policy is untrusted")
        assert await opened.history() == []
