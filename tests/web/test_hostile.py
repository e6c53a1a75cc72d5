"""What models, tools and agents write stays text, and a canvas can do nothing (D14, D15, S002-44)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from tertulia.testing import ScriptedModel, call
from tests.web.browser import Browser, Page
from tests.web.stage import Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PATTERN = """<script>top.hacked = 1</script>
<img src="{elsewhere}/a.png" onerror="top.hacked = 2">
<svg onload="top.hacked = 3"><a xlink:href="javascript:top.hacked=4"><text>x</text></a></svg>
<a href="javascript:top.hacked=5" id="link">click</a>
<form action="{elsewhere}/"><button id="send">send</button></form>
<iframe src="{elsewhere}/"></iframe><base href="{elsewhere}/">
<meta http-equiv="refresh" content="0;url={elsewhere}/">
<style>@import "{elsewhere}/a.css"; body { background: url({elsewhere}/b.png) }</style>
<b id="plain">plain</b>"""
UNSEEN = "\u202eexe.\u200b\x1b[2J"
MORE = """

[a link](javascript:top.hacked=6) [data](data:text/html,<script>top.hacked=7</script>) ![picture]({elsewhere}/c.png)

> <details open ontoggle="top.hacked=8">
"""
ALLOWED = {
    *("a", "blockquote", "br", "button", "code", "del", "div", "em", "h3", "h4", "h5", "hr", "li", "ol", "p", "pre"),
    *("span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


class Elsewhere:
    """A place that no page may talk to."""

    def __init__(self, address: str) -> None:
        self.marks = PATTERN.replace("{elsewhere}", address)
        self.text = self.marks + MORE.replace("{elsewhere}", address)
        self.connections = 0


@asynccontextmanager
async def elsewhere() -> AsyncIterator[Elsewhere]:
    """It listens during the block. In the end it has heard of no page."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place.connections += 1
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.2", 0)
    place = Elsewhere("http://{}:{}".format(*server.sockets[0].getsockname()))
    async with server:
        yield place
    assert place.connections == 0


async def _check_requests(stage: Stage, page: Page) -> None:
    """No request went elsewhere, and no script of others ran."""
    seen = await page.seen()
    places = {urlsplit(url).netloc for url in seen["requests"] if not url.startswith(("data:", "about:"))}
    assert places == {urlsplit(stage.url).netloc}
    assert await page.run("window.hacked ?? null") is None


async def test_hostile_texts_stay_text_and_no_request_leaves_the_origin(browser: Browser) -> None:
    """A22, B10, D14: also what would steer a terminal, turn the direction of writing, or not be seen is shown."""
    async with elsewhere() as place:
        model = ScriptedModel([call("shell", {"command": ["printf", "%s", UNSEEN + place.marks]}), place.text])
        async with staged(browser, model, approval_policy="never") as stage, stage.page() as page:
            await stage.start_session(page)
            await page.fill("#composer", place.marks)
            await page.press("Enter")
            await page.sees(".task-end")
            tags = "[...document.querySelectorAll('.markdown *')].map((one) => one.tagName.toLowerCase())"
            assert set(await page.run(tags)) <= ALLOWED
            assert await page.run("document.querySelectorAll('.transcript a').length") == 0
            assert "top.hacked = 1" in await page.text(".assistant")
            for shown in (".output pre", ".headline"):
                assert "⟨U+202E⟩exe.⟨U+200B⟩⟨U+001B⟩[2J" in await page.text(shown)
            await _check_requests(stage, page)


FORBIDDEN = "document.querySelectorAll('form, iframe, base, meta[http-equiv], a[href], img[onerror]:not([src])').length"
PARENT = "(() => { try { return parent.document.title } catch (error) { return error.name } })()"


async def test_a_hostile_canvas_is_inert(browser: Browser) -> None:
    async with elsewhere() as place:
        model = ScriptedModel([call("canvas_update", {"html": place.marks, "title": "hostile"}), "Drawn."])
        # The frame reports what its policy forbids; the page itself has nothing to report.
        async with staged(browser, model) as stage, stage.page(reports="sha256-|img-src data:|style-src") as page:
            session = await stage.place.host.start()
            agent = await session.open(agent={"name": "ada", "archetype": "employee"})
            await agent.message("Draw.")
            await page.follows(session.id)
            await page.click("#choose-canvas")
            await page.sees(".canvas iframe")
            await page.call("_frame_sees", "#plain")
            assert await page.call("_frame_runs", FORBIDDEN) == 0
            assert await page.call("_frame_runs", PARENT) == "SecurityError"
            await page.call("_frame_runs", "document.querySelector('#link').click()")
            await _check_requests(stage, page)
