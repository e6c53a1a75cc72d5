"""Several clients, lost connections and restarts, as programs that only know `tertulia serve` and `/ws` see them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.contract.app_server import DEADLINE_S, Refused
from tests.contract.wire import Published, serving_web
from tests.sandbox.confined import need

TOUCH = {"tool_calls": [{"name": "shell", "arguments": {"command": ["touch", "made"]}}]}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_whoever_has_read_where_it_is_may_stop_it(tmp_path: Path, number: signal.Signals) -> None:
    """H7: from its first line on it ends in good order."""
    async with serving_web(tmp_path, ["hello"]) as place:
        place.process.send_signal(number)
        async with asyncio.timeout(DEADLINE_S):
            out, err = await place.process.communicate()
        assert (place.process.returncode, out, err) == (0, b"", b"")


async def test_another_client_answers_what_one_that_went_away_was_asked(tmp_path: Path) -> None:
    """B9, G2: the question outlives the connection, and the two together have seen every number once."""
    need("bubblewrap")
    page = Published()
    async with serving_web(tmp_path, [TOUCH, "Done."], "-a", "untrusted") as place:
        async with place.socket() as first:
            session = (await first.call("initialize", client={"name": "first"}, attend=True))["session_id"]
            await first.ask("conversation/message", conversation_id="root", text="go", message_id="m-1")
            question = (await first.event("approval_request"))["data"]
            first.socket.transport.abort()
        async with place.socket() as second:
            await second.call("initialize", client={"name": "second"}, session_id=session, attend=True)
            start = len(second.events)
            followed = await second.call("events/subscribe", after_seq=first.numbers[-1])
            assert followed["last_seq"] >= first.numbers[-1]
            assert (await second.call("approval/list"))["approvals"] == [question]
            assert not (tmp_path / "made").exists()
            assert (await second.call("approval/resolve", approval_id=question["approval_id"], decision="allow"))[
                "resolved"
            ]
            end = await second.event("task_complete", start)
            # The same message again is not a second run: the answer that the first client never got.
            again = await second.call("conversation/message", conversation_id="root", text="go", message_id="m-1")
            assert (again["task_id"], again["last_assistant_message"]) == (end["task_id"], "Done.")
            assert (tmp_path / "made").exists()
            after = [event["seq"] for event in second.events[start:] if event["seq"] is not None]
            assert first.numbers + after == list(range(1, after[-1] + 1))
            for event in first.events + second.events:
                page.told(event)


async def test_an_answer_counts_in_the_session_that_asked_and_in_no_other(tmp_path: Path) -> None:
    """B6: an id of another session is unknown, unless that session is named."""
    served = serving_web(tmp_path, [TOUCH, "Done."], "-a", "untrusted")
    async with served as place, place.socket() as asking, place.socket() as stranger:
        session = (await asking.call("initialize", attend=True))["session_id"]
        assert (await stranger.call("initialize", attend=True))["session_id"] != session
        message = await asking.ask("conversation/message", conversation_id="root", text="go")
        id = (await asking.event("approval_request"))["data"]["approval_id"]
        assert (await stranger.call("approval/list"))["approvals"] == []
        with pytest.raises(Refused) as refused:
            await stranger.call("approval/resolve", approval_id=id, decision="allow")
        assert refused.value.code == "not_found"
        assert len((await asking.call("approval/list"))["approvals"]) == 1
        answer = {"approval_id": id, "decision": "deny", "session_id": session}
        assert (await stranger.call("approval/resolve", **answer))["resolved"]
        assert (await asking.answer(message))["status"] == "completed"
        assert not (await asking.call("approval/resolve", approval_id=id, decision="allow"))["resolved"]
        assert not (tmp_path / "made").exists()
        # It followed its own session all the time, and heard nothing of the other.
        assert {event["session_id"] for event in stranger.events} == {stranger.events[0]["session_id"]} != {session}


async def test_clients_of_one_session_see_the_same_and_its_end_is_the_end_for_all(tmp_path: Path) -> None:
    """X-70: numbered events are the same bytes for all, and each client may do everything."""
    async with serving_web(tmp_path, ["one", "two"]) as place, place.socket() as first, place.socket() as second:
        session = (await first.call("initialize", attend=True))["session_id"]
        await second.call("initialize", session_id=session, attend=True)
        await second.call("events/subscribe", after_seq=0)
        conversation = (await first.call("conversation/open", title="of the first"))["conversation_id"]
        await second.call("conversation/message", conversation_id=conversation, text="hi")
        await first.call("conversation/message", conversation_id="root", text="hi")
        last = first.numbers[-1]
        await second.until_seq(last)
        numbered = {event["seq"]: event for event in second.events}
        assert first.numbers == list(range(1, last + 1))
        assert [event for event in first.events if event["seq"]] == [numbered[seq] for seq in first.numbers]
        assert (await second.call("session/close"))["closed"]
        with pytest.raises(Refused) as refused:
            await first.call("conversation/list")
        assert refused.value.code == "closed"


async def test_after_a_restart_a_cursor_still_means_what_it_meant(tmp_path: Path) -> None:
    """DESIGN, events: `epoch` grows with each owner, and numbers go on."""
    async with serving_web(tmp_path, ["one"]) as place, place.socket() as before:
        session = (await before.call("initialize"))["session_id"]
        assert (await before.call("conversation/message", conversation_id="root", text="hi"))["status"] == "completed"
        place.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            assert await place.process.wait() == 0
    async with serving_web(tmp_path, ["two"]) as place, place.socket() as after:
        assert (await after.call("initialize", session_id=session))["session_id"] == session
        await after.call("events/subscribe", after_seq=before.numbers[-1])
        answer = await after.call("conversation/message", conversation_id="root", text="again")
        assert answer["last_assistant_message"] == "two"
        assert {event["epoch"] for event in before.events} == {0}
        assert {event["epoch"] for event in after.events} == {1}
        assert after.numbers[0] > before.numbers[-1]
        history = (await after.call("conversation/history", conversation_id="root"))["entries"]
        assert [entry["text"] for entry in history] == ["hi", "one", "again", "two"]
