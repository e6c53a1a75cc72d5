"""Draws every view of the page: `python -m tests.web.pictures FOLDER`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.web.browser import Browser, Page, started_browser, why_not
from tests.web.scene import ask_about_the_basket, ask_in_another_session, shop
from tests.web.stage import Stage

DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


async def draw(browser: Browser, folder: Path) -> None:
    """Every view, dark and light, wide and narrow."""
    with TemporaryDirectory() as place:
        basket = Path(place, "basket")
        basket.mkdir()
        async with shop(browser, basket) as stage:
            async with stage.page(viewport=DESKTOP, colorScheme="dark") as page:
                await ask_about_the_basket(stage, page)
                await ask_in_another_session(stage, page)
                await page.sees(".card:nth-of-type(2)")
                address = (await page.run("location.hash"))[1:]
                await _panels(page, folder)
            await _elsewhere(stage, address, folder)


async def _panels(page: Page, folder: Path) -> None:
    await _shot(page, folder / "web-approvals.png")
    for name in await page.run("[...document.querySelectorAll('[role=tab]')].map((one) => one.id)"):
        await page.click(f"#{name}")
        await _shot(page, folder / f"web-{name.removeprefix('choose-')}.png")
    await page.click("#choose-approvals")
    await page.click("text=Weave")
    await page.run("document.querySelector('.transcript').scrollTop = 0")
    await _shot(page, folder / "web-weave.png")
    await page.click("text=Weave")
    await page.run("location.hash = location.hash.replace(/[?].*$/, '') + '?n=40&panel=prompt'")
    await page.sees("text=rebuilt, byte for byte what was sent")
    await page.sees("role=group[name='Replay']")
    await _shot(page, folder / "web-replay.png")
    await page.click("text=Leave the replay")
    await page.click(".session-button")
    await _shot(page, folder / "web-menu.png")
    await page.click("text=All sessions")
    await page.sees(".session-row")
    await _shot(page, folder / "web-sessions.png")
    await page.click(".session-button")
    await page.click(".session-choice:has-text('Tidy')")
    await page.click(".row:has-text('ada')")
    for name in ("rights", "canvas"):
        await page.click(f"#choose-{name}")
        await page.run("new Promise((done) => setTimeout(done, 500))")
        await _shot(page, folder / f"web-{name}.png")


async def _elsewhere(stage: Stage, address: str, folder: Path) -> None:
    async with stage.page(f"&{address}", viewport=DESKTOP, colorScheme="light") as page:
        await page.sees(".card .diff")
        await _shot(page, folder / "web-light.png")
    for colours in ("dark", "light"):
        options = {
            "viewport": PHONE,
            "colorScheme": colours,
            "deviceScaleFactor": 2,
            "isMobile": True,
            "hasTouch": True,
        }
        async with stage.page(f"&{address}", **options) as page:
            await page.sees(".question.open")
            for number in (2, 1, 3):
                await page.click(f".pages button:nth-child({number})")
                await _shot(page, folder / f"web-phone-{colours}-{number}.png")


async def _shot(page: Page, path: Path) -> None:
    await page.run(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150))))"
    )
    await page.screenshot(path)


def main() -> None:
    """Draw them, where there is a browser."""
    folder = Path(sys.argv[1])
    if (reason := why_not()) is not None:
        sys.exit(f"no pictures of the page: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as home, started_browser() as browser:
        os.environ["TERTULIA_HOME"] = home
        asyncio.run(draw(browser, folder))


if __name__ == "__main__":
    main()
