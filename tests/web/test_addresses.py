"""Addresses that are sent on, broken ones too; and a session whose process was killed while it asked (issue 23)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tertulia.testing import ScriptedModel
from tests.server.sockets.gated_exec import gated_exec
from tests.web.browser import Browser
from tests.web.stage import staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("name", ["%", "..%2f..%2fx", "a%00b", UNKNOWN, f"{UNKNOWN}?n=5"])
async def test_an_address_without_a_session_says_so_and_the_page_stays_usable(browser: Browser, name: str) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page(f"&/s/{name}") as page:
        await page.sees(".banner >> text=there is no session")
        await page.click(".session-button")
        await page.click("text=New session")
        await page.sees("#composer")


async def test_the_address_of_a_stored_session_shows_its_record_at_any_number(browser: Browser) -> None:
    async with staged(browser, ScriptedModel(["The first answer."])) as stage:
        session = await stage.place.host.start()
        await session.root.message("Talk about olives")
        await stage.place.host.close_session(session)
        for number in ("", "?n=0", "?n=abc", "?n=-1"):
            async with stage.page(f"&/s/{session.id}{number}") as page:
                await page.sees("text=This is its record.")
                await page.sees(".assistant >> text=The first answer.")
                assert not await page.run("document.querySelector('.scrubber')")
        async with stage.page(f"&/s/{session.id}?n=999999") as page:
            await page.sees(".assistant >> text=The first answer.")
            last = await page.text(".scrubber .number")
            assert len(set(last.split(" / "))) == 1
        assert not stage.place.host.sessions


async def test_the_address_of_no_conversation_of_a_session_says_so(browser: Browser) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        session = await stage.start_session(page)
        await page.run(f"location.hash = '#/s/{session}/c/nothing'")
        await page.sees("text=This session has no such conversation")
        await page.click(".row")
        await page.sees("#composer")


async def test_a_second_click_begins_no_second_session(browser: Browser) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        await page.sees("main >> text=New session")
        await page.call("dblclick", "main >> text=New session")
        await page.sees("#composer")
        assert len(stage.place.host) == 1


async def test_a_name_that_turns_the_direction_of_writing_turns_nothing_beside_it(browser: Browser) -> None:
    """B10: the state of a session stands to the right of its name."""
    async with staged(browser, ScriptedModel(["Yes."])) as stage:
        session = await stage.place.host.start()
        await session.root.message("\u202eolives")
        async with stage.page(f"&/s/{session.id}") as page:
            await page.sees(".session-button >> text=olives")
            left = "document.querySelector('.session-button {}').getBoundingClientRect().left"
            assert await page.run(f"{left.format('.session-name')} < {left.format('.session-state')}")
            style = "getComputedStyle(document.querySelector('.session-name')).unicodeBidi"
            assert await page.run(style) == "isolate"


async def test_a_broken_key_or_page_in_the_address_is_refused_in_words(browser: Browser) -> None:
    async with staged(browser, ScriptedModel([])) as stage:
        for broken in ("%E0%A4%A", "a%20b", "%00", "<img>"):
            async with stage.page(f"#token={broken}", token=None) as page:
                await page.sees("text=The server refuses this key")
        async with stage.page("&/?page=constructor&panel=__proto__", viewport={"width": 390, "height": 844}) as page:
            await page.sees("text=New session")


async def test_a_question_goes_away_with_the_process_that_asked_it(browser: Browser, tmp_path: Path) -> None:
    """Killed without a word: nothing is left to answer, and the record says why it has no texts (E1)."""
    policy = ("-c", 'storage_policy="headers_only"')
    async with (
        staged(browser, ScriptedModel([])) as stage,
        gated_exec(tmp_path / "work", *policy) as running,
        stage.page(f"&/s/{running.session_id}") as page,
    ):
        await page.follows(running.session_id)
        running.open_gate()
        await page.sees("text=Allow once")
        os.kill(running.process.pid, signal.SIGKILL)
        await page.sees("text=No question waits")
        await page.until("document.title === 'Tertulia'")
        await page.sees("text=its storage policy is headers_only")
        assert "touch" not in await page.text("body")
        assert not await page.run("document.querySelector('.question button')")
        await page.click("text=Replay it")
        await page.sees(".scrubber")
        await page.sees("text=its storage policy is headers_only")
    assert not running.made


async def test_a_call_that_was_cut_off_by_the_end_of_its_process_does_not_run_on_in_the_replay(
    browser: Browser, tmp_path: Path
) -> None:
    """Nor in the tree: at its last record nothing runs or asks, and one step before that the command does."""
    async with (
        staged(browser, ScriptedModel([])) as stage,
        gated_exec(tmp_path / "work") as running,
        stage.page(f"&/s/{running.session_id}") as page,
    ):
        await page.follows(running.session_id)
        await page.sees(".call.command")
        os.kill(running.process.pid, signal.SIGKILL)
        await page.sees("text=This session does not run.")
        await page.click("text=Replay it")
        await page.sees(".scrubber")
        await page.click("role=button[name='To the end']")
        await page.sees(".call.command:has-text('ended with its process')")
        await page.sees(".row.is-idle")
        await page.sees(".bar-failed")
        await page.click("role=button[name='One record back']")
        await page.sees_no("text=ended with its process")
        await page.sees(".row.is-running")
