"""A history within its limits and within the model's window."""

from __future__ import annotations

import msgspec

from tertulia.conversation.compaction import compacted_event, trim_for_overflow, trim_to_limits
from tertulia.history.compaction import Compaction
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.policy.limits import Limits
from tertulia.policy.rights import TOP
from tertulia.protocol.ids import ItemId
from tertulia.protocol.items import AssistantMessage, Summary, TextPart, UserMessage
from tertulia.testing import say
from tests.conversation.task_stage import TaskStage, task_stage
from tests.session.staging import stage


def hold_conversation(on: TaskStage, rounds: int, words: int = 50) -> None:
    for number in range(rounds):
        on.conversation.say([UserMessage(ItemId(f"u{number}"), (TextPart(f"question {number} " * words),))])
        on.conversation.say([AssistantMessage(ItemId(f"a{number}"), (TextPart(f"answer {number} " * words),))])


def limited(**limits: int) -> TaskStage:
    rights = msgspec.structs.replace(TOP, limits=msgspec.structs.replace(Limits(), **limits))
    return task_stage(rights=rights)


async def test_a_history_within_its_limits_is_left_alone_and_nothing_is_said() -> None:
    on = limited(max_history_items=100)
    hold_conversation(on, 5)
    trim_to_limits(on.scope)
    assert (on.conversation.history.totals.item_count, on.told()) == (10, [])


async def test_a_history_over_its_limits_is_trimmed_and_it_is_said() -> None:
    """S002-21, S002-22: both thresholds; a summary takes the place."""
    for limits in ({"max_history_items": 12}, {"max_history_tokens": 2_000}):
        on = limited(**limits)
        hold_conversation(on, 20)
        trim_to_limits(on.scope)
        assert not on.conversation.history.over_limit()
        (event,) = on.told()
        assert (event.type, event.data.trigger, event.data.compacted) == ("history_compacted", "limit", True)
        assert event.data.after_tokens < event.data.before_tokens
        assert event.data.removed_items > 0
        assert any(isinstance(item, Summary) for item in on.conversation.history.snapshot())


async def test_room_is_made_for_half_of_the_window_or_half_of_what_there_is() -> None:
    """The provider's count is not ours: after an overflow there must be room to spare."""
    small = task_stage(wire=ScriptedModel([], context_window=1_000))
    hold_conversation(small, 20)
    assert trim_for_overflow(small.scope)
    assert small.conversation.history.approx_tokens <= 500
    large = task_stage(wire=ScriptedModel([], context_window=1_000_000))
    hold_conversation(large, 20)
    before = large.conversation.history.approx_tokens
    assert trim_for_overflow(large.scope)
    assert large.conversation.history.approx_tokens <= before / 2
    (event,) = large.told()
    assert event.data.trigger == "overflow"


async def test_where_nothing_can_go_there_is_no_room_and_the_reason_is_said() -> None:
    on = task_stage(wire=ScriptedModel([], context_window=10))
    hold_conversation(on, 1)
    assert not trim_for_overflow(on.scope)
    (event,) = on.told()
    assert not event.data.compacted
    assert event.data.reason
    assert on.conversation.history.totals.item_count == 2


def test_the_event_says_what_the_compaction_came_to() -> None:
    event = compacted_event(Compaction(False, 10, 10, 0, "why"), "request")
    assert (event.compacted, event.before_tokens, event.after_tokens) == (False, 10, 10)
    assert (event.removed_items, event.trigger, event.reason) == (0, "request", "why")


async def test_a_long_conversation_stays_within_its_limits_turn_after_turn() -> None:
    """S002-28, HARDENING: a long conversation does not exhaust memory; every trim is an event."""
    async with stage(say("a" * 200, repeat=True), limits={"max_history_items": 30}) as on:
        for number in range(60):
            await on.root.message(f"q{number}")
            assert on.parts.conversations.root.history.totals.item_count <= 32
        trimmed = [e for e in on.events.drain() if e.type == "history_compacted"]
        assert len(trimmed) > 2
        assert all(e.data.trigger == "limit" and e.data.compacted for e in trimmed)
        items = on.model.last_request.items
        assert items[0].text.startswith("<environment_context>")
        assert on.model.last_request.last_input == "q59"
