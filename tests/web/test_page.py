"""The page in a real browser: opening, sending, streaming, steering, coming back (S001-33, S001-34, X-48)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import ScriptedModel
from tests.server.served import TOKEN
from tests.view.golden import CASES, read_case
from tests.web.browser import Browser
from tests.web.stage import staged
from tests.web.test_board import wire_events

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


async def test_the_key_leaves_the_address_and_the_page_connects(browser: Browser) -> None:
    async with staged(browser, ScriptedModel(["Hello."])) as stage, stage.page() as page:
        await page.sees("text=connected")
        assert TOKEN not in await page.run("location.href")
        assert len(stage.place.host) == 0, "looking begins no session"


@pytest.mark.parametrize(
    ("token", "sentence"), [(None, "This page needs its key"), ("f" * 64, "The server refuses this key")]
)
async def test_without_the_right_key_the_page_shows_nothing(browser: Browser, token: str | None, sentence: str) -> None:
    async with staged(browser, ScriptedModel([])) as stage, stage.page(token=token) as page:
        await page.sees(f"text={sentence}")
        assert stage.place.web.clients == 0


async def test_a_message_is_sent_and_its_answer_streams_in(browser: Browser) -> None:
    answer = "# Title\n\nSome **bold** text and `code`.\n\n- one\n- two\n\n```python\nprint(1)\n```\n"
    async with staged(browser, ScriptedModel([answer])) as stage, stage.page() as page:
        await stage.start_session(page)
        await page.fill("#composer", "Good morning")
        await page.press("Enter")
        await page.sees(".user .said:text-is('Good morning')")
        await page.sees(".task-end")
        tags = "[...document.querySelectorAll('.assistant .markdown *')].map((one) => one.tagName.toLowerCase())"
        assert {"h3", "p", "strong", "code", "ul", "li", "pre"} <= set(await page.run(tags))
        assert await page.text(".assistant .code code") == "print(1)"


async def test_every_golden_case_becomes_the_same_board_in_the_browser(browser: Browser) -> None:
    source = (Path(__file__).parent / "golden.mjs").read_text(encoding="utf-8")
    async with staged(browser, ScriptedModel([])) as stage, stage.page() as page:
        # The page runs no script but its own: playwright puts this one in.
        body = source.replace("export function", "function").split("if (!globalThis.document)")[0]
        folded: dict[str, Any] = json.loads(
            await page.run(f"async (cases) => {{ {body}; return JSON.stringify(foldCases(cases)); }}", wire_events())
        )
    assert {name: case["board"] for name, case in folded.items()} == {
        path.stem: read_case(path)["board"] for path in CASES
    }
