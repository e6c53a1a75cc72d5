"""What a record tells of a session that its history does not: how turns of the root ended, and what all of it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import msgspec

from tertulia.events.clock import SystemClock
from tertulia.history.segment import is_user_request
from tertulia.protocol.events import (
    Event,
    SessionConfigured,
    TaskComplete,
    TaskContinued,
    TaskStarted,
    TokenCount,
    TurnAborted,
)
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.rollout.format.row_reader import RowReader
from tertulia.rollout.sqlite.reader import SqliteReader
from tertulia.rollout.sqlite.session_index import find_files

_FAILED = ("timeout", "limit")


class PastTurns(msgspec.Struct, frozen=True):
    """How turns of a session ended and what they cost, since it was first started."""

    usage: Usage = NO_USAGE
    """Of every request, whichever conversation made it."""
    endings: Mapping[ItemId, str] = MappingProxyType({})
    """By the message that a turn began with: completed, failed or interrupted. What was put in later is not here."""


def read_past_turns(home: Path, session_id: str) -> PastTurns:
    """From the whole record of a session, whichever process owns it. Blocks. NotFound, or StorageError."""
    with closing(SqliteReader(find_files(home, session_id).db, SystemClock())) as reader:
        return past_turns(RowReader().lines(reader.rows()))


def past_turns(lines: Iterable[RecordLine]) -> PastTurns:
    """The past turns that the lines of a record tell of."""
    reader = _PastTurnsReader()
    for line in lines:
        match line.what:
            case Event() as event:
                reader.hear(event)
            case ItemsRecord() as record if record.conversation_id == reader.root:
                reader.request_id = next(
                    (item.id for item in reversed(record.items) if is_user_request(item)), reader.request_id
                )
            case _:
                pass
    return PastTurns(reader.usage, reader.endings)


class _PastTurnsReader:
    def __init__(self) -> None:
        self.root: ConversationId | None = None
        self.request_id: ItemId | None = None
        """The last message to the root, until a turn begins with it or ends."""
        self.usage = NO_USAGE
        self.endings: dict[ItemId, str] = {}
        self._turn: ItemId | None = None
        self._last: ItemId | None = None
        """The last turn that has ended, as far as is known: one that a crash cut may go on."""

    def hear(self, event: Event) -> None:
        match event.data:
            case SessionConfigured() as data:
                # The session was resumed: what ran in the process before was killed with it.
                self._end("interrupted")
                self.root = data.root_conversation_id
            case TokenCount() as data:
                self.usage += data.usage
            case TaskStarted() as data if event.conversation_id == self.root and data.kind != "continuation":
                self._begin()
            case TaskContinued() if event.conversation_id == self.root:
                self._turn = self._last
            case TaskComplete() as data if event.conversation_id == self.root:
                self._end(data.status)
            case TurnAborted() as data if event.conversation_id == self.root and data.reason != "replaced":
                self._end("failed" if data.reason in _FAILED else "interrupted")
            case _:
                pass

    def _begin(self) -> None:
        request_id = self.request_id
        self._end("interrupted")
        self._turn = request_id

    def _end(self, status: str) -> None:
        if self._turn is not None:
            self.endings[self._turn] = status
            self._last = self._turn
        # A task without a message of its own, as compaction is, must find neither the turn nor what was put into it.
        self._turn = self.request_id = None
