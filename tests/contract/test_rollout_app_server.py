"""Stored sessions over JSON-RPC, by a client that has only read the public page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, Server, serving

NOWHERE = "00000000-0000-4000-8000-000000000000"


async def refusal(server: Server, method: str, **params: Any) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        await server.call(method, **params)
    return refused.value.number, refused.value.code


async def history_texts(server: Server, conversation: str, **where: Any) -> list[str]:
    entries = (await server.call("conversation/history", conversation_id=conversation, **where))["entries"]
    return [entry["text"] for entry in entries]


async def test_a_session_is_left_and_taken_up_on_one_connection(tmp_path: Path) -> None:
    """Issue 5, 4: `session/resume` answers as `session/info`; a new epoch, numbers without a gap."""
    async with serving(tmp_path, ["One.", "Two.", "Three."]) as server:
        info = await server.call("session/info")
        id = info["session_id"]
        first = await server.say("1", message_id="a")
        last = max(event["seq"] for event in server.events if event["seq"] is not None)
        assert (await server.call("session/close"))["closed"]
        assert await refusal(server, "conversation/list") == (-32000, "closed")
        assert await server.call("session/resume", session_id=id) == info
        begun = await server.event("session_configured", session_id=id, epoch=1)
        assert begun["seq"] == last + 1
        again = await server.call(
            "conversation/message", session_id=id, conversation_id="root", text="1", message_id="a"
        )
        assert {key: again[key] for key in first if key != "duration_ms"} == {
            key: first[key] for key in first if key != "duration_ms"
        }
        assert await history_texts(server, "root", session_id=id) == ["1", "One."]
        other = await server.call("session/start")
        assert other["session_id"] != id
        listed = (await server.call("session/list"))["sessions"]
        assert {one["session_id"] for one in listed} == {id, other["session_id"]}


async def test_what_cannot_be_resumed_is_refused_by_code(tmp_path: Path) -> None:
    """E8, E9, F9: and the connection goes on."""
    folder = tmp_path / "home" / ".local" / "share" / "tertulia" / "sessions"
    async with serving(tmp_path, ["One."]) as server:
        for wrong in ("nope", "../x", "a\0b", "x" * 5000):
            assert await refusal(server, "session/resume", session_id=wrong) == (-32000, "not_found")
        for wrong in (None, 3):
            assert await refusal(server, "session/resume", session_id=wrong) == (-32602, "invalid_params")
        assert await refusal(server, "session/resume") == (-32602, "invalid_params")
        assert await refusal(server, "session/resume", session_id=NOWHERE) == (-32000, "not_found")
        (folder / f"{NOWHERE}.db").write_bytes(b"no database" * 1000)
        with pytest.raises(Refused, match=f"{NOWHERE}.db") as refused:
            await server.call("session/resume", session_id=NOWHERE)
        assert (refused.value.number, refused.value.code) == (-32000, "storage_error")
        held = (await server.call("session/info"))["session_id"]
        async with serving(tmp_path, []) as second:
            with pytest.raises(Refused, match="--follow") as refused:
                await second.call("session/resume", session_id=held)
            assert (refused.value.number, refused.value.code) == (-32001, "busy")
            assert held in refused.value.message
        assert (await server.say("Still there?"))["last_assistant_message"] == "One."


async def test_a_conversation_is_forked_at_an_item_or_a_round(tmp_path: Path) -> None:
    """Operations, `conversation/fork`: the old one stays as it is."""
    async with serving(tmp_path, ["One.", "Two.", "Three."]) as server:
        await server.say("1")
        await server.say("2")
        first = next(event["data"]["item_id"] for event in server.events if event["type"] == "agent_message")
        for at, wanted in ((None, 4), (2, 4), (1, 2), (first, 2)):
            params = {} if at is None else {"at": at}
            fork = (await server.call("conversation/fork", conversation_id="root", **params))["conversation_id"]
            assert await history_texts(server, fork) == ["1", "One.", "2", "Two."][:wanted]
        assert (await server.say("3", fork))["last_assistant_message"] == "Three."
        assert await history_texts(server, "root") == ["1", "One.", "2", "Two."]
        before = await server.call("conversation/list")
        for wrong, code in ((0, "invalid_params"), (-1, "invalid_params"), (9, "not_found"), ("nobody", "not_found")):
            assert (await refusal(server, "conversation/fork", conversation_id="root", at=wrong))[1] == code
        assert await server.call("conversation/list") == before
