"""The questions of elicitations: who asks waits for the first answer, in every ending there is one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import BusyError, ClosedError, InvalidParamsError, NotFoundError
from tertulia.mcp.server_connection import Elicitation, ElicitationResult
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import ElicitationRequest, ElicitationResolved
from tertulia.session.approvals.elicitations import MAX_PENDING, MAX_PENDING_OF_ONE, Elicitations
from tests.tables import each_row
from tests.tools.serving import SCHEMA, Bench

ADA = {"name": "Ada"}


class ElicitationStage:
    """The open questions of servers, and all that it published."""

    def __init__(self, **settings: Any) -> None:
        self.questions = Elicitations(**settings)
        self.bench = Bench()

    @property
    def told(self) -> list[EventData]:
        return self.bench.told

    def start(self, request: Elicitation | None = None, **context: Any) -> asyncio.Task[ElicitationResult]:
        question = request or Elicitation("fs", "Who are you?", SCHEMA)
        return asyncio.create_task(self.questions.ask(question, self.bench.call(**context)))

    async def asked(self, count: int = 1) -> list[ElicitationRequest]:
        await self.bench.until(lambda: len(self.questions.pending()) >= count)
        return self.questions.pending()

    def resolved(self) -> list[ElicitationResolved]:
        return [event for event in self.told if isinstance(event, ElicitationResolved)]


async def test_allowed_with_what_was_asked_for() -> None:
    stage = ElicitationStage()
    asking = stage.start(callers=("root",))
    [event] = await stage.asked()
    assert (event.server, event.message, event.schema, event.url) == ("fs", "Who are you?", SCHEMA, None)
    assert stage.questions.resolve(event.elicitation_id, "allow", ADA)
    assert await asking == ElicitationResult("accept", ADA)
    root = ConversationId("root")
    assert stage.told == [event, ElicitationResolved(event.elicitation_id, "accept", chain=(root,))]
    assert event.chain == (root,)
    assert stage.questions.pending() == []


@each_row(("decision", "action"), [("deny", "decline"), ("cancel", "cancel")])
async def test_denied_is_declined_and_cancelled_is_neither_yes_nor_no(decision: Any, action: Any) -> None:
    stage = ElicitationStage()
    asking = stage.start()
    [event] = await stage.asked()
    with pytest.raises(InvalidParamsError, match="content goes with the decision allow"):
        stage.questions.resolve(event.elicitation_id, decision, ADA)
    assert stage.questions.pending() == [event]
    assert stage.questions.resolve(event.elicitation_id, decision)
    assert await asking == ElicitationResult(action)
    assert [event.action for event in stage.resolved()] == [action]


@each_row("content", [None, {}, {"name": 1}, {"name": "x" * 100_000}])
async def test_what_is_not_what_was_asked_for_is_refused_and_it_goes_on_waiting(content: Any) -> None:
    stage = ElicitationStage()
    asking = stage.start()
    [event] = await stage.asked()
    with pytest.raises(InvalidParamsError, match="content is"):
        stage.questions.resolve(event.elicitation_id, "allow", content)
    assert stage.questions.pending() == [event]
    assert stage.questions.resolve(event.elicitation_id, "allow", ADA)
    assert await asking == ElicitationResult("accept", ADA)


async def test_the_first_answer_counts_and_an_unknown_id_is_not_found() -> None:
    """B6."""
    stage = ElicitationStage()
    asking = stage.start()
    [event] = await stage.asked()
    assert stage.questions.resolve(event.elicitation_id, "deny")
    assert not stage.questions.resolve(event.elicitation_id, "allow", ADA)
    assert await asking == ElicitationResult("decline")
    assert len(stage.resolved()) == 1
    assert stage.questions.gave(event.elicitation_id)
    assert not stage.questions.gave("nobody-1")
    with pytest.raises(NotFoundError, match="there is no elicitation 'nobody-1'"):
        stage.questions.resolve("nobody-1", "allow")


async def test_no_answer_in_time_is_a_cancellation() -> None:
    """B9."""
    stage = ElicitationStage(timeout_s=0.01)
    assert await stage.start() == ElicitationResult("cancel")
    assert [event.action for event in stage.resolved()] == ["cancel"]


async def test_a_call_that_ends_withdraws_its_question() -> None:
    stage = ElicitationStage()
    asking = stage.start()
    [event] = await stage.asked()
    asking.cancel()
    assert stage.questions.pending() == []
    assert not stage.questions.resolve(event.elicitation_id, "allow", ADA)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert [event.action for event in stage.resolved()] == ["cancel"]


async def test_the_end_of_a_conversation_cancels_its_own_questions_and_no_others() -> None:
    stage = ElicitationStage()
    gone, stays = stage.start(conversation="a"), stage.start(conversation="b")
    _, second = await stage.asked(2)
    stage.questions.forget(ConversationId("a"))
    assert await gone == ElicitationResult("cancel")
    assert stage.questions.pending() == [second]
    stage.questions.close()
    assert await stays == ElicitationResult("cancel")
    with pytest.raises(ClosedError):
        await stage.start()
    assert len(stage.told) == 4


async def test_what_shows_in_a_conversation_is_its_own_and_what_it_waits_for() -> None:
    stage = ElicitationStage()
    asking = [stage.start(conversation="a", callers=("root",)), stage.start(conversation="b")]
    first, second = await stage.asked(2)
    assert stage.questions.pending(ConversationId("root")) == stage.questions.pending(ConversationId("a")) == [first]
    assert stage.questions.pending(ConversationId("b")) == [second]
    stage.questions.close()
    await asyncio.gather(*asking)


async def test_a_page_to_visit_takes_no_content() -> None:
    stage = ElicitationStage()
    asking = stage.start(Elicitation("fs", "Log in.", {}, "https://example.org/login?x=1"))
    [event] = await stage.asked()
    assert event.url == "https://example.org/login?x=1"
    with pytest.raises(InvalidParamsError, match="leave out content"):
        stage.questions.resolve(event.elicitation_id, "allow", ADA)
    assert stage.questions.resolve(event.elicitation_id, "allow")
    assert await asking == ElicitationResult("accept")


@each_row(
    "request",
    [
        Elicitation("fs", "m", {}, "javascript:alert(1)"),
        Elicitation("fs", "m", {}, "file:///etc/passwd"),
        Elicitation("fs", "m", {}, "https://example.org/\u202egpj.exe"),
        Elicitation("fs", "m", {}, "https://example.org/" + "x" * 10_000),
        Elicitation("fs", "m", {"type": "nonsense"}),
        Elicitation("fs", "m", {"description": "x" * 100_000}),
        Elicitation("fs", "m", {"a": object()}),
    ],
)
async def test_what_nobody_could_be_asked_is_refused_at_once(request: Elicitation) -> None:
    stage = ElicitationStage()
    with pytest.raises(InvalidParamsError):
        await stage.start(request)
    assert stage.told == []
    assert stage.questions.pending() == []


async def test_a_message_is_shown_escaped_and_bounded() -> None:
    """B10."""
    stage = ElicitationStage()
    asking = stage.start(Elicitation("fs", "\x1b[2J\u202e" + "x" * 1_000_000, SCHEMA))
    [event] = await stage.asked()
    assert "\x1b" not in event.message
    assert "⟨U+202E⟩" in event.message
    assert "sha256" in event.message
    assert len(event.message) < 5_000
    stage.questions.close()
    await asking


async def test_a_form_is_shown_with_nothing_in_it_that_hides() -> None:
    """A6: titles and descriptions are marked; what an answer repeats has to be seen as it is, or is refused."""
    stage = ElicitationStage()
    evil = "a\u202eb\x1b"
    title = {"type": "string", "title": evil, "description": evil, "enum": ["x", "é"], "enumNames": [evil, "y"]}
    form: dict[str, Any] = {
        "type": "object",
        "title": evil,
        "properties": {"title": title, "age": {"type": "integer", "minimum": 1}},
    }
    asking = stage.start(Elicitation("fs", "Who?", form))
    [event] = await stage.asked()
    shown = "a⟨U+202E⟩b⟨U+001B⟩"
    fit = {**title, "title": shown, "description": shown, "enumNames": [shown, "y"]}
    assert event.schema == {**form, "title": shown, "properties": {**form["properties"], "title": fit}}
    assert stage.questions.resolve(event.elicitation_id, "allow", {"title": "é"})
    assert (await asking).content == {"title": "é"}
    for hidden in ({"enum": ["yes", "yes\u200b"]}, {"default": evil}):
        with pytest.raises(InvalidParamsError, match="no person would see"):
            await stage.start(Elicitation("fs", "Who?", {"type": "object", "properties": {"a": hidden}}))
    with pytest.raises(InvalidParamsError, match="no person would see"):
        await stage.start(Elicitation("fs", "Who?", {"type": "object", "properties": {"a\u2066": {}}}))


async def test_only_so_many_wait_of_one_conversation_and_in_all() -> None:
    """B12."""
    stage = ElicitationStage()
    own = [stage.start(conversation="a") for _ in range(MAX_PENDING_OF_ONE)]
    await stage.asked(len(own))
    with pytest.raises(BusyError):
        await stage.start(conversation="a")
    others = [stage.start(conversation=f"c{n // MAX_PENDING_OF_ONE}") for n in range(MAX_PENDING - len(own))]
    await stage.asked(MAX_PENDING)
    with pytest.raises(BusyError):
        await stage.start(conversation="late")
    stage.questions.close()
    assert set(await asyncio.gather(*own, *others)) == {ElicitationResult("cancel")}
    assert len(stage.told) == 2 * MAX_PENDING


async def test_a_task_that_is_over_does_not_keep_the_queue_from_closing() -> None:
    stage = ElicitationStage()

    def publish(event: EventData) -> None:
        if isinstance(event, ElicitationResolved):
            raise asyncio.CancelledError("this task is over")
        stage.bench.publish(event)

    call = stage.bench.call()
    asking = asyncio.create_task(stage.questions.ask(Elicitation("fs", "?", SCHEMA), replace(call, publish=publish)))
    await stage.asked()
    stage.questions.close()
    assert await asking == ElicitationResult("cancel")
