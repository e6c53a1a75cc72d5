"""The board of a session at any of its events: for replay, where a person moves back and forth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tertulia.protocol.events import Event
from tertulia.view.board import Board
from tertulia.view.snapshot import read_snapshot, write_snapshot

_STEP = 1_000
"""Events between two checkpoints at least: as many are folded again to go one step back."""
_MAX_CHECKPOINTS = 16
"""The most checkpoints; each is as large as the board was then."""


class Rewind:
    """Boards of a list of events. Going on is cheap, going back costs one stretch between two checkpoints."""

    def __init__(self, events: Sequence[Event], beginning: Board | None = None) -> None:
        """`beginning`: the board before the first event; None: an empty one."""
        self._events = events
        self._step = max(_STEP, -(-len(events) // _MAX_CHECKPOINTS))
        self._places = [0]
        self._checkpoints = [write_snapshot(beginning or Board())]
        self._board = read_snapshot(self._checkpoints[0])
        self._at = 0

    def __len__(self) -> int:
        return len(self._events)

    def board(self, count: int) -> Board:
        """The board after so many events: the same object as long as one goes on, so do not keep it."""
        count = max(0, min(count, len(self._events)))
        place = bisect_right(self._places, count) - 1
        if count < self._at or self._places[place] > self._at:
            self._board, self._at = read_snapshot(self._checkpoints[place]), self._places[place]
        while self._at < count:
            self._board.take(self._events[self._at])
            self._at += 1
            if self._at == self._places[-1] + self._step:
                self._places.append(self._at)
                self._checkpoints.append(write_snapshot(self._board))
        return self._board
