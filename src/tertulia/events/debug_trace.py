"""What `--debug` logs of a running session: operations with their times and codes, and the events that came.

Names, numbers and codes only, never a text of a person, a model or a tool: no sweep reaches a log. Imported where the
log is on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

from tertulia.errors import TertuliaError
from tertulia.events.clock import Clock, SystemClock
from tertulia.protocol.events import EVENT_TYPES, Event

_log = logging.getLogger(__name__)
T = TypeVar("T")


async def traced(name: str, work: Awaitable[T]) -> T:
    """Run an operation, and log its name, how it ended and how long it took."""
    clock, code = SystemClock(), "stopped"
    began = clock.monotonic()
    try:
        answer = await work
        code = "ok"
        return answer
    except TertuliaError as error:
        code = error.code
        raise
    finally:
        _log.debug("operation %s: %s, %.1f ms", name, code, (clock.monotonic() - began) * 1000)


class EventTrace:
    """Logs events as they come; of passing ones only how many there were."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._passing: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """One event, in its order."""
        # A type that this version does not know is a text of another program.
        name = event.type if event.type in EVENT_TYPES else "unknown"
        if event.seq is None:
            self._passing[name] = self._passing.get(name, 0) + 1
            return
        self._tell_passing()
        task = "" if event.task_id is None else f", task {event.task_id[:8]}"
        conversation = "session" if event.conversation_id is None else event.conversation_id[:8]
        code = getattr(event.data, "code", None) or getattr(event.data, "status", None)
        state = f", {code}" if isinstance(code, str) and code.replace("_", "").isalnum() and len(code) < 40 else ""
        _log.debug("event %d %s, %s%s%s", event.seq, name, conversation, task, state)

    def _tell_passing(self) -> None:
        if self._passing:
            counts = ", ".join(f"{count} {name}" for name, count in self._passing.items())
            _log.debug("passing events: %s", counts)
            self._passing.clear()


def event_trace() -> EventTrace | None:
    """A trace where the log is on; else None."""
    return EventTrace() if _log.isEnabledFor(logging.DEBUG) else None
