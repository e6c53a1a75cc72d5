"""Pages of turns and items: each entry once, in either direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.errors import InvalidParamsError
from tertulia.server.codex.thread_pages import ListItems, ListTurns, items_page, turns_page
from tests.server.codex_client import codex_stage, scripted


def turn(number: int) -> dict[str, Any]:
    items = [
        {"type": "userMessage", "id": f"u{number}"},
        {"type": "agentMessage", "id": f"c{number}", "phase": "commentary"},
        {"type": "agentMessage", "id": f"a{number}", "phase": None},
    ]
    return {"id": f"t{number}", "items": items, "itemsView": "full"}


@given(count=st.integers(0, 12), limit=st.integers(1, 5), direction=st.sampled_from(["asc", "desc"]))
def test_the_pages_together_are_all_turns_once(count: int, limit: int, direction: Any) -> None:
    """Issue 25 (1): `thread/turns/list`."""
    turns, seen, cursor = [turn(number) for number in range(count)], [], None
    for _ in range(count + 1):
        page = turns_page(turns, ListTurns(thread_id="t", cursor=cursor, limit=limit, sort_direction=direction))
        seen += [entry["id"] for entry in page["data"]]
        if (cursor := page["nextCursor"]) is None:
            break
    wanted = [entry["id"] for entry in turns]
    assert cursor is None
    assert seen == (wanted if direction == "asc" else wanted[::-1])


def test_a_turn_is_shown_in_three_ways() -> None:
    """Issue 25 (1): a summary has the request and the answer, and no remark on the way."""
    seen = {
        view: [
            item["id"] for item in turns_page([turn(1)], ListTurns(thread_id="t", items_view=view))["data"][0]["items"]
        ]
        for view in ("notLoaded", "summary", "full")
    }
    assert seen == {"notLoaded": [], "summary": ["u1", "a1"], "full": ["u1", "c1", "a1"]}


def test_items_of_one_turn() -> None:
    entries = items_page([turn(1), turn(2)], ListItems(thread_id="t", turn_id="t2"))["data"]
    assert [(entry["turnId"], entry["item"]["id"]) for entry in entries] == [("t2", "u2"), ("t2", "c2"), ("t2", "a2")]
    latest = items_page([turn(1), turn(2)], ListItems(thread_id="t", limit=1, sort_direction="desc"))
    assert [entry["item"]["id"] for entry in latest["data"]] == ["a2"]


@pytest.mark.parametrize("cursor", ["", "-1", "4", "x", "9" * 400, "²"])
def test_a_cursor_of_no_page_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParamsError, match="cursor"):
        turns_page([turn(1)], ListTurns(thread_id="t", cursor=cursor))


async def test_pages_are_the_same_of_an_open_and_of_a_stored_thread(tmp_path: Path) -> None:
    """Issue 25 (1): a thread that is only looked at is not started."""
    async with codex_stage(scripted("one", "two"), tmp_path) as at:
        thread = await at.client.start()
        await at.client.turn(thread, "first")
        await at.client.turn(thread, "second")
        open_items = await at.client.call("thread/items/list", threadId=thread)
        assert [entry["item"]["type"] for entry in open_items["data"]] == ["userMessage", "agentMessage"] * 2
        open_turns = await at.client.call("thread/turns/list", threadId=thread, limit=1)
        assert open_turns["data"][0]["items"][1]["text"] == "two"
        assert "session id" in (await at.client.fail("thread/turns/list", threadId="nope"))["message"]
    async with codex_stage(scripted(), tmp_path) as at:
        stored_items = await at.client.call("thread/items/list", threadId=thread)
        assert [e["item"] for e in stored_items["data"]] == [e["item"] for e in open_items["data"]]
        again = await at.client.call("thread/turns/list", threadId=thread, cursor=open_turns["nextCursor"])
        assert again["data"][0]["items"][1]["text"] == "one"
        assert not at.host.sessions
