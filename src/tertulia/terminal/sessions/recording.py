"""A stored session as steps to go through: its events and its requests to models, and the board at each step.

Imports the reader of records, so it is imported after the first frame, and used in a thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.events.clock import SystemClock, Timestamps
from tertulia.protocol import events as e
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.records import ItemsRecord, ModelRequestRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.ownership import is_held
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_files import SessionFiles
from tertulia.rollout.sqlite.session_index import find_files
from tertulia.session.resume.recorded_prompt import RecordedPrompt, read_prompt
from tertulia.view.board import Board
from tertulia.view.copied_items import add_copied_items
from tertulia.view.older_messages import OlderMessages
from tertulia.view.rewind import Rewind
from tertulia.view.snapshot import read_snapshot, write_snapshot

Stride = Literal["record", "request", "task"]


class Step(msgspec.Struct, frozen=True, gc=False):
    """One moment of a stored session."""

    n: int
    """The number of the record."""
    ts: float
    word: str
    """What happened at this step, for people."""
    count: int
    """How many events had happened up to this step."""
    conversation_id: ConversationId | None = None


class Recording:
    """The steps of one stored session. Used by one thread at a time."""

    def __init__(self, files: SessionFiles) -> None:
        self._files = files
        self._reader = RowReader()
        self._events: list[e.Event] = []
        self.steps: list[Step] = []
        self._requests: list[int] = []
        """Indexes of the steps that are requests; `_tasks` has those of started tasks."""
        self._tasks: list[int] = []
        self._items: dict[ConversationId, list[tuple[int, ItemId]]] = {}
        """For each conversation the last item of each record, with the record's number."""
        self._opened: set[ConversationId | None] = set()
        self._beginning = Board()
        """What conversations held when they were opened: a fork has its original's items, but no events for them.
        """
        self._older = OlderMessages()
        self._timestamps = Timestamps(SystemClock())
        self._rewind = Rewind(self._events)

    @classmethod
    def open(cls, home: Path, session_id: str, progress: Callable[[int], None] = lambda _: None) -> Recording:
        """Read a stored session, also while another process writes it. NotFoundError where there is none.

        `progress` is told now and then how many records were read.
        """
        recording = cls(find_files(home, session_id))
        recording.read_on(progress)
        return recording

    def read_on(self, progress: Callable[[int], None] = lambda _: None) -> int:
        """Read the records that were added since; returns the number of new steps."""
        before = len(self.steps)
        for line in self._lines(self._reader, self._reader.known.last_n):
            self._take(line)
            if line.n % 1_000 == 0:
                progress(line.n)
        if len(self.steps) > before:
            # A `Rewind` divides the record by its length at the start, so a longer record needs a new one.
            self._rewind = Rewind(self._events, self._beginning)
        return len(self.steps) - before

    def _lines(self, reader: RowReader, after: int = 0) -> Iterator[RecordLine]:
        with closing(SqliteReader(self._files.db, SystemClock())) as rows:
            yield from reader.lines(rows.rows(after))

    def _take(self, line: RecordLine) -> None:
        self._events += self._older.take(line.what)
        match line.what:
            case e.Event() as event:
                self._events.append(event)
                if isinstance(event.data, e.TaskStarted):
                    self._tasks.append(len(self.steps))
                elif isinstance(event.data, e.ConversationOpened):
                    self._opened.add(event.conversation_id)
                word, conversation_id = event.type.replace("_", " "), event.conversation_id
            case ItemsRecord(conversation_id=id, items=[*_, last]) as record:
                self._items.setdefault(id, []).append((line.n, last.id))
                if id not in self._opened:
                    add_copied_items(self._beginning, record, self._timestamps.at(line.ts))
                return
            case ModelRequestRecord(conversation_id=conversation_id):
                self._requests.append(len(self.steps))
                word = "asked the model"
            case _:
                return
        self.steps.append(Step(line.n, line.ts, word, len(self._events), conversation_id))

    def board(self, place: int) -> Board:
        """The board after this step; the same object while the steps go forward."""
        return self._rewind.board(self.steps[place].count if self.steps else 0)

    def shown(self, place: int) -> Board:
        """The same for a person who looks back: where the record ends and no process goes on, nothing runs."""
        board = self.board(place)
        if place < len(self.steps) - 1 or is_held(self._files):
            return board
        ended = read_snapshot(write_snapshot(board))
        ended.stop()
        return ended

    def moved(self, place: int, by: int, stride: Stride) -> int:
        """The index so many strides further, or back."""
        if stride == "record":
            return max(0, min(len(self.steps) - 1, place + by))
        marks = self._requests if stride == "request" else self._tasks
        if not marks:
            return place
        at = bisect_right(marks, place) - 1 + by if by > 0 else bisect_left(marks, place) + by
        return marks[max(0, min(len(marks) - 1, at))]

    def last_item(self, place: int, conversation_id: ConversationId) -> ItemId | None:
        """The last item that the conversation had at this step: where a fork of it can begin."""
        items = self._items.get(conversation_id, [])
        at = bisect_right(items, self.steps[place].n, key=lambda item: item[0])
        return items[at - 1][1] if at else None

    def request_before(self, place: int, conversation_id: ConversationId | None = None) -> int | None:
        """The index of the newest request at or before this step, of this conversation if one is named."""
        for at in reversed(self._requests[: bisect_right(self._requests, place)]):
            if conversation_id in (None, self.steps[at].conversation_id):
                return at
        return None

    def prompt(self, place: int) -> RecordedPrompt:
        """The request to the model at this step."""
        return read_prompt(self._lines(RowReader()), self.steps[place].n)
