"""The time line of a session: a lane for each conversation, its tasks as spans, its calls and questions as marks,
delegations as arrows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, TaskId
from tertulia.view.board import Board

MarkKind = Literal["call", "question", "yes", "no"]


class Span(msgspec.Struct, omit_defaults=True):
    """A task, from its start to its end."""

    conversation_id: ConversationId
    task_id: TaskId | None
    kind: e.TaskKind
    start: float
    """Seconds since 1970; so are all times here."""
    end: float | None = None
    """None while the task still runs."""
    ending: str | None = None


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A moment in a lane."""

    conversation_id: ConversationId
    kind: MarkKind
    at: float
    name: str = ""


class Arrow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One conversation asks another, or gets the answer back."""

    caller_id: ConversationId
    target_id: ConversationId
    at: float
    back: bool = False


class Pause(msgspec.Struct, frozen=True):
    """A time in which no task ran: screens draw it narrow and say how long it was."""

    start: float
    end: float


class Lanes(msgspec.Struct):
    """Everything that a time line draws, in the order in which it happened."""

    spans: list[Span]
    marks: list[Mark]
    arrows: list[Arrow]


def lanes_of(events: Iterable[e.Event]) -> Lanes:
    """The time line of these events."""
    fold = _LaneFold()
    for event in events:
        fold.take(event)
    return fold.lanes


class _LaneFold:
    def __init__(self) -> None:
        self.lanes = Lanes([], [], [])
        # The board knows the caller of each target.
        self._board = Board()
        self._open: dict[ConversationId, Span] = {}

    def take(self, event: e.Event) -> None:
        id = event.conversation_id
        before = None if id is None else self._caller(id)
        self._board.take(event)
        if id is None:
            return
        at = seconds(event.ts)
        match event.data:
            case e.TaskStarted(kind=kind):
                self._start(Span(id, event.task_id, kind, at))
            case e.TaskComplete(status=ending) | e.TurnAborted(reason=ending):
                self._end(id, ending, at, before)
            case data:
                self._mark(id, at, data)

    def _caller(self, id: ConversationId) -> ConversationId | None:
        view = self._board.conversations.get(id)
        return None if view is None else view.caller_id

    def _start(self, span: Span) -> None:
        self._open[span.conversation_id] = span
        self.lanes.spans.append(span)
        caller = self._caller(span.conversation_id)
        if span.kind == "target" and caller is not None:
            self.lanes.arrows.append(Arrow(caller, span.conversation_id, span.start))

    def _end(self, id: ConversationId, ending: str, at: float, caller: ConversationId | None) -> None:
        if (span := self._open.pop(id, None)) is not None:
            span.end, span.ending = at, ending
        if caller is not None and ending != "replaced":
            self.lanes.arrows.append(Arrow(caller, id, at, back=True))

    def _mark(self, id: ConversationId, at: float, data: e.EventData) -> None:
        match data:
            case t.ToolCallBegin(name=name):
                self.lanes.marks.append(Mark(id, "call", at, name))
            case t.ApprovalRequest(title=title):
                self.lanes.marks.append(Mark(id, "question", at, title))
            case t.ApprovalResolved(decision=decision):
                self.lanes.marks.append(Mark(id, "yes" if decision == "allow" else "no", at))
            case _:
                pass


class Timed(Protocol):
    """What has a start, and perhaps an end."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float | None: ...


def pauses(spans: Sequence[Timed], at_least_s: float = 60.0) -> list[Pause]:
    """The times between the first and the last span in which no task ran, where they are that long."""
    found: list[Pause] = []
    busy_until: float | None = None
    for span in sorted(spans, key=lambda span: span.start):
        if busy_until is not None and span.start - busy_until >= at_least_s:
            found.append(Pause(busy_until, span.start))
        end = span.start if span.end is None else span.end
        busy_until = end if busy_until is None else max(busy_until, end)
    return found


def seconds(ts: str) -> float:
    """A time of an event, as seconds since 1970."""
    return datetime.fromisoformat(ts).timestamp()
