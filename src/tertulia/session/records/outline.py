"""The time line of a stored session, made of the headers of its rows: the shapes of `view/lanes`, and no text read.

Only titles are texts; they are read as far as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.rollout.format.earlier_rows import unpack_ids
from tertulia.rollout.loose_json import object_of, string_of
from tertulia.rollout.sqlite.excerpts import ExcerptReader
from tertulia.rollout.store import StoredRow
from tertulia.session.records.answers import (
    OutlineCounts,
    OutlinedArrow,
    OutlinedConversation,
    OutlinedMark,
    OutlinedPause,
    OutlinedRequest,
    OutlinedSpan,
    RecordOutline,
)
from tertulia.view.lanes import pauses

_KINDS = ("conversation", "agreed", "task", "asked")
_TYPES = (
    *("conversation_opened", "conversation_closed", "task_started", "task_complete", "turn_aborted", "user_message"),
    *("tool_call", "tool_call_begin", "tool_call_end", "approval_request", "approval_resolved"),
)
_Json = dict[str, Any]


def read_outline(reader: ExcerptReader, session_id: str) -> RecordOutline:
    """The outline of a whole record. Blocks."""
    fold = _OutlineFold()
    for row in reader.headers(_KINDS, _TYPES):
        fold.take(row)
    titles = {row.conversation: string_of(object_of(row.body or b"").get("title")) for row in reader.newest("terms")}
    spans = [span.outlined() for span in fold.spans]
    first_ts, last_ts, items = reader.sizes()
    return RecordOutline(
        session_id=session_id,
        last_n=reader.ends()[0],
        first_ts=first_ts,
        last_ts=last_ts,
        conversations=[lane.outlined(titles.get(number)) for number, lane in fold.lanes.items() if lane.is_open],
        spans=spans,
        marks=fold.marks,
        arrows=sorted(fold.arrows, key=lambda arrow: arrow.at),
        requests=fold.requests,
        pauses=[OutlinedPause(pause.start, pause.end) for pause in pauses(spans)],
        counts=OutlineCounts(
            items=items,
            requests=len(fold.requests),
            calls=fold.calls,
            failed_calls=fold.failed_calls,
            not_stored=reader.textless_items(),
        ),
        damaged=fold.damaged,
    )


class _Lane:
    """A conversation as far as the fold has come."""

    __slots__ = ("caller", "closed_at", "id", "model", "opened_at", "parent_id", "span")

    def __init__(self, id: ConversationId) -> None:
        self.id = id
        self.opened_at: float | None = None
        self.closed_at: float | None = None
        self.parent_id: ConversationId | None = None
        self.model: str | None = None
        self.span: _Span | None = None
        """The task that runs, as far as it has come."""
        self.caller: ConversationId | None = None
        """The conversation that waits for its answer."""

    @property
    def is_open(self) -> bool:
        """Whether clients were told of it."""
        return self.opened_at is not None

    def outlined(self, title: str | None) -> OutlinedConversation:
        return OutlinedConversation(self.id, self.parent_id, self.opened_at or 0.0, title, self.closed_at, self.model)


class _Span:
    """A task as far as the fold has come."""

    __slots__ = ("end", "ending", "first_n", "kind", "lane", "last_n", "start", "task_id")

    def __init__(self, lane: _Lane, task_id: TaskId | None, kind: str, row: StoredRow) -> None:
        self.lane = lane
        self.task_id = task_id
        self.kind = kind
        self.start = row.ts
        self.first_n = self.last_n = row.n
        self.end: float | None = None
        self.ending: str | None = None

    def outlined(self) -> OutlinedSpan:
        place = self.start, self.first_n, self.last_n, self.end, self.ending
        return OutlinedSpan(self.lane.id, self.task_id, self.kind, *place)


class _OutlineFold:
    """Takes rows in order, without their texts."""

    def __init__(self) -> None:
        self.lanes: dict[int, _Lane] = {}
        self.spans: list[_Span] = []
        self.marks: list[OutlinedMark] = []
        self.arrows: list[OutlinedArrow] = []
        self.requests: list[OutlinedRequest] = []
        self.calls = self.failed_calls = self.damaged = 0
        self._tasks: dict[int, TaskId | None] = {}
        self._tools: dict[int, str] = {}
        """The names of tools by the rows of their calls."""

    def take(self, row: StoredRow) -> None:
        """Add what one row tells to the outline."""
        if row.damaged:
            self.damaged += 1
            return
        if row.type == "tool_call":
            self._tools[row.n] = string_of(object_of(row.header).get("tool")) or ""
        elif row.kind in ("conversation", "agreed"):
            if row.conversation not in self.lanes and (id := string_of(object_of(row.header).get("id"))) is not None:
                self.lanes[row.conversation] = _Lane(ConversationId(id))
        elif row.kind == "task":
            self._note_task(row, object_of(row.header))
        elif (lane := self.lanes.get(row.conversation)) is not None:
            if lane.span is not None:
                lane.span.last_n = row.n
            if row.kind == "asked":
                self.requests.append(OutlinedRequest(row.n, lane.id, self._tasks.get(row.task), row.ts))
            elif (fold := self._folds.get(row.type)) is not None:
                fold(self, lane, row, object_of(row.header))

    def _note_task(self, row: StoredRow, header: _Json) -> None:
        try:
            task_id = unpack_ids(header.get("ids")).task
        except ValueError:
            task_id = None
        self._tasks[row.n] = None if task_id is None else TaskId(task_id)

    def _opened(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        parent_id = string_of(header.get("parent_id"))
        lane.parent_id = None if parent_id is None else ConversationId(parent_id)
        lane.model = string_of(header.get("model")) or lane.model
        if lane.opened_at is None:
            lane.opened_at = row.ts

    def _closed(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        lane.closed_at = row.ts

    def _started(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        if "ids" in header:
            self._note_task(row, header)
        lane.span = _Span(lane, self._tasks.get(row.task), string_of(header.get("kind")) or "user", row)
        self.spans.append(lane.span)

    def _ended(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        ending = string_of(header.get("status")) or string_of(header.get("reason")) or "completed"
        if (span := lane.span) is not None:
            span.end, span.ending, lane.span = row.ts, ending, None
        # A task that hands over goes on later, as a continuation, and answers its caller then.
        if lane.caller is not None and ending != "replaced":
            self.arrows.append(OutlinedArrow(lane.caller, lane.id, row.ts, back=True))
            lane.caller = None

    def _heard(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        caller = string_of(header.get("caller_id"))
        if caller is not None and (span := lane.span) is not None and span.kind == "target":
            lane.caller = ConversationId(caller)
            self.arrows.append(OutlinedArrow(lane.caller, lane.id, span.start))

    def _called(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        self.calls += 1
        name = string_of(header.get("name")) or self._tools.get(row.source, "")
        self.marks.append(OutlinedMark(lane.id, "call", row.ts, row.n, name))

    def _call_ended(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        self.failed_calls += header.get("success") is False

    def _asks(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        self.marks.append(OutlinedMark(lane.id, "question", row.ts, row.n, string_of(header.get("kind")) or ""))

    def _answered(self, lane: _Lane, row: StoredRow, header: _Json) -> None:
        answer = "yes" if header.get("decision") == "allow" else "no"
        self.marks.append(OutlinedMark(lane.id, answer, row.ts, row.n))

    _folds: ClassVar[Mapping[str, Callable[[Any, _Lane, StoredRow, _Json], None]]] = {
        "conversation_opened": _opened,
        "conversation_closed": _closed,
        "task_started": _started,
        "task_complete": _ended,
        "turn_aborted": _ended,
        "user_message": _heard,
        "tool_call_begin": _called,
        "tool_call_end": _call_ended,
        "approval_request": _asks,
        "approval_resolved": _answered,
    }
