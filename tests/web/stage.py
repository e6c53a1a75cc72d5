"""A server with a scripted model, and pages that look at it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel
from tests.server.served import TOKEN, Place, served
from tests.web.browser import Browser, Page


class Stage:
    """A running server and the browser that opens pages of it."""

    def __init__(self, place: Place, browser: Browser) -> None:
        self.place = place
        self._browser = browser

    @property
    def url(self) -> str:
        """Where the page is, without the key."""
        return f"http://127.0.0.1:{self.place.port}/"

    @asynccontextmanager
    async def page(
        self, address: str = "", *, token: str | None = TOKEN, reports: str = "nothing", **options: Any
    ) -> AsyncIterator[Page]:
        """The page, opened with the key. In the end nothing in it may have failed or broken its policy.

        `reports`: what a frame in it, which has a policy of its own, may report.
        """
        options.setdefault("viewport", {"width": 1440, "height": 900})
        async with self._browser.page(**options) as page:
            key = "" if token is None else f"#token={token}"
            await page.open(f"{self.url}{key}{address}")
            yield page
            seen = await page.seen()
            assert not seen["errors"], seen["errors"]
            broken = [
                line for line in seen["console"] if "Content Security Policy" in line and not re.search(reports, line)
            ]
            assert not broken, broken

    async def start_session(self, page: Page) -> str:
        """A new session, begun in the page; its id."""
        await page.click("main >> text=New session")
        await page.sees("#composer")
        return await page.run("location.hash.split('/')[2]")


@asynccontextmanager
async def staged(browser: Browser, model: ScriptedModel, **settings: Any) -> AsyncIterator[Stage]:
    """A server for the block."""
    async with served(Settings(model=model, **settings)) as place:
        yield Stage(place, browser)
