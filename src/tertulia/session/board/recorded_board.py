"""Folds the lines of a record into a board: events, and the items that a fork was begun with."""

from __future__ import annotations

from tertulia.events.clock import Timestamps
from tertulia.protocol.events import Event
from tertulia.protocol.records import ItemsRecord
from tertulia.rollout.format.record_lines import RecordLine
from tertulia.view.board import Board
from tertulia.view.copied_items import add_copied_items


def fold_line(board: Board, line: RecordLine, timestamps: Timestamps) -> None:
    """Take one line, if a screen shows anything of it."""
    if isinstance(event := line.what, Event):
        board.take(event)
    elif isinstance(record := line.what, ItemsRecord):
        add_copied_items(board, record, timestamps.at(line.ts))
