"""Transcripts in the browser: windows of long ones, Markdown in any cut, patches of both kinds, forks."""

from __future__ import annotations

import random

import pytest

from tertulia.testing import ScriptedModel, say
from tests.web.browser import Browser, Page
from tests.web.stage import staged
from tests.web.test_hostile import ALLOWED

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
FILL = """async (count) => {
  const { app } = await import("/app_state.js");
  const feed = app.selected();
  const { epoch, root_id } = feed.board;
  for (let number = 0; number < count; number += 1) {
    const data = { message: `notice ${number}`, code: "test" };
    const seq = feed.board.seq + 1;
    feed.take({ epoch, seq, ts: "2026-01-01T00:00:00Z", type: "warning", conversation_id: root_id, data });
  }
}"""
TRANSCRIPT = "document.querySelector('.transcript')"
CELLS = f"{TRANSCRIPT}.querySelectorAll('.cell').length"


async def test_of_a_long_transcript_a_window_is_drawn_that_grows_to_both_sides(browser: Browser) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        await stage.start_session(page)
        await page.run(FILL, 1_000)
        await page.sees("text=notice 999")
        assert await page.run(CELLS) == 120
        for count in (240, 360, 360):
            await page.run(f"{TRANSCRIPT}.scrollTop = 0")
            await page.until(f"{CELLS} === {count} && {TRANSCRIPT}.scrollTop > 100")
            # What was at the top is still in sight.
            await page.sees("text=Earlier")
        await page.until("document.querySelector('.cell').innerText.includes('notice 520')")
        await page.click("text=To the end")
        await page.sees("text=notice 999")
        assert await page.run(CELLS) == 120


async def test_older_cells_come_from_the_record_when_one_scrolls_up(browser: Browser) -> None:
    """Issue 23: of a session that runs, of one that is stored, and while its past is looked at; none twice."""
    async with staged(browser, ScriptedModel([say("Yes.", repeat=True)])) as stage:
        session = await stage.place.host.start()
        for number in range(130):
            await session.root.message(f"message {number}")
        async with stage.page(f"&/s/{session.id}") as page:
            await page.sees("text=message 129")
            assert await _read_upwards(page) == [f"message {number}" for number in range(130)]
            await page.click("text=To the end")
            await session.root.message("one more")
            await page.sees("text=one more")
        await stage.place.host.close_session(session)
        async with stage.page(f"&/s/{session.id}") as page:
            await page.sees("text=This is its record.")
            await page.sees("text=one more")
            assert await _read_upwards(page) == [*(f"message {number}" for number in range(130)), "one more"]
        async with stage.page(f"&/s/{session.id}?n=700") as page:
            await page.sees(".scrubber")
            shown = await _read_upwards(page)
            assert shown == [f"message {number}" for number in range(len(shown))]
            assert 50 < len(shown) < 130


async def _read_upwards(page: Page) -> list[str]:
    """All messages that one meets on the way to the beginning."""
    texts = "[...document.querySelectorAll('.said')].map((one) => one.innerText)"
    met: list[str] = await page.run(texts)
    while await page.run("document.querySelector('.earlier') !== null"):
        first = met[0]
        await page.run(f"{TRANSCRIPT}.scrollTop = 0")
        await page.until(f"{texts}[0] !== '{first}' || !document.querySelector('.earlier')")
        now: list[str] = await page.run(texts)
        met = now[: now.index(first)] + met if first in now else met
    return met


PIECES = [
    *("# Head\n", "text ", "**bold** ", "\n\n", "- item\n", "  - nested\n", "1. one\n", "> quoted\n", "```py\n"),
    *("| a | b |\n|---|---|\n| 1 | 2 |\n", "`code` ", "[a](http://x.y) ", "[b](javascript:1) ", "<b onclick=x>"),
    *("~~gone~~ ", "\\*", "&amp; ", "---\n", "    indented\n", "<script>x</script>\n", "- [x] done\n", "\n\n\n"),
    *("~~~\n", "```\n", "![i](z)"),
]
DRAW = """async (texts) => {
  const { render, html } = await import("/parts/html.js");
  const { GrowingMarkdown, settledEnd } = await import("/parts/markdown.js");
  const results = [];
  for (const { text, cuts } of texts) {
    const [grown, whole] = [document.createElement("div"), document.createElement("div")];
    for (const cut of cuts) render(html`<${GrowingMarkdown} text=${text.slice(0, cut)} done=${false} />`, grown);
    render(html`<${GrowingMarkdown} text=${text} done=${true} />`, grown);
    render(html`<${GrowingMarkdown} text=${text} done=${true} />`, whole);
    let end = 0;
    for (const cut of cuts) end = settledEnd(text.slice(0, cut), end);
    const open = (text.slice(0, end).match(/^ {0,3}(```|~~~)/gm) ?? []).length;
    const tags = [...whole.querySelectorAll("*")].map((one) => one.tagName.toLowerCase());
    const links = [...whole.querySelectorAll("a")].map((one) => one.protocol);
    results.push({ same: grown.textContent === whole.textContent, tags, links, end, open });
  }
  return results;
}"""


async def test_markdown_in_any_cut_ends_as_it_is_drawn_whole_with_known_elements_only(browser: Browser) -> None:
    luck = random.Random(23)
    texts = ["".join(luck.choices(PIECES, k=luck.randint(1, 25))) for _ in range(150)]
    asked_for = [{"text": text, "cuts": sorted(luck.choices(range(len(text) + 1), k=6))} for text in texts]
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        results = await page.run(DRAW, asked_for)
    assert all(result["same"] for result in results)
    assert {tag for result in results for tag in result["tags"]} <= ALLOWED
    assert {link for result in results for link in result["links"]} <= {"http:", "https:", "mailto:"}
    assert any(result["end"] for result in results)


READ = "async (text) => (await import('/parts/diff.js')).filesOf(text)"
UNIFIED = """--- a/old.py\t2026
+++ b/old.py\t2026
@@ -3,2 +3,2 @@ def f
 same
-gone
+new
--- /dev/null
+++ b/made.py
@@ -0,0 +1 @@
+first
"""


async def test_unified_diffs_have_numbers_and_kinds(browser: Browser) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        old, made = await page.run(READ, UNIFIED)
        assert await page.run(READ, "no patch at all") == []
    assert (old["path"], old["kind"], made["path"], made["kind"]) == ("old.py", "update", "made.py", "add")
    assert [(line["sign"], line["number"]) for line in old["lines"]] == [("@", None), (" ", 3), ("-", 4), ("+", 4)]


async def _say(page: Page, text: str) -> None:
    await page.fill("#composer", text)
    await page.press("Enter")


async def test_a_fork_begins_where_its_message_ends(browser: Browser) -> None:
    model = ScriptedModel(["First.", "Second.", "In the copy."])
    async with staged(browser, model) as stage, stage.page() as page:
        await stage.start_session(page)
        await _say(page, "One")
        await page.sees("text=First.")
        await page.sees(".task-end")
        await _say(page, "Two")
        await page.sees("text=Second.")
        await page.call("hover", ".assistant:has-text('First.')")
        await page.click(".assistant:has-text('First.') >> text=Fork here")
        await page.until("document.querySelectorAll('.row').length === 2")
        await page.sees(".row:nth-child(2).chosen")
        await _say(page, "Three")
        await page.sees(".assistant >> text=In the copy.")
        texts = "[...document.querySelectorAll('.transcript .said, .transcript .markdown')].map((one) => one.innerText)"
        assert await page.run(texts) == ["One", "First.", "Three", "In the copy."]
    history = str(model.requests[-1].request)
    assert "First." in history
    assert "Second." not in history


async def test_what_waits_is_taken_back_into_the_composer(browser: Browser) -> None:
    model = ScriptedModel([{"text": "word " * 400, "delay_between_ms": 50}, "Done."])
    async with staged(browser, model) as stage, stage.page() as page:
        await stage.start_session(page)
        await _say(page, "Go")
        await page.sees("text=Stop")
        await page.fill("#composer", "Later, please")
        await page.click("text=Queue")
        await page.sees(".queued >> text=Later, please")
        await page.click("text=Take back")
        await page.sees_no(".queued")
        assert await page.call("inputValue", "#composer") == "Later, please"
        await page.click("text=Stop")
        await page.sees(".task-end.stopped")
