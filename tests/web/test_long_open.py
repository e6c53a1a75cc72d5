"""A page that stays open while much happens: it keeps its memory, and draws only what is in sight."""

from __future__ import annotations

import pytest

from tertulia.testing import ScriptedModel
from tests.web.browser import Browser
from tests.web.stage import staged
from tests.web.test_transcript import CELLS, FILL

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
PART = 20
"""Seconds between two looks of the test at the page."""
STREAM = """async ([first, seconds, pause]) => {
  const { app } = await import("/app_state.js");
  const feed = app.selected();
  const { epoch, root_id } = feed.board;
  const event = (type, data, passing) => feed.take({ epoch, seq: passing ? null : feed.board.seq + 1,
    ts: new Date().toISOString(), type, conversation_id: root_id, task_id: "t", data });
  for (let number = first; number < first + seconds; number += 1) {
    const item_id = `item${number}`;
    let text = "";
    for (let piece = 0; piece < 98; piece += 1) {
      event("agent_message_delta", { item_id, text: `word${piece} `, offset: text.length }, true);
      text += `word${piece} `;
      if (piece % 10 === 9) await new Promise((done) => setTimeout(done, pause));
    }
    event("agent_message", { item_id, text }, false);
  }
}"""
WARM = 12
MAX_GROWTH = 2 * 1024 * 1024
"""Of what it holds in a minute; the texts themselves are a fifth of it."""


async def _grows(browser: Browser, seconds: int, pause_ms: int) -> int:
    """By how many bytes, with a hundred events for each of these seconds and this pause after every tenth."""
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        await stage.start_session(page)
        await page.run(FILL, 500)
        # Long enough for the scripts to be compiled as far as they will be.
        await page.run(STREAM, [0, WARM, 5])
        before = await page.heap()
        for first in range(WARM, WARM + seconds, PART):
            await page.run(STREAM, [first, min(PART, WARM + seconds - first), pause_ms])
        after = await page.heap()
        assert await page.run(CELLS) == 120
    return after - before


async def test_a_page_that_takes_the_events_of_a_minute_keeps_its_memory(browser: Browser) -> None:
    """Issue 23: the hundred events of each of 60 seconds, sooner. Scripts that are compiled take a quarter."""
    assert await _grows(browser, 60, 1) < MAX_GROWTH / 4


@pytest.mark.torture
@pytest.mark.timeout(4 * 3_600)
@pytest.mark.parametrize("seconds", [60, 3_600])
async def test_a_page_under_a_hundred_events_a_second_keeps_its_memory(browser: Browser, seconds: int) -> None:
    """Issue 23: a minute, and an hour, in which it grows by the texts themselves and little else."""
    assert await _grows(browser, seconds, 100) < MAX_GROWTH * max(1, seconds / 240)
