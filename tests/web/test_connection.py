"""A page loses nothing: the connection breaks, it was too slow, it was in the background, the server starts anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tertulia.scheduler.nursery import Nursery
from tertulia.server.http.server import HttpServer, listen
from tertulia.server.web_app import WebApp
from tertulia.session.host import Host
from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel
from tests.server.served import TOKEN, Place
from tests.web.browser import Browser
from tests.web.stage import Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
LONG = " ".join(f"word{number}" for number in range(300))
APP = "import('/app_state.js').then(({ app }) => %s)"
HIDE = """(() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => %s });
  document.dispatchEvent(new Event("visibilitychange"));
})()"""
COUNT_PASSING = """(async () => {
  while (!app.inBackground || app.selected().state !== "live") await new Promise((done) => setTimeout(done, 30));
  await app.selected().load();
  [window.passing, window.durable] = [0, 0];
  const notified = app.link.onNotification;
  app.link.onNotification = (method, params) => {
    if (method === "event") window[params.seq === null ? "passing" : "durable"] += 1;
    notified(method, params);
  };
})()"""
MESSAGE = "session_id: '%s', conversation_id: 'root', text: 'Say a lot.'"


async def _say(page: Any, text: str) -> None:
    await page.fill("#composer", text)
    await page.press("Enter")


async def test_a_connection_that_breaks_in_the_middle_of_an_answer_loses_nothing(browser: Browser) -> None:
    model = ScriptedModel([{"text": LONG, "delay_between_ms": 5}])
    async with staged(browser, model) as stage, stage.page() as page:
        await stage.start_session(page)
        await _say(page, "Say a lot.")
        await page.sees(".assistant >> text=word3")
        await page.run(APP % "app.link.socket.close()")
        await page.sees("text=server away")
        await page.sees("text=connected")
        await page.sees(".task-end")
        assert await page.text(".assistant .markdown") == LONG
        assert await page.run("document.querySelectorAll('.user').length") == 1


async def test_a_page_that_was_too_slow_takes_a_new_snapshot(browser: Browser) -> None:
    async with staged(browser, ScriptedModel(["Hello."])) as stage, stage.page() as page:
        await stage.start_session(page)
        await _say(page, "Hi")
        await page.sees(".task-end")
        lagged = (
            "{ seq: null, epoch: 0, type: 'subscriber_lagged', data: { from_seq: 1, to_seq: 2, dropped_deltas: 0 } }"
        )
        await page.run(APP % f"{{ window.before = app.selected().board; app.selected().take({lagged}) }}")
        await page.run(
            "async (_) => { const { app } = await import('/app_state.js');"
            " while (app.selected().board === window.before) await new Promise((done) => setTimeout(done, 20)); }",
            0,
        )
        assert await page.text(".assistant .markdown") == "Hello."
        assert await page.run("document.querySelectorAll('.notice').length") == 0


@asynccontextmanager
async def _server(port: int, model: ScriptedModel) -> AsyncIterator[Place]:
    """A server on this port, for as long as the block takes."""
    host, nursery = Host(Settings(model=model)), Nursery()
    web = WebApp(host, TOKEN)
    server = HttpServer(web.app)
    with listen(port) as listening:
        serving = nursery.start(server.serve(listening), "http")
        try:
            yield Place(listening.getsockname()[1], host, web)
        finally:
            await host.close()
            server.stop()
            await web.close(2)
            await serving
            await nursery.close(2)


async def test_a_restart_of_the_server_is_survived_and_the_session_is_brought_back(browser: Browser) -> None:
    async with _server(0, ScriptedModel(["Before."])) as first:
        stage = Stage(first, browser)
        opened = stage.page()
        page = await opened.__aenter__()
        await stage.start_session(page)
        await _say(page, "Hi")
        await page.sees(".task-end")
    await page.sees("text=server away")
    assert await page.text(".assistant .markdown") == "Before."
    async with _server(first.port, ScriptedModel(["After."])):
        await page.click("text=Bring it back")
        await page.sees_no("text=Bring it back")
        await _say(page, "Again")
        await page.sees(".assistant >> text=After.")
        assert await page.run("document.querySelectorAll('.assistant').length") == 2
        await opened.__aexit__(None, None, None)


async def test_a_page_in_the_background_hears_only_of_what_stays_and_catches_up(browser: Browser) -> None:
    """Issue 23 (6): no pieces of answers are sent to a page that is not seen; when it is, nothing is missing."""
    model = ScriptedModel([{"text": LONG, "delay_between_ms": 1}])
    async with staged(browser, model) as stage, stage.page() as page:
        session = await stage.start_session(page)
        await page.run(HIDE % "true")
        await page.run(APP % COUNT_PASSING)
        await page.run(APP % f"app.link.call('conversation/message', {{ {MESSAGE % session} }})")
        await page.run(APP % "app.selected().state")
        assert await page.run("window.passing") == 0
        assert await page.run("window.durable") > 0
        await page.run(HIDE % "false")
        await page.sees(".task-end")
        assert await page.text(".assistant .markdown") == LONG
