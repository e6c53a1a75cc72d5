"""Every view of the page, one after the other: for pictures, and for looking at each with a tool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel
from tests.contract.serving_tools import table
from tests.deadlines import HANG_S
from tests.web.browser import Browser, Page
from tests.web.scene import ask_about_the_basket, ask_in_another_session, shop, tell
from tests.web.stage import Stage

PHONE = {"viewport": {"width": 390, "height": 844}, "isMobile": True, "hasTouch": True}
PANELS = {
    "approvals": ".card .diff",
    "rights": ".facts-table tbody tr",
    "prompt": ".verdict.is-same",
    "canvas": ".calm",
    "files": ".empty",
    "mcp": ".server >> text=ready",
    "numbers": ".token-bars",
}
"""What each panel shows of the basket's session."""
CALL = "import('/app_state.js').then(({ app }) => app.%s)"


@dataclass(frozen=True)
class Shown:
    """Where in the page the sessions are."""

    basket: str
    form: str
    ada: str
    stored: str
    unsaid: str


@asynccontextmanager
async def full_shop(browser: Browser, folder: Path, **options: Any) -> AsyncIterator[tuple[Stage, Page, Shown]]:
    """The shop, a chain in it that asks, an agent that drew, a form of an MCP server, and sessions that are stored."""
    servers = {"a": table(required=True, startup_timeout_sec=HANG_S)}
    async with shop(browser, folder, mcp_servers=servers) as stage:
        stored, unsaid = await _store(stage, "full"), await _store(stage, "headers_only")
        async with stage.page(**options) as page:
            await ask_about_the_basket(stage, page)
            basket = (await page.run("location.hash.split('?')[0]"))[1:]
            ada = await ask_in_another_session(stage, page)
            form = await stage.place.host.start()
            await page.follows(form.id)
            await tell(stage, form.id, "Ask me.")
            await page.sees(".card:nth-of-type(3)")
            yield stage, page, Shown(basket, f"/s/{form.id}", ada, stored, unsaid)


async def _store(stage: Stage, policy: str) -> str:
    settings = Settings(model=ScriptedModel(["A *short* answer."]), storage_policy=policy)
    session = await stage.place.host.start(settings)
    await session.root.message("What is a tertulia?")
    await session.close()
    return f"/s/{session.id}"


async def views(page: Page, shown: Shown) -> AsyncIterator[str]:
    """The name of each view, while the page shows it."""
    for panel, sign in PANELS.items():
        await _go(page, f"{shown.basket}?panel={panel}&page=panel", f"#panel {sign}")
        yield panel
    await _go(page, f"{shown.ada}?panel=canvas&page=panel", ".canvas iframe")
    yield "canvas-drawn"
    await _go(page, f"{shown.form}?page=panel", ".card .field")
    yield "form"
    await _go(page, f"{shown.basket}?page=conversations", ".side, .pages")
    yield "conversations"
    await _go(page, shown.basket, ".question.open")
    yield "transcript"
    for name, sign in (("Weave", ".whose"), ("Finding", ".find"), ("Helping", "dialog[open]")):
        await page.run(CALL % f"set{name}(true)")
        await page.sees(sign)
        yield name.lower()
        await page.run(CALL % f"set{name}(false)")
        await page.sees_no(sign)
    await page.click(".session-button")
    await page.sees(".session-choice")
    yield "menu"
    await page.press("Escape")
    await _go(page, f"{shown.basket}?n=40", ".scrubber")
    yield "replay"
    await _go(page, "/", ".session-row")
    yield "sessions"
    await page.fill("input[type=search]", "tertulia")
    await page.sees("section[aria-label='Found in texts'] .excerpt")
    yield "search"
    await _go(page, shown.stored, ".banner >> text=Bring it back")
    yield "stored"
    await page.click("text=Delete…")
    await page.sees("text=Keep it")
    yield "delete"
    await page.click("text=Keep it")
    await _go(page, shown.unsaid, ".banner >> text=headers_only")
    yield "not-stored"
    await _go(page, "/s/nothing", ".banner >> text=there is no session")
    yield "gone"


async def _go(page: Page, address: str, sign: str) -> None:
    await page.run(f"location.hash = '#{address}'")
    await page.sees(sign)
