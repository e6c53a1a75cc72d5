"""What was said and what can be called, over the wire: history, tools, forks, summaries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contract.app_server import Refused, serving


async def test_history_is_what_was_said(tmp_path: Path) -> None:
    """S004-09, S004-10."""
    picture = "data:image/png;base64,iVBORw0KGgo="
    async with serving(tmp_path, ["One.", "Two."]) as server:
        await server.say("First")
        items = [{"type": "text", "text": "Look"}, {"type": "image", "image_url": picture}]
        await server.call("conversation/message", conversation_id="root", items=items)
        whole = await server.call("conversation/history", conversation_id="root")
        assert whole == {
            "entries": [
                {"role": "user", "text": "First", "attachments": []},
                {"role": "assistant", "text": "One.", "attachments": []},
                {"role": "user", "text": "Look", "attachments": [{"type": "image", "image_url": picture}]},
                {"role": "assistant", "text": "Two.", "attachments": []},
            ]
        }
        newest = await server.call("conversation/history", conversation_id="root", limit=3)
        assert newest["entries"] == whole["entries"][1:]


async def test_tools_have_name_source_and_digest(tmp_path: Path) -> None:
    """S000-27, S002-31."""
    async with serving(tmp_path, []) as server:
        listed = await server.call("conversation/tools", conversation_id="root")
        assert set(listed) == {"tools", "cache_key"}
        plan = next(tool for tool in listed["tools"] if tool["name"] == "update_plan")
        assert plan["source"] == "builtin"
        assert plan["digest"]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", tool["name"]) for tool in listed["tools"])
        context = await server.call("conversation/context", conversation_id="root")
        assert listed["cache_key"] == context["cache_key"]


async def test_fork_and_compact_answer_as_the_page_says(tmp_path: Path) -> None:
    async with serving(tmp_path, ["1", "2", "3"]) as server:
        for word in ("one", "two", "three"):
            await server.say(word)
        forked = await server.call("conversation/fork", conversation_id="root", at=2)
        assert set(forked) == {"conversation_id"}
        history = await server.call("conversation/history", conversation_id=forked["conversation_id"])
        assert [entry["text"] for entry in history["entries"]] == ["one", "1", "two", "2"]
        for at in (0, -1, 99, "nothing"):
            with pytest.raises(Refused) as caught:
                await server.call("conversation/fork", conversation_id="root", at=at)
            assert caught.value.code in {"invalid_params", "not_found"}
        answer = await server.call("conversation/compact", conversation_id="root")
        assert {"compacted", "before_tokens", "after_tokens"} <= set(answer)
        assert isinstance(answer["compacted"], bool)
        assert isinstance(answer["before_tokens"], int)


async def test_an_agent_makes_a_fork_at_an_item_it_was_told_of(tmp_path: Path) -> None:
    """`at` may be an item id; agent_message names its item."""
    async with serving(tmp_path, ["1", "2"]) as server:
        first = await server.say("one")
        await server.say("two")
        event = await server.event("agent_message", task_id=first["task_id"])
        forked = await server.call("conversation/fork", conversation_id="root", at=event["data"]["item_id"])
        history = await server.call("conversation/history", conversation_id=forked["conversation_id"])
        assert [entry["text"] for entry in history["entries"]] == ["one", "1"]
