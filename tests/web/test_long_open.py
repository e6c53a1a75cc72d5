"""A page that stays open while much happens: it keeps its memory, and draws only what is in sight."""

from __future__ import annotations

import pytest

from tertulia.testing import ScriptedModel
from tests.web.browser import Browser
from tests.web.stage import staged
from tests.web.test_transcript import CELLS, FILL

pytestmark = [pytest.mark.torture, pytest.mark.timeout(400), pytest.mark.xdist_group("browser")]
SECONDS = 60
STREAM = """async (seconds) => {
  const { app } = await import("/app_state.js");
  const feed = app.selected();
  const { epoch, root_id } = feed.board;
  const event = (type, data, passing) => feed.take({ epoch, seq: passing ? null : feed.board.seq + 1,
    ts: new Date().toISOString(), type, conversation_id: root_id, task_id: "t", data });
  for (let number = 0; number < seconds; number += 1) {
    const item_id = `item${number}`;
    let text = "";
    for (let piece = 0; piece < 98; piece += 1) {
      event("agent_message_delta", { item_id, text: `word${piece} `, offset: text.length }, true);
      text += `word${piece} `;
      if (piece % 10 === 9) await new Promise((done) => setTimeout(done, 100));
    }
    event("agent_message", { item_id, text }, false);
  }
}"""
HEAP = "(globalThis.gc?.(), performance.memory.usedJSHeapSize)"
MAX_GROWTH = 24 * 1024 * 1024
"""Of what it holds: the texts themselves are about a hundredth of it."""


async def test_a_page_under_a_hundred_events_a_second_keeps_its_memory(browser: Browser) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        await stage.start_session(page)
        await page.run(FILL, 500)
        before = await page.run(HEAP)
        await page.run(STREAM, SECONDS)
        assert await page.run(HEAP) - before < MAX_GROWTH
        assert await page.run(CELLS) == 120
