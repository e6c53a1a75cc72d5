"""The story of the dashboard, on a phone: away, back, a question refused; later the run is replayed and forked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tertulia.testing import ScriptedAnswer, ScriptedModel, ScriptedRequest, call, say
from tests.server.sockets.gated_exec import gated_exec
from tests.web.browser import Browser, Page
from tests.web.scene import PATCH, SHOP
from tests.web.stage import staged

pytestmark = [pytest.mark.slow, pytest.mark.torture, pytest.mark.xdist_group("browser")]
PHONE = {"viewport": {"width": 390, "height": 844}, "isMobile": True, "hasTouch": True, "deviceScaleFactor": 2}
REASON = "Leave the tests alone, and say why two of a kind cost as much as one."
QUIET = [{"tool_calls": [{"name": "shell", "arguments": {"command": ["cat", "gate"]}}]}, "Looked."]


def answer(request: ScriptedRequest) -> ScriptedAnswer:
    """Reads, proposes a patch, and does as it is told."""
    match request.last_input:
        case "Fix the basket.":
            return say("I read the code.", call("shell", {"command": ["cat", "app.py"]}))
        case text if "def total" in text:
            return say("Now the change.", call("apply_patch", {"input": PATCH}))
        case text if REASON in text:
            return "The count of an item is ignored."
        case "Only the sum, please.":
            return "The copy changes the sum alone."
        case _:
            return "Yes."


async def test_a_person_who_was_away_sees_refuses_replays_and_forks(browser: Browser, tmp_path: Path) -> None:
    """Issue 23, done when: four sessions in three processes; which one waits, for what, and what the model saw."""
    (tmp_path / "app.py").write_text(SHOP, encoding="utf-8")
    settings = {"cwd": tmp_path, "approval_policy": "untrusted"}
    async with (
        staged(browser, ScriptedModel([answer], repeat=True), **settings) as stage,
        gated_exec(tmp_path / "one", replies=tuple(QUIET)) as one,
        gated_exec(tmp_path / "two", replies=tuple(QUIET)) as two,
        stage.page(**PHONE) as page,
    ):
        basket, other = await stage.place.host.start(), await stage.place.host.start()
        await other.root.message("Are you there?")
        for session_id in (one.session_id, two.session_id, basket.id, other.id):
            await page.follows(session_id)
        async with stage.place.socket() as client:
            await client.call("initialize", observe=True)
            where = {"session_id": basket.id, "conversation_id": "root"}
            await client.call("conversation/message", **where, text="Fix the basket.", detach=True)
            await _refuse(page)
        one.open_gate(), two.open_gate()
        await _replay_and_fork(page, basket.id)
        assert (tmp_path / "app.py").read_text(encoding="utf-8") == SHOP


async def _refuse(page: Page) -> None:
    await page.sees(".pages .badge")
    await page.click(".session-button")
    await page.until("document.querySelectorAll('.session-choice').length === 4")
    first = await page.text(".session-choice:first-child, .session-list li:first-child")
    assert "Fix the basket." in first
    assert "1 question for you" in first
    lines = await page.run("[...document.querySelectorAll('.session-choice')].map((one) => one.innerText)")
    assert [line for line in lines if "question" in line] == [first]
    assert sum("in exec" in line for line in lines) == 2
    await _picture(page, "1-which-waits")
    await page.click(".session-choice:has-text('Fix the basket.')")
    await page.click(".pages button:nth-child(3)")
    await page.sees(".card .diff >> nth=1")
    card = await page.text(".card")
    for line in PATCH.splitlines():
        assert line[1:].strip() in card or line.startswith(("***", "@@")), line
    await _picture(page, "2-whole-diff")
    await page.fill(".card .reason", REASON)
    await page.run("document.querySelector('.card .card-buttons').scrollIntoView({ block: 'center' })")
    await _picture(page, "3-no-because")
    await page.click(".card .no-button")
    await page.sees("text=No question waits.")
    assert "denied" in await page.text(".answered li")
    await page.click(".pages button:nth-child(2)")
    await page.sees("text=The count of an item is ignored.")
    await _picture(page, "4-it-was-read")


async def _replay_and_fork(page: Page, session_id: str) -> None:
    # In the evening, in a page that was closed in between.
    await page.call("reload")
    await page.sees("text=The count of an item is ignored.")
    await page.call("click", ".lanes svg", {"position": {"x": 3, "y": 10}})
    await page.sees("role=group[name='Replay']")
    await page.call("selectOption", ".scrubber select >> nth=0", "request")
    await page.click("role=button[name='To the beginning']")
    for _ in range(2):
        n = await page.run("location.hash")
        await page.click("role=button[name='One request on']")
        await page.until(f"location.hash !== '{n}'")
    await page.sees_no("text=Now the change.")
    await _picture(page, "5-the-request-that-went-wrong")
    await page.click("text=What the model saw")
    await page.sees("text=rebuilt, byte for byte what was sent")
    assert "2 of 3" in await page.text(".prompt-head option:checked")
    await page.click(".prompt-parts li:last-child summary")
    await page.sees(".prompt-parts pre:has-text('def total')")
    await _picture(page, "6-what-the-model-saw")
    await page.click(".pages button:nth-child(2)")
    await page.click(".scrubber button:text-is('Fork here')")
    await page.sees("#composer")
    await page.until(f"!location.hash.includes('{session_id}')")
    await page.fill("#composer", "Only the sum, please.")
    await page.click("text=Send")
    await page.sees("text=The copy changes the sum alone.")
    await page.sees_no("text=Now the change.")
    await _picture(page, "7-a-fork-goes-on")


async def _picture(page: Page, name: str) -> None:
    """Keep what it looks like, where a person wants to see that: TERTULIA_PICTURES names the folder."""
    if folder := os.environ.get("TERTULIA_PICTURES"):
        await page.run("new Promise((done) => setTimeout(done, 200))")
        await page.screenshot(Path(folder) / f"{name}.png")
