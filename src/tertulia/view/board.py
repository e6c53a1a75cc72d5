"""Folds the events of a session into what screens show. One reducer for terminal, page, replay and tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tertulia.protocol.events import Event, EventData
from tertulia.view import call_events, message_events, task_events
from tertulia.view.board_state import NOTHING, BoardState, Changes
from tertulia.view.fold import Fold


class Board(BoardState, omit_defaults=True, kw_only=True):
    """A board that follows a session. Only `take`, `read` and `stop` change it."""

    _folds: ClassVar[Mapping[type[EventData], Fold]] = {
        **task_events.FOLDS,
        **message_events.FOLDS,
        **call_events.FOLDS,
    }

    def take(self, event: Event) -> Changes:
        """Fold one event in. A durable event that was taken before changes nothing."""
        seq = event.seq
        if seq is not None:
            if event.epoch == self.epoch and seq <= self.seq:
                return NOTHING
            self.epoch, self.seq = event.epoch, seq
        fold = self._folds.get(type(event.data))
        return NOTHING if fold is None else fold(self, event, event.data)
