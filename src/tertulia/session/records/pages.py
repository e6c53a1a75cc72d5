"""Pages of a stored session: its rows as the events that a client got. All of it blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tertulia.errors import NotFoundError, TertuliaError
from tertulia.protocol.events import Event
from tertulia.protocol.records import ItemsRecord
from tertulia.protocol.storage import NoStorage, StoragePolicy, Ttl, storage_from_wire
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.loose_json import object_of
from tertulia.rollout.sqlite.excerpts import ExcerptReader, RowNumbers
from tertulia.session.records.answers import NotStored, RecordedEvent, RecordPage
from tertulia.session.records.copied_events import CopiedEvents
from tertulia.session.records.inputs import GetRecordPage
from tertulia.session.records.untold_messages import UntoldMessages


def read_page(reader: ExcerptReader, params: GetRecordPage) -> RecordPage:
    """The page that is asked for. NotFound for a conversation that the record does not have."""
    match params.conversation_id:
        case None:
            conversation = None
        case "root":
            conversation = reader.first_conversation()
        case id:
            conversation = find_conversation(reader, id)
    found, at_start, at_end = _page_numbers(reader, params, conversation)
    lines = list(read_excerpt(reader, found.numbers))
    older = UntoldMessages(params.session_id, reader.untold_messages(), lines)
    return RecordPage(
        events=list(_events(params.session_id, lines, _why_missing(reader, lines), older)),
        first_n=found.numbers[0] if found.numbers else None,
        last_n=found.numbers[-1] if found.numbers else None,
        at_start=at_start,
        at_end=at_end,
        damaged=[line.n for line in lines if line.what is None],
    )


def find_conversation(reader: ExcerptReader, id: str) -> int:
    """The number of a conversation in its record; else NotFound."""
    number = reader.conversation(id)
    if number is None:
        raise NotFoundError(f"the record has no conversation {id[:64]!r}")
    return number


def read_excerpt(reader: ExcerptReader, numbers: Sequence[int]) -> Iterator[RecordLine]:
    """The lines of these rows, as reading the whole record would give them."""
    wanted = set(numbers)
    return (line for line in RowReader().lines(reader.excerpt(numbers)) if line.n in wanted)


def _page_numbers(
    reader: ExcerptReader, params: GetRecordPage, conversation: int | None
) -> tuple[RowNumbers, bool, bool]:
    """The rows of the page, whether it begins with the first, and whether it ends with the last."""
    if params.after_n is not None:
        found = reader.events_after(params.after_n, conversation, params.limit)
        return found, not reader.events_before(params.after_n + 1, conversation, 1).numbers, not found.has_more
    before = params.before_n if params.before_seq is None else _find_event(reader, params.before_seq)
    found = reader.events_before(before, conversation, params.limit)
    if before is None:
        return found, not found.has_more, True
    return found, not found.has_more, not reader.events_after(before - 1, conversation, 1).numbers


def _find_event(reader: ExcerptReader, seq: int) -> int:
    n = reader.event(seq)
    if n is None:
        raise NotFoundError(f"the record has no event {seq}")
    return n


def _why_missing(reader: ExcerptReader, lines: Sequence[RecordLine]) -> dict[int, NotStored]:
    """The reason for each line of which a text is not there."""
    gaps = [line for line in lines if line.missing]
    if not gaps:
        return {}
    rows = {row.n: row for row in reader.these([n for line in gaps for n in line.missing])}
    sources = {row.source for row in rows.values() if row.source}
    expiring = reader.expiring(rows.keys() | sources)
    policies = {row.conversation: _policy(row.header) for row in reader.newest("agreed")}
    reasons: dict[int, NotStored] = {}
    for line in gaps:
        row = rows[line.missing[0]]
        policy = policies.get(row.conversation)
        if expiring & {*line.missing, row.source} or isinstance(policy, Ttl):
            reasons[line.n] = "expired"
        else:
            reasons[line.n] = "none" if isinstance(policy, NoStorage) else "headers_only"
    return reasons


def _policy(header: bytes) -> StoragePolicy | None:
    try:
        return storage_from_wire(object_of(header).get("storage"))
    except TertuliaError:
        return None


def _events(
    session_id: str, lines: Iterable[RecordLine], reasons: dict[int, NotStored], older: UntoldMessages
) -> Iterator[RecordedEvent]:
    copied_events = CopiedEvents(session_id)
    for line in lines:
        match line.what:
            case Event() as event:
                yield _recorded(line, event, reasons)
            case ItemsRecord() if messages := older.events(line):
                for message in messages:
                    yield _recorded(line, message, reasons)
            case ItemsRecord() as record:
                for event in copied_events.of(line, record):
                    yield _recorded(line, event, reasons, copied=True)
            case _:
                pass


def _recorded(line: RecordLine, event: Event, reasons: dict[int, NotStored], *, copied: bool = False) -> RecordedEvent:
    envelope: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    reason = reasons.get(line.n)
    return RecordedEvent(n=line.n, **envelope, not_stored=reason, damaged=bool(line.damaged), copied=copied)
