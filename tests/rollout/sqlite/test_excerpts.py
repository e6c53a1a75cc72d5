"""Parts of a record: each is what the whole record has there, and what is forged or gone misleads no reader."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tertulia.errors import StorageError
from tertulia.protocol.events import AgentMessage, ConversationOpened, Event, SessionConfigured, TaskStarted, TokenCount
from tertulia.protocol.ids import ItemId, new_session_id
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.message_events import UserMessageEvent
from tertulia.protocol.records import ItemsRecord, Record
from tertulia.protocol.storage import Full, HeadersOnly, StoragePolicy, Ttl
from tertulia.rollout.format.codec import Codec
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite import excerpts
from tertulia.rollout.sqlite.excerpts import ExcerptReader, ReadableTexts
from tertulia.rollout.sqlite.owned_file import OwnedFile
from tertulia.rollout.sqlite.session_files import session_files
from tertulia.rollout.store import Row
from tests.rollout.recorded import turn
from tests.rollout.recording import A, B, agreed, assistant, event, unredacted, user
from tests.rollout.stages import NOW, row
from tests.rollout.still_clock import FakeClock
from tests.tables import each_row


def commit(tmp_path: Path, rows: list[Row]) -> Path:
    files = session_files(tmp_path / "home", new_session_id())
    file = OwnedFile(files, FakeClock(NOW))
    file.commit(rows)
    file.close()
    return files.db


def rows_of(whats: list[Event | Record], policy: StoragePolicy | None = None) -> list[Row]:
    codec = Codec(unredacted)
    rows: list[Row] = []
    for what in whats:
        own = policy or Full()
        rows += codec.event(what, own) if isinstance(what, Event) else codec.record(what, own, NOW)
    return rows


@contextmanager
def reading(file: Path, now: float = NOW) -> Generator[ExcerptReader]:
    with closing(ExcerptReader(file, FakeClock(now))) as reader:
        yield reader


def opened(conversation: Any, seq: int) -> Event:
    return event(ConversationOpened(None, "a title", "openai/x", "native"), conversation, seq)


def lives() -> list[Event | Record]:
    """Two lives of a session with a turn each, two conversations, and items that the second was begun with."""
    configured = SessionConfigured(A, "1", "1", "m", {})
    first = [event(configured, None, 1, task_id=None, sub_id="s", trace_id=None, span_id=None), *turn()]
    copy = [agreed(Full(), B), ItemsRecord(B, (user("copied", "u9"), assistant("copied too", "a9"))), opened(B, 9)]
    second = [
        event(TaskStarted("user", "again"), A, 1, epoch=1),
        event(AgentMessage("an answer of its own", ItemId("a5")), A, 2, epoch=1),
        event(TokenCount(NO_USAGE, 128_000, "k" * 32), A, 3, epoch=1),
    ]
    return [*first, *copy, *second]


def line_fields(line: RecordLine) -> tuple[Any, ...]:
    return line.n, line.ts, line.what, line.missing, line.damaged


@each_row("policy", [Full(), HeadersOnly(), Ttl(10)])
def test_every_part_of_a_record_reads_as_it_does_in_the_whole(policy: StoragePolicy, tmp_path: Path) -> None:
    """Issue 23: pages are what a replay of everything shows there."""
    file = commit(tmp_path, rows_of(lives(), policy))
    for now in (NOW, NOW + 1e9):
        with reading(file, now) as reader:
            whole = {line.n: line_fields(line) for line in RowReader().lines(reader.rows())}
            everything = reader.events_before(None, None, 1_000).numbers
            assert len(everything) == 16, "events, a message without one, and the items of a copy"
            assert all(n in whole for n in everything if n != everything[11]), "the second item is told with the first"
            for first in range(len(everything)):
                for size in (1, 4):
                    wanted = everything[first : first + size]
                    lines = RowReader().lines(reader.excerpt(wanted))
                    for line in lines:
                        if line.n in wanted and line.n in whole and isinstance(line.what, Event):
                            assert line_fields(line) == whole[line.n]


def test_pages_from_the_end_and_from_the_beginning_meet_without_gap_or_double(tmp_path: Path) -> None:
    file = commit(tmp_path, rows_of(lives()))
    with reading(file) as reader:
        everything = reader.events_before(None, None, 1_000)
        assert not everything.has_more
        backward: list[int] = []
        place: int | None = None
        while (page := reader.events_before(place, None, 4)).numbers:
            backward = page.numbers + backward
            place = page.numbers[0]
            assert page.has_more is (place > everything.numbers[0])
        forward: list[int] = []
        while (page := reader.events_after(forward[-1] if forward else 0, None, 4)).numbers:
            forward += page.numbers
        assert backward == forward == everything.numbers
        upto = everything.numbers[5]
        assert reader.events_after(0, None, 1_000, upto=upto).numbers == everything.numbers[:6]


def test_a_conversation_has_its_own_pages_and_is_found_by_its_id(tmp_path: Path) -> None:
    file = commit(tmp_path, rows_of(lives()))
    with reading(file) as reader:
        number = reader.conversation(B)
        assert number is not None
        assert reader.conversation("nobody") is None
        assert reader.first_conversation() == reader.conversation(A)
        numbers = reader.events_before(None, number, 10).numbers
        assert {row.conversation for row in reader.these(numbers)} == {number}
        assert [row.kind for row in reader.these(numbers)] == ["said", "said", "event"]


def test_messages_that_no_event_tells_count_as_events_and_those_that_one_tells_do_not(tmp_path: Path) -> None:
    """Issue 23: records from before there were such events, which go on with them."""
    untold = ItemsRecord(A, (user("before there were events", "u1"),))
    told_now = ItemsRecord(A, (user("with an event", "u2"),))
    injected = ItemsRecord(A, (msgspec.structs.replace(user("by a program", "u0"), injected=True),))
    message = event(UserMessageEvent(ItemId("u2"), "with an event"), A, 3)
    file = commit(tmp_path, rows_of([agreed(Full(), A), opened(A, 1), injected, untold, told_now, message]))
    with reading(file) as reader:
        (number,) = reader.untold_messages()
        (line,) = RowReader().lines(reader.excerpt([number]))
        assert line.what == untold
        numbers = reader.events_before(None, None, 10).numbers
        assert [row.type for row in reader.these(numbers)] == ["conversation_opened", "user", "user_message"]
        assert (reader.event(3), reader.event(99)) == (numbers[-1], None)


def test_a_page_ends_where_its_texts_become_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpts, "MAX_BYTES", 25)
    file = commit(tmp_path, [row(n, b'"0123456789"') for n in range(1, 7)])
    with reading(file) as reader:
        page = reader.events_before(None, None, 100)
        assert (page.numbers, page.has_more) == ([5, 6], True)
        monkeypatch.setattr(excerpts, "MAX_BYTES", 1)
        assert reader.events_after(2, None, 100).numbers == [3], "one comes, however long it is"


def test_references_that_were_forged_lead_nowhere(tmp_path: Path) -> None:
    """HARDENING: a crafted file cannot make a reader go in circles, nor read all of it."""
    chain = [row(n, source=n - 1) for n in range(1, 40)]
    file = commit(tmp_path, [*chain, row(50, source=51), row(51, source=50), row(52, source=52), row(53, task=99)])
    with reading(file) as reader:
        assert [found.n for found in reader.excerpt([39])] == [1, 36, 37, 38, 39]
        assert [found.n for found in reader.excerpt([50, 52])] == [1, 50, 52]
        assert [found.n for found in reader.excerpt([53])] == [1, 53]
        assert reader.excerpt([]) == []
        assert reader.excerpt([77]) == []


def test_headers_come_without_texts_and_only_of_the_kinds_that_are_wanted(tmp_path: Path) -> None:
    file = commit(tmp_path, rows_of(lives()))
    with reading(file) as reader:
        found = list(reader.headers(["conversation"], ["conversation_opened"]))
        assert [row.type for row in found] == ["conversation", "conversation", "conversation_opened"]
        assert all(row.body is None and not row.damaged for row in found)
        assert [row.n for row in reader.headers(["conversation"], after=found[0].n)] == [found[1].n]
        assert [row.kind for row in reader.newest("terms")] == ["terms"]


def test_texts_that_are_gone_are_counted_and_those_that_expire_are_known(tmp_path: Path) -> None:
    file = commit(tmp_path, rows_of(lives(), Ttl(10)))
    with reading(file) as reader:
        first, last, items = reader.sizes()
        items_at = [row.n for row in reader.headers(["said"])]
        assert (last is not None and first is not None and last >= first, items) == (True, len(items_at))
        assert (reader.textless_items(), reader.expiring(items_at[:1])) == (0, {items_at[0]})
        found = reader.readable(10**6)
        assert (reader.readable(1).rows, reader.readable(1).texts) == (1, 0)
        assert found.rows > found.texts > 0
        assert found.until is not None
        assert found.until > NOW
    with reading(file, NOW + 1e9) as reader:
        assert (reader.textless_items(), reader.readable(10**6)) == (len(items_at), ReadableTexts(found.rows))


def test_a_record_without_rows_has_nothing(tmp_path: Path) -> None:
    with reading(commit(tmp_path, [])) as reader:
        assert (reader.sizes(), reader.textless_items()) == ((None, None, 0), 0)
        assert not reader.events_before(None, None, 5).numbers
        assert reader.these([]) == []


def test_a_name_that_is_no_json_names_no_conversation(tmp_path: Path) -> None:
    names = [
        row(1, kind="conversation", header=b"{"),
        row(2, kind="conversation", conversation=2, header=b'{"id":"x"}'),
    ]
    with reading(commit(tmp_path, names)) as reader:
        assert reader.conversation("x") == 2


def test_requests_and_histories_are_found_by_their_conversation(tmp_path: Path) -> None:
    """Issue 23: a prompt is made again without the events, which are most of a record."""
    with reading(commit(tmp_path, rows_of(lives()))) as reader:
        numbers = [row.n for row in reader.headers(["asked"])]
        assert (reader.request_before(numbers[1]), reader.request_before(numbers[0])) == (numbers[0], None)
        assert reader.request_before(1) is None
        conversation = reader.conversation(A)
        assert conversation is not None
        rows = list(reader.history_rows([conversation], numbers))
        assert rows[-1].n == numbers[-1]
        assert {row.kind for row in rows if row.kind != "event"} >= {"session", "conversation", "said", "asked"}
        assert [row.type for row in rows if row.kind == "event"] == ["task_started"], "for the ids of the task"
        assert [row.n for row in reader.history_rows([conversation], numbers[:1])][-1] == numbers[0]


LOOKS: list[Callable[[ExcerptReader], object]] = [
    lambda reader: reader.events_before(None, None, 5),
    lambda reader: reader.events_after(0, None, 5),
    lambda reader: reader.excerpt([1]),
    lambda reader: list(reader.headers(["said"])),
    lambda reader: reader.newest("terms"),
    lambda reader: reader.conversation("x"),
    lambda reader: reader.expiring([1]),
    lambda reader: reader.readable(5),
    lambda reader: reader.textless_items(),
    lambda reader: reader.sizes(),
    lambda reader: reader.request_before(1),
    lambda reader: list(reader.history_rows([1], [1])),
]


@each_row("look", LOOKS)
def test_what_cannot_be_read_is_said_with_the_file(look: Callable[[ExcerptReader], object], tmp_path: Path) -> None:
    file = commit(tmp_path, [row(1)])
    with reading(file) as reader:
        with closing(sqlite3.connect(file)) as other:
            other.execute("DROP TABLE record")
            other.commit()
        with pytest.raises(StorageError, match=file.name):
            look(reader)
