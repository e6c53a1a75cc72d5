"""How far an MCP server says it is, told at a pace that people can follow."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

from tertulia.protocol.events import EventData
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.tool_events import McpToolCallProgress
from tertulia.tools.output import bound
from tertulia.tools.tool import CallContext

INTERVAL_S = 0.1
"""Between two events of one call; of what comes meanwhile the last is told."""
MAX_MESSAGE_BYTES = 1_000


class ProgressReport:
    """The progress of one call. After `close` nothing is told any more."""

    __slots__ = ("_call", "_closed", "_count", "_held", "_item_id", "_pause")

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._item_id = new_item_id()
        self._count = 0
        self._held: tuple[float, float | None, str | None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Is told by the server, as often as it likes."""
        if self._closed or not math.isfinite(progress):
            return
        self._held = (progress, total if total is None or math.isfinite(total) else None, message)
        if self._pause is None:
            self._tell()

    def close(self) -> None:
        """The call is over."""
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()

    def _tell(self) -> None:
        self._pause = None
        if self._held is None:
            return
        self._pause = asyncio.get_running_loop().call_later(INTERVAL_S, self._tell)
        event, self._held = self._event(*self._held), None
        self._count += 1
        # A task that is over has nothing to say; that is no trouble of the server's.
        with suppress(asyncio.CancelledError):
            self._call.publish(event)

    def _event(self, progress: float, total: float | None, message: str | None) -> EventData:
        return McpToolCallProgress(
            call_id=self._call.call_id,
            progress=float(progress),
            total=None if total is None else float(total),
            message=None if message is None else bound(message, MAX_MESSAGE_BYTES).text,
            item_id=self._item_id,
            offset=self._count,
        )
