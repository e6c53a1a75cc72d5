"""Folds the lines of a record into a board: events, and the items that a fork was begun with."""

from __future__ import annotations

from tertulia.events.clock import Timestamps
from tertulia.protocol.events import Event
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.view.board import Board
from tertulia.view.copied_items import add_copied_items
from tertulia.view.older_messages import OlderMessages


def fold_line(board: Board, line: RecordLine, timestamps: Timestamps) -> None:
    """Take one line, if a screen shows anything of it."""
    if isinstance(event := line.what, Event):
        board.take(event)
    elif isinstance(record := line.what, ItemsRecord):
        add_copied_items(board, record, timestamps.at(line.ts))


class RecordedBoard:
    """A board that follows a record from its first line, also one that is older than events of messages."""

    def __init__(self, timestamps: Timestamps) -> None:
        self.board = Board()
        self._timestamps = timestamps
        self._older = OlderMessages()

    def take(self, line: RecordLine) -> None:
        """Take one line, if a screen shows anything of it."""
        for message in self._older.take(line.what):
            self.board.take(message)
        fold_line(self.board, line, self._timestamps)
