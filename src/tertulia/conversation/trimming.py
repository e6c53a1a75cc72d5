"""Keeping a history within its limits and within the model's window, without asking a model.

Both paths use the local summariser: a history that does not fit cannot be sent away to be summarised, and a
limit must not cost money or go round in circles.
"""

from __future__ import annotations

from typing import Literal

from tertulia.conversation.floor import Floor
from tertulia.history.compaction import Compaction, trim
from tertulia.history.store import HistoryLimits
from tertulia.protocol.events import HistoryCompacted

Trigger = Literal["request", "limit", "overflow"]
_ROOM = 0.5
"""After an overflow the history may fill this part of the window: the provider's count is not ours."""


def trim_to_limits(floor: Floor) -> None:
    """Trim when a configured limit is passed; say so."""
    history = floor.talk.history
    if history.over_limit():
        _tell(floor, trim(history), "limit")


def make_room(floor: Floor) -> bool:
    """Trim because the model said that it was too much; whether anything could be removed."""
    history = floor.talk.history
    window = floor.talk.terms.wire.context_window
    target = min(int(window * _ROOM), int(history.approx_tokens * _ROOM))
    done = trim(history, limits=HistoryLimits(max_tokens=target))
    _tell(floor, done, "overflow")
    return done.compacted


def _tell(floor: Floor, done: Compaction, trigger: Trigger) -> None:
    floor.talk.note_rewrites(done.rewrites)
    floor.publish(compacted_event(done, trigger))


def compacted_event(done: Compaction, trigger: Trigger) -> HistoryCompacted:
    """The event for what a compaction came to."""
    return HistoryCompacted(
        done.compacted, done.before_tokens, done.after_tokens, done.removed_items, trigger, done.reason
    )
