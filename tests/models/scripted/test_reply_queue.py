"""Which reply answers which request."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tertulia.models.scripted.script import Match, QueuedReply, ReplyQueue, ScriptedRequest, say
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.items import AssistantMessage, Item, ToolCall, ToolOutput, UserMessage, text_parts
from tertulia.protocol.tool_spec import ToolSpec
from tests.models.wire_contract import a_request


def asked(text: str = "Hello", instructions: str = "You are a test.") -> ScriptedRequest:
    return ScriptedRequest(a_request(text, instructions=instructions))


def taken(cues: ReplyQueue, *texts: str) -> list[str | None]:
    return [_text(cues.take(asked(text))) for text in texts]


def _text(cue: QueuedReply | None) -> str | None:
    return None if cue is None else cue.text


class OneWay:
    """A history that can be walked again and again, but only forwards."""

    def __init__(self, *items: Item) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)


def test_replies_are_used_in_order_and_once() -> None:
    cues = ReplyQueue([say("one"), say("two")], repeat=False)
    assert (cues.total, cues.unused) == (2, 2)
    assert taken(cues, "a", "b", "c", "d") == ["one", "two", None, None]
    assert (cues.total, cues.unused) == (2, 0)


def test_a_reply_that_matches_is_used_before_its_turn_and_once() -> None:
    cues = ReplyQueue([say("one"), say("sun", match="weather"), say("two")], repeat=False)
    assert taken(cues, "The weather?", "The weather?", "The weather?", "The weather?") == [
        "sun",
        "one",
        "two",
        None,
    ]


def test_a_reply_that_does_not_match_is_never_used() -> None:
    cues = ReplyQueue([say("sun", match="weather"), say("one")], repeat=False)
    assert taken(cues, "a", "b") == ["one", None]
    assert (cues.unused, cues.waiting) == (1, 1)
    assert taken(cues, "weather") == ["sun"]
    assert (cues.unused, cues.waiting) == (0, 0)


def test_the_first_of_several_that_match_is_used_first() -> None:
    cues = ReplyQueue([say("first", match="a"), say("second", match="a")], repeat=False)
    assert taken(cues, "a", "a", "a") == ["first", "second", None]


def test_a_repeating_match_answers_each_time_it_matches() -> None:
    cues = ReplyQueue([say("sun", match="weather", repeat=True), say("one")], repeat=False)
    assert taken(cues, "weather", "weather", "a", "weather", "a") == ["sun", "sun", "one", "sun", None]
    assert (cues.unused, cues.waiting) == (0, 1)


def test_a_repeating_reply_without_a_match_answers_from_then_on() -> None:
    cues = ReplyQueue([say("one"), say("always", repeat=True), say("never")], repeat=False)
    assert taken(cues, "a", "b", "c", "d") == ["one", "always", "always", "always"]
    assert cues.unused == 1


def test_a_script_that_repeats_begins_again_and_counts_each_reply_as_used_once() -> None:
    cues = ReplyQueue([say("one"), say("sun", match="weather"), say("two")], repeat=True)
    assert taken(cues, "a", "weather", "b", "weather", "c") == ["one", "sun", "two", "sun", "one"]
    assert cues.unused == 0


def test_a_match_can_look_at_the_conversation() -> None:
    cues = ReplyQueue([say("fine", match=Match(conversation="review"))], repeat=False)
    assert cues.take(asked("a", "You write.")) is None
    assert _text(cues.take(asked("a", "You review."))) == "fine"


def test_no_replies_answer_nothing() -> None:
    assert taken(ReplyQueue([], repeat=False), "a") == [None]
    assert taken(ReplyQueue([], repeat=True), "a") == [None]


def test_the_last_input_is_the_newest_message_or_output_that_we_did_not_inject() -> None:
    first = UserMessage(new_item_id(), text_parts("first"))
    call = ToolCall(new_item_id(), CallId("call_1"), "shell", "{}")
    output = ToolOutput(new_item_id(), CallId("call_1"), text_parts("done"))
    answer = AssistantMessage(new_item_id(), text_parts("answer"))
    injected = UserMessage(new_item_id(), text_parts("<environment>"), injected=True)
    for history, last_input in (
        ([first], "first"),
        ([first, call], "first"),
        ([first, call, output], "done"),
        ([first, call, output, answer, injected], "done"),
        ([output, first], "first"),
        ([injected, answer], ""),
        ([], ""),
    ):
        assert ScriptedRequest(a_request(items=history)).last_input == last_input


def test_a_history_that_only_goes_forwards_will_do() -> None:
    first, last = (UserMessage(new_item_id(), text_parts(text)) for text in ("first", "last"))
    request = a_request(items=[first, last])
    forwards = ScriptedRequest(msgspec.structs.replace(request, items=OneWay(first, last)))
    assert forwards.last_input == "last"
    assert forwards.items == (first, last)


def test_what_was_asked_can_be_read() -> None:
    request = a_request("Hi", instructions="Be kind.", tools=(ToolSpec.define("b", ""), ToolSpec.define("a", "")))
    question = ScriptedRequest(request)
    assert question.conversation_id == request.conversation_id
    assert question.instructions == "Be kind."
    assert question.tools == ("b", "a")
    assert question.cache_key == "key"
    assert question.items == tuple(request.items)
    assert question.request is request
