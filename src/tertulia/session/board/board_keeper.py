"""Folds the events of a session into a board when a client asks for one, and goes on from there when one asks again.

Nothing is folded before the first client asks, nor in between: events that the bus still has are taken then, and older
ones are read from the record.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Protocol

import msgspec

from tertulia.conversation.task_handle import AnswerWriter, UnfinishedAnswer
from tertulia.errors import NotFoundError, StorageError
from tertulia.events.bus import EventBus
from tertulia.events.clock import Clock, Timestamps
from tertulia.protocol.events import AgentMessageDelta, Event, SubscriberLagged
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.protocol.storage import Full, Ttl
from tertulia.session.board.answers import BoardAnswer
from tertulia.session.conversations import Conversations
from tertulia.session.settings.environment import Environment
from tertulia.tools.threads import run_in_thread
from tertulia.view.board import Board
from tertulia.view.conversation_view import ConversationView
from tertulia.view.snapshot import without_links

MAX_CELLS = 500
"""Of one conversation, where the client does not say how many."""
_CELLS_OF_CLOSED = 50
"""What is kept of a closed conversation: a session may have thousands, one after the other."""


class BoardParts(Protocol):
    """The parts of a session that a board is made from."""

    @property
    def session_id(self) -> SessionId: ...
    @property
    def root_id(self) -> ConversationId: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def timestamps(self) -> Timestamps: ...
    @property
    def epoch(self) -> int: ...
    @property
    def began_after(self) -> int: ...


class _WrittenSoFar(msgspec.Struct, frozen=True):
    """The beginning of an answer that is being written."""

    conversation_id: ConversationId
    writer: AnswerWriter
    answer: UnfinishedAnswer
    text: str
    """The text so far, without secrets."""

    def is_unfinished(self) -> bool:
        """Whether it is still being written: one that is whole, or was withdrawn, is told by events."""
        return self.writer.partial is self.answer


class BoardKeeper:
    """The board of one session."""

    def __init__(self, parts: BoardParts, bus: EventBus, conversations: Conversations) -> None:
        self._parts = parts
        self._bus = bus
        self._conversations = conversations
        self._board: Board | None = None

    async def answer(self, max_cells: int | None) -> BoardAnswer:
        """The board as it is now; `max_cells`: of each conversation the last so many."""
        if self._board is None or self._has_gap(self._board):
            past = await self._past()
            # A record without texts has less than the board that was folded in memory.
            if self._board is None or self._has_texts(past):
                self._board = past
        parts, board = self._parts, self._board
        unfinished = await self._unfinished()
        # From here on nothing waits: the number says exactly what is in it.
        self._follow(board)
        for answer in unfinished:
            if answer.is_unfinished():
                board.take(self._delta(answer))
        shown = msgspec.to_builtins(without_links(board, max_cells or MAX_CELLS))
        return BoardAnswer(parts.session_id, parts.epoch, self._bus.last_seq, shown)

    async def _unfinished(self) -> list[_WrittenSoFar]:
        """What has come of the answers that are being written, as it may be shown. No event that is kept has it."""
        found: list[_WrittenSoFar] = []
        for conversation in self._conversations:
            writer = None if conversation.task is None else conversation.task.writer
            answer = None if writer is None else writer.partial
            if writer is not None and answer is not None:
                text = await self._bus.clean_text(answer.text)
                found.append(_WrittenSoFar(conversation.id, writer, answer, text))
        return found

    def _delta(self, written: _WrittenSoFar) -> Event:
        parts, data = self._parts, AgentMessageDelta(written.text, written.answer.item_id, 0)
        ids = parts.session_id, "", written.conversation_id, None, None, None
        return Event(parts.epoch, None, parts.timestamps(), data.type, *ids, data)

    async def _past(self) -> Board:
        """The board of older events, which the bus does not have: of earlier runs, and the beginning of a long one."""
        parts = self._parts
        first, _ = self._bus.recent_events(self._bus.last_seq)
        if first == 1:
            return Board()
        return await run_in_thread(
            _read_past, parts.environment.home, parts.session_id, parts.clock, parts.epoch, first
        )

    def _cursor(self, board: Board) -> int:
        is_of_now = board.session_id is not None and board.epoch == self._parts.epoch
        return board.seq if is_of_now else self._parts.began_after

    def _has_gap(self, board: Board) -> bool:
        """Whether the bus has forgotten events that are not in the board."""
        cursor = self._cursor(board)
        return self._bus.recent_events(cursor)[0] > cursor + 1

    def _has_texts(self, past: Board) -> bool:
        policies = [conversation.storage for conversation in self._conversations]
        return past.session_id is not None and all(isinstance(policy, Full | Ttl) for policy in policies)

    def _follow(self, board: Board) -> None:
        parts, cursor = self._parts, self._cursor(board)
        first, events = self._bus.recent_events(cursor)
        if first > cursor + 1:
            board.take(_gap(parts, cursor + 1, first - 1))
        for event in events:
            board.take(event)
        board.epoch, board.seq = parts.epoch, self._bus.last_seq
        self._complete(board)

    def _complete(self, board: Board) -> None:
        """Add what is open and of whose beginning no event is left; forget most of what is closed."""
        parts = self._parts
        board.session_id, board.root_id = parts.session_id, parts.root_id
        for conversation in self._conversations:
            if conversation.id not in board.conversations:
                board.conversations[conversation.id] = ConversationView(
                    id=conversation.id,
                    parent_id=conversation.parent_id,
                    title=conversation.title,
                    model=conversation.terms.wire.name,
                    backend=conversation.terms.backend,
                    depth=conversation.depth,
                )
        for view in board.conversations.values():
            if view.closed and (surplus := len(view.cells) - _CELLS_OF_CLOSED) > 0:
                del view.cells[:surplus]
                view.dropped += surplus


def _gap(parts: BoardParts, begin: int, end: int) -> Event:
    lagged = SubscriberLagged(begin, end, 0)
    ids = parts.session_id, "", None, None, None, None
    return Event(parts.epoch, None, parts.timestamps(), lagged.type, *ids, lagged)


def _read_past(home: Path, session_id: SessionId, clock: Clock, epoch: int, first: int) -> Board:
    """The board of the events before the first that the bus has, as far as they are stored. Blocks."""
    from tertulia.rollout.format.row_reader import RowReader
    from tertulia.rollout.sqlite.reader import SqliteReader
    from tertulia.rollout.sqlite.session_index import find_files
    from tertulia.session.board.recorded_board import RecordedBoard

    past = RecordedBoard(Timestamps(clock))
    try:
        with closing(SqliteReader(find_files(home, session_id).db, clock)) as reader:
            for line in RowReader(keep_items=_REMEMBERED).lines(reader.rows()):
                if isinstance(event := line.what, Event) and event.epoch >= epoch and (event.seq or 0) >= first:
                    break
                past.take(line)
    except (NotFoundError, StorageError):
        # It is not stored, or cannot be read: the rest is still shown.
        return past.board
    return past.board


_REMEMBERED = 1_000
"""Items of a conversation to which events may refer; they refer to the newest."""
