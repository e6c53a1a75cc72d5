"""The inside of a conversation: what is said in it, what waits, and how it takes new terms."""

from __future__ import annotations

import gc
import weakref

import pytest
from msgspec.structs import replace

from tertulia.conversation.resolve_terms import resolve_terms
from tertulia.conversation.state import MAX_PENDING, ConversationState
from tertulia.conversation.task_handle import TaskHandle
from tertulia.conversation.terms import Terms
from tertulia.errors import BusyError, InternalError
from tertulia.policy.approval_policy import NEVER
from tertulia.policy.limits import Limits
from tertulia.policy.rights import TOP
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.protocol.inputs import ContextFields
from tertulia.protocol.items import Item, ToolOutput, UserMessage
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import HeadersOnly
from tests.conversation.conversations import OTHER_WIRE, KeepingJournal, make_conversation, terms, terms_base
from tests.events.scripted import StillClock
from tests.history.items import call, model, output, user
from tests.tables import each_row


def heads(items: list[Item]) -> list[str]:
    """The tags of injected messages, the texts of the rest."""
    return [
        item.text.partition(">")[0] + ">"
        if isinstance(item, UserMessage) and item.injected
        else getattr(item, "text", "")
        for item in items
    ]


def said(conversation: ConversationState) -> list[Item]:
    return list(conversation.history.snapshot())


def changed(conversation: ConversationState, **fields: object) -> Terms:
    """New terms as a client would ask for them."""
    return resolve_terms(ContextFields(**fields), conversation.terms, terms_base()).terms  # pyright: ignore[reportArgumentType]


# ---- its beginning


def test_a_history_begins_with_the_users_instructions_and_the_environment() -> None:
    """S000-13, S000-03, S000-33: base instructions are never in it."""
    conversation = make_conversation(terms(base="the secret handshake", user="Answer in Spanish."))
    conversation.seed()
    assert heads(said(conversation)) == ["<user_instructions>", "<environment_context>"]
    assert not any("handshake" in getattr(item, "text", "") for item in said(conversation))


def test_without_instructions_a_history_begins_with_the_environment_alone() -> None:
    """S000-15"""
    conversation = make_conversation()
    conversation.seed()
    assert heads(said(conversation)) == ["<environment_context>"]


def test_the_seeds_are_kept_by_the_conversations_own_policy_and_counted_by_nobody() -> None:
    """S002-03"""
    journal = KeepingJournal()
    conversation = make_conversation(terms(replace(TOP, storage_policy=HeadersOnly()), user="x"), journal=journal)
    conversation.seed()
    assert journal.kept == [ItemsRecord(ConversationId("c"), tuple(said(conversation)), pinned=True, seed=True)]
    assert conversation.history.totals.message_count == 0


def test_the_limits_of_a_history_are_those_of_the_rights() -> None:
    limited = replace(TOP, limits=Limits(max_history_tokens=100, max_history_items=7))
    conversation = make_conversation(terms(limited))
    conversation.seed()
    assert (conversation.history.limits.max_tokens, conversation.history.limits.max_items) == (100, 7)


# ---- its state


async def test_the_status_tells_what_a_conversation_does() -> None:
    conversation = make_conversation()
    assert conversation.status == "idle"
    conversation.awaiting = 1
    assert conversation.status == "waiting"
    conversation.task = TaskHandle(TaskId("t"), 0.0)
    assert conversation.status == "running"
    conversation.closed = True
    assert conversation.status == "closed"


def test_what_happens_in_a_conversation_makes_it_active() -> None:
    """S004-23: every write does."""
    clock = StillClock(100.0)
    conversation = make_conversation(clock=clock)
    assert conversation.last_active == 100.0
    clock.seconds = 200.0
    conversation.say([user("a")])
    assert conversation.last_active == 200.0
    clock.seconds = 300.0
    conversation.queue_input(user("b"))
    conversation.say([])
    assert conversation.last_active == 200.0, "nothing was said yet"
    conversation.touch()
    assert conversation.last_active == 300.0


async def test_a_conversation_is_gone_when_its_owner_lets_go() -> None:
    """S002-10, G8: no cycle, with a task that ended and with one that still runs."""
    gc.disable()
    try:
        for ended in (True, False):
            conversation = make_conversation()
            conversation.seed()
            conversation.say([user(), call("a"), output("a"), model()])
            conversation.task = handle = TaskHandle(TaskId("t"), 0.0)
            if ended:
                handle.end()
            seen = weakref.ref(conversation)
            del conversation
            assert seen() is None
    finally:
        gc.enable()


# ---- what is said


def test_what_is_said_is_appended_once_and_kept_once() -> None:
    """S002-23"""
    journal = KeepingJournal()
    conversation = make_conversation(journal=journal)
    first, second = user("a"), model("b")
    conversation.say([first])
    conversation.say([second])
    assert said(conversation) == journal.items == [first, second]
    assert len(journal.kept) == 2


def test_saying_nothing_keeps_nothing() -> None:
    journal = KeepingJournal()
    make_conversation(journal=journal).say([])
    assert journal.kept == []


def test_what_cannot_be_said_is_neither_appended_nor_kept() -> None:
    """X-34: history and record agree."""
    journal = KeepingJournal()
    conversation = make_conversation(journal=journal)
    conversation.say([user("a")])
    with pytest.raises(InternalError):
        conversation.say([output("nobody asked")])
    assert heads(said(conversation)) == ["a"]
    assert len(journal.kept) == 1


# ---- pending input


def test_pending_input_joins_the_history_when_it_is_taken() -> None:
    """S000-03, S002-23, X-13"""
    conversation = make_conversation()
    assert (conversation.has_pending, conversation.take_pending()) == (False, False)
    conversation.queue_input(user("a"))
    conversation.queue_input(user("b"))
    assert conversation.has_pending
    assert said(conversation) == []
    assert conversation.take_pending() is True
    assert heads(said(conversation)) == ["a", "b"]
    assert (conversation.has_pending, conversation.take_pending()) == (False, False)
    assert heads(said(conversation)) == ["a", "b"]


def test_pending_input_is_bounded() -> None:
    """G1: what nobody takes cannot grow without end; a refusal changes nothing."""
    conversation = make_conversation()
    for number in range(MAX_PENDING):
        conversation.queue_input(user(str(number)))
    with pytest.raises(BusyError, match="100 messages"):
        conversation.queue_input(user("one too many"))
    conversation.take_pending()
    assert heads(said(conversation)) == [str(number) for number in range(MAX_PENDING)]
    conversation.queue_input(user("there is room again"))


# ---- new terms


def test_new_instructions_are_appended_as_a_new_message_and_nothing_is_rewritten() -> None:
    """X-67, S000-34"""
    journal = KeepingJournal()
    conversation = make_conversation(terms(user="first"), journal=journal)
    conversation.seed()
    conversation.say([user("hello"), model("hi")])
    before, revision = said(conversation), conversation.history.revision
    conversation.adopt(changed(conversation, user_instructions="second"))
    *earlier, added = said(conversation)
    assert all(one is other for one, other in zip(earlier, before, strict=True))
    assert conversation.history.revision == revision
    assert isinstance(added, UserMessage)
    assert (added.text, added.injected) == ("<user_instructions>\n\nsecond\n\n</user_instructions>", True)
    assert journal.items[-1] is added


@each_row(
    "fields",
    [
        {},
        {"user_instructions": "first"},
        {"base_instructions": "other", "model": "acme/two"},
        {"include_plan_tool": False},
    ],
)
def test_what_brings_no_new_instructions_adds_no_message(fields) -> None:
    """X-67: absent keeps, null resets; the history stays as it is."""
    conversation = make_conversation(terms(user="first"))
    conversation.seed()
    before = said(conversation)
    conversation.adopt(changed(conversation, **fields))
    assert said(conversation) == before


@each_row(
    ("fields", "expected"),
    [
        ({"user_instructions": None}, "no longer hold"),
        ({"user_instructions": ""}, "no longer hold"),
        ({"cwd": "/elsewhere"}, "<cwd>/elsewhere</cwd>"),
        ({"sandbox": "read-only"}, "<sandbox_mode>read-only</sandbox_mode>"),
    ],
)
def test_the_model_is_told_of_what_no_longer_holds_and_trimming_keeps_it(fields, expected) -> None:
    """X-67, S002-24: a history is added to, never rewritten; the newest word is pinned like the one it replaces."""
    conversation = make_conversation(terms(user="first"))
    conversation.seed()
    conversation.adopt(changed(conversation, **fields))
    added = said(conversation)[-1]
    assert isinstance(added, UserMessage)
    assert expected in added.text
    assert added.injected
    assert list(conversation.history.snapshot().segments())[-1].pinned


def test_new_terms_hold_from_the_next_request_on() -> None:
    """S000-34, S002-03"""
    conversation = make_conversation(terms(base="old"))
    fields = {"base_instructions": "new", "model": "acme/two", "limits": {"max_history_items": 3}}
    conversation.adopt(changed(conversation, **fields))
    assert conversation.terms.context.base_instructions == "new"
    assert conversation.terms.wire is OTHER_WIRE
    assert conversation.history.limits.max_items == 3


def test_instructions_never_come_between_a_call_and_its_output() -> None:
    """X-34, X-67: some models accept nothing there. They are read after the output, at the next request."""
    conversation = make_conversation(terms(user="first"))
    conversation.say([user("go"), call("a")])
    conversation.adopt(changed(conversation, user_instructions="second"))
    assert conversation.terms.context.user_instructions == "second"
    conversation.say([output("a")])
    conversation.take_pending()
    _, question, answered, instructed = said(conversation)
    assert isinstance(answered, ToolOutput)
    assert getattr(question, "call_id", None) == answered.call_id
    assert "second" in getattr(instructed, "text", "")


def test_terms_that_cannot_be_told_are_not_adopted() -> None:
    """A refusal leaves the old terms and the old history, also where half of the news would still fit."""
    conversation = make_conversation(terms(user="first"))
    conversation.say([call("a")])
    for _ in range(MAX_PENDING - 1):
        conversation.queue_input(user())
    before = (conversation.terms, said(conversation), conversation.history.limits)
    with pytest.raises(BusyError):
        conversation.adopt(changed(conversation, user_instructions="second", cwd="/else"))
    assert (conversation.terms, said(conversation), conversation.history.limits) == before
    conversation.queue_input(user())
    with pytest.raises(BusyError):
        conversation.adopt(changed(conversation, user_instructions="second", limits={"max_history_items": 3}))
    assert (conversation.terms, said(conversation), conversation.history.limits) == before


# ---- a turn's own context


def test_a_turn_is_given_the_rights_of_the_chain_and_the_conversations_model() -> None:
    """S000-07, X-32: a resolved copy, made anew for each turn."""
    conversation = make_conversation(terms(cwd="/here"))
    chain = replace(TOP, approval_policy=NEVER, sandbox="read_only", storage_policy=HeadersOnly())
    turn = conversation.turn_context(chain, {"inherit": "core"})
    assert turn.client is conversation.terms.wire
    assert turn.cwd == "/here"
    assert (turn.approval_policy, turn.sandbox_policy, turn.storage_policy) == (NEVER, "read_only", HeadersOnly())
    assert turn.shell_environment_policy == {"inherit": "core"}
