"""Questions in a real browser: allowed, denied with words, raced for, never answered by accident (X-48, B6, B12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tertulia.sandbox.proxy import addresses
from tertulia.testing import ScriptedModel, call
from tests.sandbox.confined import need
from tests.sandbox.proxy.proxied import HERE, Names
from tests.sandbox.proxy.sandboxed import served
from tests.web.browser import Browser, Page
from tests.web.scene import ask_about_the_basket, shop
from tests.web.stage import Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
TOUCH = call("shell", {"command": ["touch", "made"]})


async def _asked(stage: Stage, page: Page, text: str = "Go") -> None:
    await stage.start_session(page)
    await page.fill("#composer", text)
    await page.press("Enter")
    await page.sees(".card")


async def _open(stage: Stage) -> int:
    """How many questions wait, in all sessions."""
    return sum([len(await session.approvals.pending()) for session in stage.place.host.sessions])


async def test_a_question_is_allowed_with_a_click_and_says_by_which_client(browser: Browser, tmp_path: Path) -> None:
    model = ScriptedModel([TOUCH, "Made."])
    async with staged(browser, model, cwd=tmp_path, approval_policy="untrusted") as stage, stage.page() as page:
        await _asked(stage, page)
        assert not (tmp_path / "made").exists()
        assert "$ touch made" in await page.text(".card .request-text")
        facts = await page.text(".card .facts-list")
        assert str(tmp_path) in facts
        assert "the approval policy is untrusted" in facts
        await page.click("text=Allow once")
        await page.sees(".question.yes >> text=allowed once by dashboard")
        await page.sees("text=Made.")
    assert (tmp_path / "made").exists()


async def test_a_question_is_denied_with_a_sentence_that_the_model_reads(browser: Browser, tmp_path: Path) -> None:
    model = ScriptedModel([TOUCH, "I left it."])
    async with staged(browser, model, cwd=tmp_path, approval_policy="untrusted") as stage, stage.page() as page:
        await _asked(stage, page)
        await page.sees(".card .no-button:enabled")
        await page.fill(".card .reason", "use the other folder")
        await page.press("Enter")
        await page.sees("text=I left it.")
        await page.sees(".question.no >> text=denied by dashboard")
        await page.sees(".output >> text=use the other folder")
    assert not (tmp_path / "made").exists()
    assert "use the other folder" in model.requests[-1].last_input


async def test_a_host_is_asked_about_once_and_what_was_reached_is_told(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 26: hosts by name. The second command of the session asks no one."""
    need("bubblewrap")
    monkeypatch.setattr(addresses, "look_up", Names(other_example=HERE))
    with served() as server:
        host = f"other.example:{server.server_port}"
        fetches = call("shell", {"command": ["curl", "-sS", f"http://{host}/"]})
        model, rules = ScriptedModel([fetches, fetches, "Read."]), {"allow": [f"{HERE}:{server.server_port}"]}
        async with staged(browser, model, cwd=tmp_path, network=rules) as stage, stage.page() as page:
            await _asked(stage, page)
            assert "asks to reach a host" in await page.text(".card .card-title")
            assert f"other.example, port {server.server_port}\nfor this command:" in await page.text(
                ".card .request-text"
            )
            await page.click(".card .scopes >> text=for the session")
            await page.click(".card .yes-button:enabled")
            await page.sees("text=Read.")
            await page.sees(".question.yes >> text=allowed for the session by dashboard")
            await page.sees(f"text=/network: {host} allowed, [0-9]+ bytes [(]approval[)]/ >> nth=1")
            assert server.paths == ["/", "/"]


EAGER = """() => new MutationObserver((_, observer) => {
  const card = document.querySelector(".card");
  if (!card) return;
  observer.disconnect();
  card.focus();
  window.eager = true;
  card.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true }));
}).observe(document.body, { childList: true, subtree: true })"""


async def test_a_key_answers_only_on_a_focused_card_that_could_be_seen(browser: Browser, tmp_path: Path) -> None:
    model = ScriptedModel([TOUCH, "Made."])
    async with staged(browser, model, cwd=tmp_path, approval_policy="untrusted") as stage, stage.page() as page:
        await page.sees("text=New session")
        await page.run(f"({EAGER})()")
        await _asked(stage, page)
        await page.until("window.eager")
        await page.click("#composer")
        await page.press("y")
        await page.click(".side h2")
        await page.press("y")
        await page.press("n")
        # Longer than a card must have been there; nothing may have been answered meanwhile.
        await page.run("new Promise((done) => setTimeout(done, 400))")
        assert await _open(stage) == 1
        await page.press("g")
        await page.press("a")
        await page.until("document.activeElement.classList.contains('card')")
        await page.press("y")
        await page.sees("text=Made.")
        assert await _open(stage) == 0


async def test_all_of_a_long_patch_is_there_before_a_yes_is_offered(browser: Browser, tmp_path: Path) -> None:
    lines = "\n".join(f"+line {number} {'x' * 60}" for number in range(1_500))
    patch = f"*** Begin Patch\n*** Add File: long.txt\n{lines}\n*** End Patch\n"
    model = ScriptedModel([call("apply_patch", {"input": patch}), "Done."])
    async with staged(browser, model, cwd=tmp_path, approval_policy="untrusted") as stage, stage.page() as page:
        await _asked(stage, page)
        await page.sees(".yes-button:enabled")
        text = await page.run("document.querySelector('.card .diff-lines').textContent")
        assert all(f"line {number} " in text for number in range(1_500))
        await page.click("text=Allow once")
        await page.sees("text=Done.")
    assert (tmp_path / "long.txt").read_text().count("\n") == 1_500


async def test_a_chain_is_stopped_from_the_one_that_began_it(browser: Browser) -> None:
    def answer(request: Any) -> Any:
        if request.last_input == "Go":
            return call("conv_create", {"title": "helper", "user_instruction": "Take your time."})
        return {"text": "one two three " * 200, "delay_between_ms": 200}

    async with staged(browser, ScriptedModel([answer], repeat=True)) as stage, stage.page() as page:
        await stage.start_session(page)
        await page.fill("#composer", "Go")
        await page.press("Enter")
        await page.sees(".row.is-waiting:has-text('waits for helper')")
        await page.click("text=Stop")
        await page.sees(".row.is-idle:has-text('helper')")
        await page.sees_no(".row.is-waiting")
        await page.sees_no("text=Stop")


async def test_of_a_thousand_questions_the_oldest_are_drawn_and_the_rest_counted(
    browser: Browser, tmp_path: Path
) -> None:
    async with shop(browser, tmp_path) as stage, stage.page() as page:
        await ask_about_the_basket(stage, page)
        await page.run(ASK_ON, 1_000)
        await page.sees("text=961 more questions wait")
        assert await page.run("document.querySelectorAll('.card').length") == 40
        assert await page.run("document.title") == "(1001) Tertulia"
        await page.sees(".card:first-of-type .diff")


ASK_ON = """async (count) => {
  const { app } = await import("/app_state.js");
  const feed = app.selected();
  const [{ request }] = feed.board.questions.values();
  const same = { epoch: feed.board.epoch, type: "approval_request", conversation_id: feed.board.root_id, task_id: "t" };
  for (let number = 0; number < count; number += 1) {
    const data = { ...request, approval_id: `more${number}`, kind: "exec", detail: "rm x", command: "rm x" };
    feed.take({ ...same, seq: feed.board.seq + 1, ts: new Date().toISOString(), data });
  }
}"""
