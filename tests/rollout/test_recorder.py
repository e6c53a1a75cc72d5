"""The journal of a session: in order, whole, and under the policy that holds."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import ClosedError, StorageError, StoragePolicyViolationError
from tertulia.events.journal import Journal
from tertulia.policy.redaction import Redactor
from tertulia.protocol.events import AgentMessage, BackgroundEvent, ConversationOpened, Event, TaskStarted
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.records import ItemsRecord, Record
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl, strictest
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.row_reader import RowReader, read_rows
from tertulia.rollout.recorder import Recorder
from tertulia.rollout.store import Row
from tests.deadlines import HANG_S
from tests.events.scripted import StillClock, ticks
from tests.rollout.recording import (
    A,
    B,
    ListStore,
    agreed,
    assistant,
    bodies,
    call,
    event,
    output,
    unredacted,
    user,
)
from tests.tables import each_row


def recorder(store: ListStore, **options: Any) -> Recorder:
    return Recorder(store, StillClock(5.0), unredacted, **options)


def recording(policy: StoragePolicy, *, at_once: bool = True) -> tuple[ListStore, Recorder]:
    """A recorder of a conversation with this policy, and its store."""
    store = ListStore(at_once=at_once)
    journal = recorder(store)
    journal.keep(agreed(policy))
    return store, journal


def message(text: str, seq: int = 1, conversation: ConversationId | None = A) -> Event:
    return event(BackgroundEvent(text), conversation, seq)


def items_record(text: str, conversation: ConversationId = A) -> ItemsRecord:
    return ItemsRecord(conversation, (user(text, id=text),))


def texts(store: ListStore) -> list[str]:
    """What can be read of messages and items, in order."""
    found: list[str] = []
    for line in read_rows(store.stored):
        if isinstance(line.what, ItemsRecord):
            found += [item.text for item in line.what.items]
        elif isinstance(line.what, Event):
            found.append(line.what.data["message"])
    return found


async def turn(journal: Recorder) -> None:
    """Commit what has come together."""
    journal.hurry()
    await ticks()


def outcome(future: asyncio.Future[None] | None) -> str | None:
    assert future is not None
    if not future.done():
        return "open"
    error = future.exception()
    return "committed" if error is None else str(error)


def test_it_is_a_journal_over_a_store() -> None:
    store = ListStore()
    made = recorder(store)
    journal: Journal = made

    assert made.store is store
    assert journal is made


# ── order and batches ────────────────────────────────────────────────────────────────────────────────────────


async def test_what_happens_together_is_committed_together_and_in_order() -> None:
    store, journal = recording(Full(), at_once=False)
    journal.keep(items_record("one"))
    first = journal.write(message("two"))
    journal.keep(items_record("three"))
    second = journal.write(message("four", 2))
    await turn(journal)

    assert len(store.log) == 1
    assert (outcome(first), outcome(second)) == ("open", "open")
    store.work()
    assert (outcome(first), outcome(second)) == ("committed", "committed")
    assert texts(store) == ["one", "two", "three", "four"]


async def test_what_nobody_waits_for_is_committed_a_moment_later() -> None:
    store, journal = recording(Full())
    journal.keep(items_record("one"))
    written = journal.write(message("two"))
    assert written is not None

    await asyncio.wait_for(written, HANG_S)

    assert texts(store) == ["one", "two"]


async def test_who_watches_is_told_when_all_of_a_batch_is_committed_before_the_loop_turns() -> None:
    store, journal = recording(Full(), at_once=False)
    first, second = journal.write(message("one")), journal.write(message("two", 2))
    changes: list[tuple[str, str]] = []
    journal.watch(lambda: changes.append((outcome(first), outcome(second))))
    await turn(journal)
    assert changes == []

    store.work()

    assert changes == [("committed", "committed")]


async def test_who_watches_is_told_of_a_failure_before_the_loop_turns() -> None:
    """F5."""
    store, journal = recording(Full(), at_once=False)
    first = journal.write(message("one"))
    await turn(journal)
    second = journal.write(message("two", 2))
    changes: list[tuple[str, str]] = []
    journal.watch(lambda: changes.append((outcome(first), outcome(second))))
    store.error = StorageError("no room")

    store.work()

    assert changes == [("no room", "no room")]


async def test_later_turns_need_not_wait_for_earlier_ones() -> None:
    """A slow store is given the next batch while it works on the first; answers come in order."""
    store, journal = recording(Full(), at_once=False)
    first = journal.write(message("one"))
    await turn(journal)
    second = journal.write(message("two", 2))
    await turn(journal)

    assert len(store.log) == 2
    store.work(1)
    assert (outcome(first), outcome(second)) == ("committed", "open")
    store.work()
    assert outcome(second) == "committed"


async def test_a_write_that_was_given_up_does_no_harm() -> None:
    store, journal = recording(Full(), at_once=False)
    first, second = journal.write(message("one")), journal.write(message("two", 2))
    await turn(journal)
    assert first is not None
    first.cancel()

    store.work()

    assert outcome(second) == "committed"


# ── policies ─────────────────────────────────────────────────────────────────────────────────────────────────


@each_row(
    ("own", "value", "stored"),
    [
        (Full(), None, ["text"]),
        (Full(), Full(), ["text"]),
        (Full(), HeadersOnly(), [""]),
        (Full(), NoStorage(), []),
        (HeadersOnly(), Full(), [""]),
        (Ttl(5.0), Full(), ["text"]),
        (NoStorage(), Full(), []),
    ],
)
async def test_an_event_is_kept_by_the_stricter_of_two_policies(
    own: StoragePolicy, value: StoragePolicy | None, stored: list[str]
) -> None:
    """S002-15..19: the conversation's own, and what its chain brings along."""
    store, journal = recording(own)
    journal.write(message("text"), value)
    await turn(journal)

    assert texts(store) == stored
    assert {row.policy for row in store.rows if row.type == "background_event"} <= {strictest(own, value or own)}


async def test_an_item_is_kept_by_its_own_policy_in_a_wider_conversation() -> None:
    """S002-19: the policy travels."""
    store, journal = recording(Full())
    journal.keep(
        ItemsRecord(A, (call(), output("the child's words", storage=HeadersOnly()), assistant("my own words")))
    )
    await journal.settle()

    assert b"child" not in store.bytes
    assert b"my own words" in store.bytes


async def test_of_a_conversation_nothing_was_agreed_of_only_the_skeleton_is_stored() -> None:
    store = ListStore()
    journal = recorder(store)
    journal.keep(items_record("one"))
    journal.write(message("two"))
    journal.write(event(ConversationOpened(None, "a title", "m", "native"), seq=2))
    await turn(journal)

    assert [row.type for row in store.rows] == ["session", "conversation", "task", "conversation_opened"]
    assert bodies(store.rows) == 0


@each_row(("policy", "stored"), [(None, ["text"]), (HeadersOnly(), [""]), (NoStorage(), [])])
async def test_session_wide_events_follow_the_policy_of_the_session(
    policy: StoragePolicy | None, stored: list[str]
) -> None:
    store = ListStore()
    journal = recorder(store, storage=policy)
    journal.write(message("text", conversation=None))
    await turn(journal)

    assert texts(store) == stored


async def test_what_is_not_stored_need_not_be_waited_for() -> None:
    store, journal = recording(NoStorage())
    await journal.settle()

    assert journal.write(message("text")) is None
    assert store.log == ["append 2"]


async def test_what_is_not_stored_keeps_its_place_behind_what_is() -> None:
    """Journal: an event's write stands for the records before it."""
    store, journal = recording(NoStorage(), at_once=False)
    first = journal.write(message("text"))
    await turn(journal)
    second = journal.write(message("text", 2))
    await turn(journal)

    assert (outcome(first), outcome(second)) == ("open", "open")
    store.work()
    assert (outcome(first), outcome(second)) == ("committed", "committed")


async def test_where_nothing_is_stored_at_all_nobody_waits_for_ever() -> None:
    store = ListStore()
    journal = recorder(store)
    journal.keep(items_record("of a conversation that nothing was agreed of"))
    first = journal.write(message("text"))
    await turn(journal)

    assert outcome(first) == "committed"
    assert store.log == []


# ── narrowing ────────────────────────────────────────────────────────────────────────────────────────────────


@each_row("policy", [HeadersOnly(), NoStorage()])
async def test_a_stricter_policy_erases_what_was_stored_before_anything_new_is(policy: StoragePolicy) -> None:
    """HARDENING E5, X-31: Full to HeadersOnly, or None, in the middle. The other conversation is not touched."""
    store = ListStore(at_once=False)
    journal = recorder(store)
    for conversation in (A, B):
        journal.keep(agreed(Full(), conversation, instructions="CANARY-TERMS"))
        journal.keep(items_record("CANARY-" + conversation, conversation))
    await turn(journal)
    journal.keep(items_record("CANARY-WAITS"))
    journal.write(message("CANARY-EVENT"))
    journal.keep(agreed(policy, instructions="CANARY-TERMS-2"))
    journal.keep(items_record("CANARY-LATER"))
    settled = asyncio.ensure_future(journal.settle())
    await ticks()

    assert [line.split()[0] for line in store.log] == ["append", "enforce", "append"]
    store.work()
    await settled
    hits = [row for row in store.rows if b"CANARY" in row.header + (row.stored_body or b"") and row.conversation == 1]
    assert hits == []
    assert ("CANARY-" + B).encode() in store.bytes
    assert list(read_rows(store.stored))[-1].what is not None


async def test_a_wider_policy_holds_from_now_on_and_brings_nothing_back() -> None:
    """HARDENING E5: neither what was stored, nor what waited while the policy was strict."""
    store, journal = recording(Full(), at_once=False)
    journal.keep(items_record("stored"))
    await turn(journal)
    journal.keep(items_record("waits"))
    journal.keep(agreed(HeadersOnly()))
    journal.keep(items_record("strict"))
    journal.keep(agreed(Full()))
    journal.keep(items_record("later"))
    await turn(journal)
    store.work()

    assert texts(store)[-1] == "later"
    assert texts(store)[:-1] == [f"[not stored: {n} characters]" for n in (6, 5, 6)]
    assert not any(word in store.bytes for word in (b'"stored"', b'"waits"', b'"strict"'))


async def test_the_same_policy_again_erases_nothing() -> None:
    store, journal = recording(Full())
    journal.keep(items_record("one"))
    await journal.settle()
    journal.keep(agreed(Full(), title="another"))
    await journal.settle()

    assert texts(store) == ["one"]
    assert not any("enforce" in line for line in store.log)


async def test_a_conversation_of_which_nothing_is_stored_yet_needs_no_erasing() -> None:
    store, journal = recording(Full())
    journal.keep(items_record("one"))
    journal.keep(agreed(HeadersOnly()))
    await journal.settle()

    assert store.log == ["append 4"]
    assert bodies(store.rows) == 0


async def test_narrowed_twice_the_stricter_holds() -> None:
    store, journal = recording(Full())
    journal.keep(items_record("one"))
    await journal.settle()
    journal.keep(agreed(NoStorage()))
    journal.keep(agreed(Full()))
    journal.keep(agreed(HeadersOnly()))
    await journal.settle()

    assert not any(row.kind == "said" for row in store.rows)


async def test_who_goes_on_with_a_record_obeys_what_was_agreed_there() -> None:
    """S002-16, resume: nothing is stored of what was headers_only, and narrowing erases what is there."""
    store = ListStore()
    first = recorder(store)
    for policy, conversation in ((Full(), A), (HeadersOnly(), B)):
        first.keep(agreed(policy, conversation))
        first.keep(items_record("CANARY-1", conversation))
    await first.close()
    reader = RowReader()
    assert list(reader.lines(store.stored))

    second = recorder(store, known=reader.known)
    second.keep(items_record("CANARY-2", B))
    second.keep(agreed(HeadersOnly()))
    await second.settle()

    assert b"CANARY" not in store.bytes
    assert [row.n for row in store.rows] == sorted({row.n for row in store.rows})
    assert [row.kind for row in store.rows].count("conversation") == 2


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_after_a_failure_events_are_gone_and_records_are_tried_again_first() -> None:
    """HARDENING F5: nothing is acknowledged that is not there."""
    store, journal = recording(Full(), at_once=False)
    journal.keep(items_record("one"))
    first = journal.write(message("lost 1"))
    await turn(journal)
    journal.keep(items_record("two"))
    second = journal.write(message("lost 2", 2))
    await turn(journal)
    journal.keep(items_record("three"))
    third = journal.write(message("lost 3", 3))

    store.error = StorageError("no room")
    store.work()
    assert [outcome(item) for item in (first, second, third)] == ["no room"] * 3
    assert store.rows == []

    store.error = None
    again = journal.write(message("four"))
    await turn(journal)
    store.work()
    assert outcome(again) == "committed"
    assert texts(store) == ["one", "two", "three", "four"]


async def test_what_was_committed_before_a_failure_stays_committed() -> None:
    store, journal = recording(Full(), at_once=False)
    first = journal.write(message("one"))
    await turn(journal)
    second = journal.write(message("two", 2))
    await turn(journal)

    store.work(1)
    store.error = StorageError("no room")
    store.work()

    assert (outcome(first), outcome(second)) == ("committed", "no room")
    assert texts(store) == ["one"]


async def test_a_record_tried_again_obeys_what_was_agreed_meanwhile() -> None:
    """HARDENING E5, F5 together: no text is stored under a policy that no longer holds."""
    store = ListStore()
    store.error = StorageError("no room")
    journal = recorder(store)
    journal.keep(agreed(Full()))
    journal.keep(items_record("CANARY"))
    with pytest.raises(StorageError):
        await journal.settle()
    assert store.rows == []

    journal.keep(agreed(HeadersOnly()))
    store.error = None
    await journal.settle()

    assert b"CANARY" not in store.bytes
    assert texts(store) == ["[not stored: 6 characters]"]


@each_row("at_once", [True, False])
async def test_an_erasing_that_failed_is_done_before_anything_else_is_stored(at_once: bool) -> None:
    """HARDENING E5, E2"""
    store, journal = recording(Full())
    journal.keep(items_record("CANARY"))
    await journal.settle()
    store.at_once, store.error = at_once, StorageError("no room")
    journal.keep(agreed(HeadersOnly()))
    failing = asyncio.ensure_future(journal.settle())
    await ticks()
    store.work()
    with pytest.raises(StorageError):
        await failing
    assert b"CANARY" in store.bytes

    store.error, store.log = None, []
    journal.keep(items_record("later"))
    done = asyncio.ensure_future(journal.settle())
    await ticks()
    store.work()
    await done

    assert [line.split()[0] for line in store.log] == ["enforce", "append"]
    assert b"CANARY" not in store.bytes


async def test_settling_tells_the_error_and_settles_when_there_is_room_again() -> None:
    store = ListStore()
    store.error = StorageError("no room")
    journal = recorder(store)
    journal.keep(agreed(Full()))
    with pytest.raises(StorageError, match="no room"):
        await journal.settle()

    store.error = None
    await journal.settle()
    await journal.settle()

    assert [row.kind for row in store.rows] == ["conversation", "agreed"]


class Careless(Codec):
    """Forgets what a policy forbids."""

    broken = True

    def record(self, record: Record, policy: StoragePolicy, ts: float) -> list[Row]:
        rows = super().record(record, Full() if self.broken else policy, ts)
        return [replace(row, policy=policy) for row in rows]


async def test_a_write_that_would_break_a_policy_is_refused_whole() -> None:
    """S002-19: StoragePolicyViolation, nothing stored, and what went before is still good."""
    store, journal = recording(HeadersOnly(), at_once=False)
    before = journal.write(message("one"))
    await turn(journal)
    journal._codec.__class__ = Careless
    journal.keep(items_record("CANARY"))
    refused = journal.write(message("two", 2))
    await turn(journal)
    later = journal.write(message("three", 3))
    await turn(journal)

    assert [outcome(item) for item in (before, refused, later)] == ["open"] * 3
    store.work()
    assert outcome(before) == "committed"
    assert refused is not None
    assert isinstance(refused.exception(), StoragePolicyViolationError)
    assert later is not None
    assert isinstance(later.exception(), StoragePolicyViolationError)
    assert b"CANARY" not in store.bytes

    Careless.broken = False
    again = journal.write(message("four", 2))
    await turn(journal)
    store.work()
    Careless.broken = True
    assert outcome(again) == "committed"
    assert bodies(store.rows) == 0
    assert len(texts(store)) == 3


async def test_a_write_that_would_break_a_policy_is_refused_at_once_where_nothing_went_before() -> None:
    store, journal = recording(HeadersOnly())
    await journal.settle()
    journal._codec.__class__ = Careless
    journal.keep(items_record("CANARY"))

    with pytest.raises(StoragePolicyViolationError):
        await journal.settle()
    assert b"CANARY" not in store.bytes


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_commits_what_is_left_and_is_done_once() -> None:
    store, journal = recording(Full(), at_once=False)
    journal.keep(items_record("one"))
    closing = [asyncio.ensure_future(journal.close()) for _ in range(2)]
    await ticks()
    assert not any(item.done() for item in closing)

    store.work()
    await asyncio.gather(*closing)
    await journal.close()

    assert store.log == ["append 3", "close"]
    assert texts(store) == ["one"]


async def test_after_closing_nothing_is_written() -> None:
    store, journal = recording(Full())
    await journal.close()
    before = list(store.rows)

    journal.keep(items_record("late"))
    late = journal.write(message("late"))
    journal.hurry()
    await ticks()

    assert late is not None
    assert isinstance(late.exception(), ClosedError)
    assert store.rows == before


async def test_closing_a_store_that_fails_raises_nothing() -> None:
    store = ListStore()
    store.error = StorageError("no room")
    journal = recorder(store)
    journal.keep(agreed(Full()))

    await journal.close()

    assert store.closed


async def test_a_batch_that_is_due_after_closing_is_not_committed_again() -> None:
    store, journal = recording(Full())
    journal.hurry()
    journal.hurry()
    await journal.close()
    await ticks()

    assert store.log == ["append 2", "close"]


async def test_bodies_are_redacted_on_their_way() -> None:
    """E6"""
    store = ListStore()
    journal = Recorder(store, StillClock(), Redactor(["hunter2-hunter2"]).json)
    journal.keep(agreed(Full(), instructions="hunter2-hunter2"))
    journal.keep(items_record("it is hunter2-hunter2"))
    journal.write(event(AgentMessage("it is hunter2-hunter2", ItemId("a"))))
    journal.write(event(TaskStarted("user", "hunter2-hunter2"), seq=2))
    await journal.settle()

    assert b"hunter2" not in store.bytes
    assert store.bytes.count(b"[redacted:secret]") >= 3


async def test_a_store_that_is_lost_is_said_when_it_is_closed_and_any_other_error_is_not() -> None:
    """R1: what is not there any more was not closed properly. A disk that is full when it is tidied loses nothing."""
    for kind, raises in (("lost", True), ("full", False)):
        store = ListStore()
        store.close = lambda done, kind=kind: done(StorageError("gone", kind=kind))  # type: ignore[method-assign]
        journal = recorder(store)
        for _ in range(2):
            with pytest.raises(StorageError, match="gone") if raises else nullcontext():
                await journal.close()
