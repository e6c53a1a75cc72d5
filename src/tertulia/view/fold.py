"""The type of a fold: what one kind of event does to a board."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tertulia.protocol.events import Event
from tertulia.view.board_state import BoardState, Changes

Fold = Callable[[BoardState, Event, Any], Changes]
