"""The desk of elicitations: who asks waits for the first answer, in every ending there is one."""

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


class Office:
    """A desk, and all that it published."""

    def __init__(self, **settings: Any) -> None:
        self.desk = Elicitations(**settings)
        self.bench = Bench()

    @property
    def told(self) -> list[EventData]:
        return self.bench.told

    def start(self, asked: Elicitation | None = None, **context: Any) -> asyncio.Task[ElicitationResult]:
        question = asked or Elicitation("fs", "Who are you?", SCHEMA)
        return asyncio.create_task(self.desk.ask(question, self.bench.call(**context)))

    async def asked(self, count: int = 1) -> list[ElicitationRequest]:
        await self.bench.until(lambda: len(self.desk.pending()) >= count)
        return self.desk.pending()

    def resolved(self) -> list[ElicitationResolved]:
        return [event for event in self.told if isinstance(event, ElicitationResolved)]


async def test_allowed_with_what_was_asked_for() -> None:
    office = Office()
    asking = office.start(callers=("root",))
    [event] = await office.asked()
    assert (event.server, event.message, event.schema, event.url) == ("fs", "Who are you?", SCHEMA, None)
    assert office.desk.resolve(event.elicitation_id, "allow", ADA)
    assert await asking == ElicitationResult("accept", ADA)
    root = ConversationId("root")
    assert office.told == [event, ElicitationResolved(event.elicitation_id, "accept", chain=(root,))]
    assert event.chain == (root,)
    assert office.desk.pending() == []


async def test_denied_is_declined() -> None:
    office = Office()
    asking = office.start()
    [event] = await office.asked()
    with pytest.raises(InvalidParamsError, match="content goes with the decision allow"):
        office.desk.resolve(event.elicitation_id, "deny", ADA)
    assert office.desk.resolve(event.elicitation_id, "deny")
    assert await asking == ElicitationResult("decline")


@each_row("content", [None, {}, {"name": 1}, {"name": "x" * 100_000}])
async def test_what_is_not_what_was_asked_for_is_refused_and_it_goes_on_waiting(content: Any) -> None:
    office = Office()
    asking = office.start()
    [event] = await office.asked()
    with pytest.raises(InvalidParamsError, match="content is"):
        office.desk.resolve(event.elicitation_id, "allow", content)
    assert office.desk.pending() == [event]
    assert office.desk.resolve(event.elicitation_id, "allow", ADA)
    assert await asking == ElicitationResult("accept", ADA)


async def test_the_first_answer_counts_and_an_unknown_id_is_not_found() -> None:
    """B6."""
    office = Office()
    asking = office.start()
    [event] = await office.asked()
    assert office.desk.resolve(event.elicitation_id, "deny")
    assert not office.desk.resolve(event.elicitation_id, "allow", ADA)
    assert await asking == ElicitationResult("decline")
    assert len(office.resolved()) == 1
    assert office.desk.gave(event.elicitation_id)
    assert not office.desk.gave("nobody-1")
    with pytest.raises(NotFoundError, match="there is no elicitation 'nobody-1'"):
        office.desk.resolve("nobody-1", "allow")


async def test_no_answer_in_time_is_a_cancellation() -> None:
    """B9."""
    office = Office(timeout_s=0.01)
    assert await office.start() == ElicitationResult("cancel")
    assert [event.action for event in office.resolved()] == ["cancel"]


async def test_a_call_that_ends_withdraws_its_question() -> None:
    office = Office()
    asking = office.start()
    [event] = await office.asked()
    asking.cancel()
    assert office.desk.pending() == []
    assert not office.desk.resolve(event.elicitation_id, "allow", ADA)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert [each.action for each in office.resolved()] == ["cancel"]


async def test_the_end_of_a_conversation_cancels_its_own_questions_and_no_others() -> None:
    office = Office()
    gone, stays = office.start(conversation="a"), office.start(conversation="b")
    _, second = await office.asked(2)
    office.desk.forget(ConversationId("a"))
    assert await gone == ElicitationResult("cancel")
    assert office.desk.pending() == [second]
    office.desk.close()
    assert await stays == ElicitationResult("cancel")
    with pytest.raises(ClosedError):
        await office.start()
    assert len(office.told) == 4


async def test_what_shows_in_a_conversation_is_its_own_and_what_it_waits_for() -> None:
    office = Office()
    asking = [office.start(conversation="a", callers=("root",)), office.start(conversation="b")]
    first, second = await office.asked(2)
    assert office.desk.pending(ConversationId("root")) == office.desk.pending(ConversationId("a")) == [first]
    assert office.desk.pending(ConversationId("b")) == [second]
    office.desk.close()
    await asyncio.gather(*asking)


async def test_a_page_to_visit_takes_no_content() -> None:
    office = Office()
    asking = office.start(Elicitation("fs", "Log in.", {}, "https://example.org/login?x=1"))
    [event] = await office.asked()
    assert event.url == "https://example.org/login?x=1"
    with pytest.raises(InvalidParamsError, match="leave out content"):
        office.desk.resolve(event.elicitation_id, "allow", ADA)
    assert office.desk.resolve(event.elicitation_id, "allow")
    assert await asking == ElicitationResult("accept")


@each_row(
    "asked",
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
async def test_what_nobody_could_be_asked_is_refused_at_once(asked: Elicitation) -> None:
    office = Office()
    with pytest.raises(InvalidParamsError):
        await office.start(asked)
    assert office.told == []
    assert office.desk.pending() == []


async def test_a_message_is_shown_escaped_and_bounded() -> None:
    """B10."""
    office = Office()
    asking = office.start(Elicitation("fs", "\x1b[2J\u202e" + "x" * 1_000_000, SCHEMA))
    [event] = await office.asked()
    assert "\x1b" not in event.message
    assert "⟨U+202E⟩" in event.message
    assert "sha256" in event.message
    assert len(event.message) < 5_000
    office.desk.close()
    await asking


async def test_a_form_is_shown_with_nothing_in_it_that_hides() -> None:
    """A6: titles and descriptions are marked; what an answer repeats has to be seen as it is, or is refused."""
    office = Office()
    evil = "a\u202eb\x1b"
    title = {"type": "string", "title": evil, "description": evil, "enum": ["x", "é"], "enumNames": [evil, "y"]}
    form: dict[str, Any] = {
        "type": "object",
        "title": evil,
        "properties": {"title": title, "age": {"type": "integer", "minimum": 1}},
    }
    asking = office.start(Elicitation("fs", "Who?", form))
    [event] = await office.asked()
    shown = "a⟨U+202E⟩b⟨U+001B⟩"
    fit = {**title, "title": shown, "description": shown, "enumNames": [shown, "y"]}
    assert event.schema == {**form, "title": shown, "properties": {**form["properties"], "title": fit}}
    assert office.desk.resolve(event.elicitation_id, "allow", {"title": "é"})
    assert (await asking).content == {"title": "é"}
    for hidden in ({"enum": ["yes", "yes\u200b"]}, {"default": evil}):
        with pytest.raises(InvalidParamsError, match="no person would see"):
            await office.start(Elicitation("fs", "Who?", {"type": "object", "properties": {"a": hidden}}))
    with pytest.raises(InvalidParamsError, match="no person would see"):
        await office.start(Elicitation("fs", "Who?", {"type": "object", "properties": {"a\u2066": {}}}))


async def test_only_so_many_wait_of_one_conversation_and_in_all() -> None:
    """B12."""
    office = Office()
    own = [office.start(conversation="a") for _ in range(MAX_PENDING_OF_ONE)]
    await office.asked(len(own))
    with pytest.raises(BusyError):
        await office.start(conversation="a")
    others = [office.start(conversation=f"c{n // MAX_PENDING_OF_ONE}") for n in range(MAX_PENDING - len(own))]
    await office.asked(MAX_PENDING)
    with pytest.raises(BusyError):
        await office.start(conversation="late")
    office.desk.close()
    assert set(await asyncio.gather(*own, *others)) == {ElicitationResult("cancel")}
    assert len(office.told) == 2 * MAX_PENDING


async def test_a_task_that_is_over_does_not_keep_the_desk_from_closing() -> None:
    office = Office()

    def publish(event: EventData) -> None:
        if isinstance(event, ElicitationResolved):
            raise asyncio.CancelledError("this task is over")
        office.bench.publish(event)

    call = office.bench.call()
    asking = asyncio.create_task(office.desk.ask(Elicitation("fs", "?", SCHEMA), replace(call, publish=publish)))
    await office.asked()
    office.desk.close()
    assert await asking == ElicitationResult("cancel")
