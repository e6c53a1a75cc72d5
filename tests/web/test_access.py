"""The page for people who see otherwise, use the keyboard, or hold a phone: axe finds nothing serious (S001-49)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import TOOLS, Browser, Page
from tests.web.scene import ask_about_the_basket, shop
from tests.web.views import PHONE, Shown, full_shop, views

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
SMALL = """[...document.querySelectorAll('button, select, input:not([type=radio]):not([type=checkbox]), textarea')]
  .filter((one) => one.offsetParent && one.getBoundingClientRect().height < 43.5)
  .map((one) => one.outerHTML.slice(0, 120))"""


async def _findings(page: Page, rules: str = "") -> list[str]:
    """What axe calls serious or worse."""
    found: list[Any] = await page.run(
        f"axe.run(document, {{ iframes: false{rules} }}).then((found) => found.violations)"
    )
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


COLOURS = ", runOnly: ['color-contrast', 'link-in-text-block']"


async def test_axe_finds_nothing_serious_in_any_view_dark_light_and_on_a_phone(
    browser: Browser, tmp_path: Path
) -> None:
    async with full_shop(browser, tmp_path, colorScheme="dark") as (stage, page, shown):
        await _look_at_all(page, shown)
        async with stage.page(f"&{shown.basket}", colorScheme="light", **PHONE) as phone:
            await phone.sees(".question.open")
            await _look_at_all(phone, shown, fingers=True)


async def _look_at_all(page: Page, shown: Shown, *, fingers: bool = False) -> None:
    """At each view: with fingers also at what they touch, without at the colours of the other scheme."""
    await page.call("evaluate", (TOOLS / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8"))
    async for name in views(page, shown):
        assert await _findings(page) == [], name
        # What takes room or gives it back, as a find bar on a phone, is no step of a person away from the end.
        assert await page.run("document.querySelector('.to-end')") is None, name
        if fingers:
            assert await page.run(SMALL) == [], f"{name}: targets for fingers"
            assert await page.run("document.documentElement.scrollWidth") <= 390, name
            continue
        await page.call("emulateMedia", {"colorScheme": "light", "reducedMotion": "reduce"})
        assert await _findings(page, COLOURS) == [], f"{name}, light"
        await page.call("emulateMedia", {"colorScheme": "dark", "reducedMotion": "reduce"})


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


async def test_a_whole_session_is_led_by_the_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    """From the empty page: begin, ask, refuse with a sentence, look at panels, go back in time and out again."""
    async with shop(browser, tmp_path) as stage, stage.page() as page:
        await page.sees("main >> text=New session")
        await _move_focus(page, "button", "New session")
        await page.press("Enter")
        await page.sees("#composer")
        await _keys(page, "g", "c")
        await page.until("document.activeElement.id === 'composer'")
        await page.call("keyboard.type", "Tidy up.")
        await page.press("Enter")
        await page.sees(".card .no-button:enabled")
        await page.press("Tab")
        await _keys(page, "g", "a")
        await page.until("document.activeElement.matches('.card')")
        await _move_focus(page, ".reason", "")
        # Of a sentence that begins with the keys that answer, none does.
        await page.call("keyboard.type", "n y not the build.")
        assert await page.run("document.querySelectorAll('.card').length") == 1
        await page.press("Enter")
        await page.sees("text=No question waits.")
        assert "denied" in await page.text(".answered li")
        await page.sees(".task-end")
        await _move_focus(page, "[role=tab]", "Approvals")
        for panel in ("rights", "prompt"):
            await page.press("ArrowRight")
            await page.until(f"document.activeElement.id === 'choose-{panel}'")
        await _move_focus(page, "button", "Go there")
        await page.press("Enter")
        await page.sees(".scrubber")
        await page.run("document.activeElement.blur()")
        n = await page.run("location.hash")
        await page.press("ArrowRight")
        await page.until(f"location.hash !== '{n}'")
        await _move_focus(page, "button", "Leave the replay")
        await page.press("Enter")
        await page.sees("#composer")


async def _keys(page: Page, *keys: str) -> None:
    await page.run("document.activeElement.blur()")
    for key in keys:
        await page.press(key)


async def _move_focus(page: Page, selector: str, text: str) -> None:
    """Press Tab until the focus is there, as far as a person would."""
    at = "([place, text]) => [document.activeElement].some((one) => one.matches(place) && one.innerText.includes(text))"
    for _ in range(60):
        if await page.run(at, [selector, text]):
            assert await page.run("document.activeElement.matches(':focus-visible')"), "it can be seen where one is"
            return
        await page.press("Tab")
    pytest.fail(f"no way to {text or selector} by Tab")


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
