"""Compaction on request: the model writes the notes, and the conversation's own words are not touched."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tertulia
from tertulia.prompt.request import builtin_text
from tertulia.protocol.items import Summary, ToolCall, ToolOutput
from tertulia.testing import ScriptedModel, ScriptedReply, assert_order, call, fail, say
from tests.session.staging import Ask, Stage, stage, ticks
from tests.tables import each_row

LONG = "a long answer about many things " * 40


async def hold_conversation(on: Stage, conversation: tertulia.Conversation, rounds: int = 4) -> None:
    for number in range(rounds):
        await conversation.message(f"question {number}")


def model(*replies: Any) -> ScriptedModel:
    """Long answers in the conversation; these for the notes."""
    notes = list(replies)

    def reply(request: Any) -> Any:
        return notes.pop(0) if request.instructions == builtin_text("compact") else say(LONG)

    return ScriptedModel([reply], repeat=True)


async def test_the_older_part_is_replaced_by_the_models_notes() -> None:
    """S000-39, X-22: in any conversation, not only in root."""
    async with stage(model=model("the notes")) as on:
        conversation = await on.session.open(base_instructions="Be kind.")
        await hold_conversation(on, conversation)
        before = conversation.info.message_count
        done = await conversation.compact()
        assert (done.compacted, done.reason) == (True, None)
        assert done.after_tokens < done.before_tokens
        summaries = [
            item
            for item in on.parts.conversations.find(conversation.id).history.snapshot()
            if isinstance(item, Summary)
        ]
        assert [item.text for item in summaries] == ["the notes"]
        assert conversation.info.message_count < before
        await conversation.message("go on")
        assert any(isinstance(item, Summary) for item in on.model.last_request.items)


async def test_the_compact_text_is_for_that_one_request_and_without_tools() -> None:
    """S000-10, S000-39: compact and normal instructions differ; nothing is written back."""
    async with stage(model=model("the notes")) as on:
        conversation = await on.session.open(base_instructions="Be kind.")
        await hold_conversation(on, conversation)
        before = (await conversation.context()).base_instructions
        await conversation.compact()
        request = on.model.last_request
        assert request.instructions == builtin_text("compact")
        assert request.tools == ()
        assert "question 0" in str([item.text for item in request.items])
        assert request.items[-1].text.startswith("<compact>")
        assert (await conversation.context()).base_instructions == before == "Be kind."
        await conversation.message("go on")
        assert on.model.last_request.instructions == "Be kind."
        assert "<compact>" not in str([item.text for item in on.model.last_request.items])


@pytest.mark.parametrize("base", [None, "Be kind."])
@each_row("ending", ["raises", "says nothing", "is stopped", "is given up"])
async def test_whatever_becomes_of_it_the_conversation_is_as_before(base: str | None, ending: str) -> None:
    """S000-10: byte-identical before and after, including when the compact turn fails or is cancelled."""
    notes: dict[str, Any] = {
        "raises": RuntimeError("broken"),
        "says nothing": say(""),
        "is stopped": say("never", gate=asyncio.Event()),
        "is given up": say("never", gate=asyncio.Event()),
    }
    async with stage(model=model(notes[ending])) as on:
        conversation = await on.session.open(base_instructions=base)
        await hold_conversation(on, conversation)
        state = on.parts.conversations.find(conversation.id)
        terms, items = state.terms, list(state.history.snapshot())
        count = len(on.model.requests)
        running = on.begin(conversation.compact())
        await on.asked(count + 1)
        if ending == "is stopped":
            await conversation.interrupt()
        if ending == "is given up":
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled()
            await ticks()
        else:
            done = await running
            assert not done.compacted
            assert done.reason
            assert done.before_tokens == done.after_tokens
        assert state.terms is terms
        assert list(state.history.snapshot()) == items
        on.check_idle()
        await conversation.message("go on")
        assert (on.model.last_request.instructions == base) is (base is not None)
        assert on.model.last_request.instructions != builtin_text("compact")


@pytest.mark.parametrize("base", [None, "Be kind."])
@pytest.mark.parametrize("notes", [fail("no luck"), ScriptedReply(text="half the no", cut=True)])
async def test_where_the_model_writes_no_notes_a_local_summary_stands_in(base: str | None, notes: Any) -> None:
    """S000-10, X-65: the conversation's instructions are as before, and nothing of half written notes stays."""
    async with stage(model=model(notes)) as on:
        conversation = await on.session.open(base_instructions=base)
        await hold_conversation(on, conversation)
        done = await conversation.compact()
        assert done.compacted
        assert done.after_tokens < done.before_tokens
        warned = next(e for e in on.events.drain() if e.type == "warning" and "local summary" in e.data.message)
        assert warned.data.code == "model_error"
        texts = [item.text for item in on.parts.conversations.find(conversation.id).history.snapshot()]
        assert not any("half the no" in text for text in texts)
        assert (await conversation.context()).base_instructions == base
        on.check_idle()


async def test_a_compaction_is_a_task_with_events_and_costs() -> None:
    async with stage(model=model("the notes")) as on:
        await hold_conversation(on, on.root)
        on.events.drain()
        seen = len(on.events.seen)
        await on.root.compact()
        events = on.events.drain()[seen:]
        assert_order(events, ["task_started", "token_count", "history_compacted", "task_complete"])
        compacted = next(e for e in events if e.type == "history_compacted")
        assert (compacted.data.trigger, compacted.data.compacted) == ("request", True)
        assert events[-1].data.usage.total_tokens > 0
        assert "agent_message" not in [e.type for e in events]
        assert events[0].sub_id.startswith("sub/")


async def test_it_waits_for_its_turn_like_everybody() -> None:
    gate = asyncio.Event()
    async with stage(model=ScriptedModel([say("first", gate=gate), say(LONG, repeat=True)])) as on:
        running = on.begin(on.root.message("one"))
        await on.asked(1)
        compacting = on.begin(on.root.compact())
        await ticks()
        assert not compacting.done()
        gate.set()
        assert (await running).text == "first"
        assert not (await compacting).compacted


async def test_a_short_conversation_has_nothing_to_compact_and_asks_nobody() -> None:
    async with stage("ok") as on:
        done = await on.root.compact()
        assert (done.compacted, bool(done.reason)) == (False, True)
        assert not on.model.requests


async def test_a_conversation_that_waits_can_be_compacted_when_its_chain_has_ended_and_pairs_stay_together() -> None:
    """S002-24: a compaction never parts a call from its output."""
    async with stage(model=model("the notes"), tools=[Ask()]) as on:
        await hold_conversation(on, on.root, 3)
        other = await on.session.open()
        replies = iter([say("", call("ask", {"to": other.id}, "c1")), say(LONG), say(LONG)])
        on.model._cues._in_turn.appendleft((99, lambda request: next(replies)))
        await on.root.message("ask")
        await hold_conversation(on, on.root, 2)
        assert (await on.root.compact()).compacted
        snapshot = list(on.parts.conversations.root.history.snapshot())
        calls = {item.call_id for item in snapshot if isinstance(item, ToolCall)}
        assert calls == {item.call_id for item in snapshot if isinstance(item, ToolOutput)}


async def test_closed_conversations_cannot_be_compacted() -> None:
    async with stage() as on:
        conversation = await on.session.open()
        await conversation.close()
        with pytest.raises(tertulia.errors.ClosedError):
            await conversation.compact()
