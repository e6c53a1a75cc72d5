"""A replay of every kind of session: each step shows what the server folds, and texts that are gone are said to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tertulia.session.settings.settings import Settings
from tertulia.testing import ScriptedModel
from tests.server.sockets.gated_exec import gated_exec
from tests.web.browser import Browser, Page
from tests.web.stage import Stage, staged
from tests.web.test_timeline import READ_AHEAD, WALK, replies

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
FROM_THE_BEGINNING = "location.hash = location.hash.split('?')[0] + '?n=1'"
LAST = """import("/app_state.js").then(async ({ app }) =>
  (await app.link.request("record/outline", { session_id: app.route.session })).last_n)"""
BOTH_AT_WORK = "[...app.replay.board.conversations.values()].filter((view) => view.task_id !== null).length === 2"


async def _delegated(stage: Stage, **settings: object) -> str:
    host = stage.place.host
    session = await host.start(Settings(model=ScriptedModel(replies()), **settings))  # type: ignore[arg-type]
    await session.root.message("Is it right?")
    await session.close()
    return session.id


async def _expired(stage: Stage) -> str:
    return await _delegated(stage, storage_policy={"ttl": 0.001})


async def _headers_only(stage: Stage) -> str:
    return await _delegated(stage, storage_policy="headers_only")


async def _forked(stage: Stage) -> str:
    async with stage.place.socket() as client:
        await client.call("initialize", observe=True)
        fork = await client.call("record/fork", session_id=await _delegated(stage))
        return fork["result"]["session_id"]


async def _parallel(stage: Stage) -> str:
    model = ScriptedModel([{"text": "one two three", "delay_between_ms": 20}], repeat=True)
    session = await stage.place.host.start(Settings(model=model, slots=2))
    other = await session.open(title="beside")
    await asyncio.gather(session.root.message("You."), other.message("And you."))
    await session.close()
    return session.id


KINDS: dict[str, tuple[Callable[[Stage], Awaitable[str]], str]] = {
    "delegated": (_delegated, "text=They pass."),
    "ttl expired": (_expired, ".banner >> text=its time was over"),
    "headers_only": (_headers_only, ".banner >> text=its storage policy is headers_only"),
    "parallel": (_parallel, "text=one two three"),
}


async def test_every_kind_of_stored_session_is_replayed_step_by_step(browser: Browser) -> None:
    """S002-44, issue 23: killed ones, and those of other processes, have tests of their own."""
    async with staged(browser, ScriptedModel([])) as stage, stage.page("&/") as page:
        await page.sees("main >> text=New session")
        for kind, (make, sign) in KINDS.items():
            await page.run("location.hash = '#/'")
            await page.sees_no(".scrubber")
            await page.run(f"location.hash = '#/s/{await make(stage)}?n=1'")
            last = await _at_the_end(page)
            await page.sees(sign)
            different, _ = await page.run(WALK, [*range(1, last + 1), *range(last - 1, 0, -3)])
            assert different == [], kind
            if kind == "parallel":
                await _step_until(page, last, BOTH_AT_WORK)
                await page.sees(".row.is-running >> nth=1")


async def test_a_copy_is_replayed_with_what_it_was_begun_with(browser: Browser) -> None:
    """Which no event of its own tells: the request, the call of another conversation with its answer, the last word."""
    async with staged(browser, ScriptedModel([])) as stage, stage.page(f"&/s/{await _forked(stage)}?n=1") as page:
        await page.sees(".scrubber")
        await page.sees_no(".cell")
        last = await _at_the_end(page)
        # Of the end the server is asked, what is before it is folded in the page.
        for n in (last, last - 1):
            await page.run(f"app.go({{ n: '{n}' }}, true)")
            await page.until(f"app.replay.shown === {n}")
            for sign in (".said", ".handoff .headline", ".handoff .answer", "text=They pass."):
                await page.sees(sign)


async def test_a_session_that_another_process_still_writes_is_replayed_as_far_as_it_has_come(
    browser: Browser, tmp_path: Path
) -> None:
    """It goes on meanwhile, and looking neither stops nor joins it."""
    async with (
        staged(browser, ScriptedModel([])) as stage,
        gated_exec(tmp_path / "work") as running,
        stage.page(f"&/s/{running.session_id}") as page,
    ):
        await page.sees(".call.command:has-text('cat gate')")
        await page.run(FROM_THE_BEGINNING)
        before = await _at_the_end(page)
        await page.sees(".call.command:has-text('cat gate')")
        await page.sees(".row.is-running")
        running.open_gate()
        await page.sees(".card >> text=touch made")
        await page.until(f"Number(document.querySelector('.scrubber input')?.max) > {before}")
        await page.run(FROM_THE_BEGINNING)
        await page.sees_no(".call")
        assert await _at_the_end(page) > before
        await page.sees(".question >> text=touch made")
        await page.click(".card .no-button")
        assert (await running.end())[0] == 0
        assert not running.made


async def _at_the_end(page: Page) -> int:
    """Go to the last record, and have the number of it."""
    await page.sees(".scrubber")
    last: int = await page.run(LAST)
    await page.until(f"document.querySelector('.scrubber input')?.max === '{last}'")
    await page.click("role=button[name='To the end']")
    await page.until(f"document.querySelector('.transcript')?.dataset.shown === '{last}'")
    await page.run(READ_AHEAD)
    return last


async def _step_until(page: Page, last: int, condition: str) -> None:
    for n in range(1, last + 1):
        await page.run(f"app.go({{ n: '{n}' }}, true)")
        await page.until(f"app.replay.shown === {n}")
        if await page.run(condition):
            return
    pytest.fail("no record at which both are at work")
