"""Draws every view of the page, dark and light, wide and on a phone: `python -m tests.web.pictures FOLDER`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.web.browser import Browser, Page, started_browser, why_not
from tests.web.views import PHONE, Shown, full_shop, views

DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150))))"


async def draw(browser: Browser, folder: Path) -> None:
    """Every view."""
    with TemporaryDirectory() as place:
        basket = Path(place, "basket")
        basket.mkdir()
        async with full_shop(browser, basket) as (stage, page, shown):
            await _draw_all(page, shown, folder, "web")
            async with stage.page(f"&{shown.basket}", deviceScaleFactor=2, **PHONE) as phone:
                await _draw_all(phone, shown, folder, "web-phone")
            async with stage.page(token=None) as refused:
                await refused.sees("text=This page needs its key")
                await refused.screenshot(folder / "web-refused-light.png")


async def _draw_all(page: Page, shown: Shown, folder: Path, kind: str) -> None:
    async for name in views(page, shown):
        for colours in ("dark", "light"):
            await page.call("emulateMedia", {"colorScheme": colours})
            await page.run(DRAWN)
            await page.screenshot(folder / f"{kind}-{name}-{colours}.png")


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
