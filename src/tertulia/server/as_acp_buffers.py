"""What an ACP editor has of files, asked of it: `fs/read_text_file` and `fs/write_text_file`. Implements `Buffers`."""

from __future__ import annotations

import asyncio
from typing import Any

from tertulia.events.clock import Clock, SystemClock
from tertulia.server.peer import Peer
from tertulia.tools.editor import MAX_TEXT_BYTES

ANSWER_S = 2.0
PATIENCE = 3
"""After so many silences in a row the editor is left alone for a while."""
REST_S = 30.0


class EditorBuffers:
    """Of one session. Whether a path may be asked about is decided by whoever asks."""

    def __init__(self, peer: Peer, *, can_write: bool, answer_s: float = ANSWER_S, clock: Clock | None = None) -> None:
        self._peer = peer
        self._answer_s = answer_s
        self._clock = clock or SystemClock()
        self._silent = 0
        self._rests_until = 0.0
        self.can_write = can_write
        self.session_id: str | None = None
        """What the editor calls the session, as soon as it has heard of it."""

    async def text(self, path: str) -> str | None:
        """See `Buffers`."""
        content = (await self._ask("fs/read_text_file", {"path": path}) or {}).get("content")
        return content if isinstance(content, str) and len(content) <= MAX_TEXT_BYTES else None

    async def write(self, path: str, text: str) -> None:
        """See `Buffers`."""
        await self._ask("fs/write_text_file", {"path": path, "content": text})

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if self.session_id is None or (self._silent >= PATIENCE and self._clock.monotonic() < self._rests_until):
            return None
        before = self._silent
        try:
            async with asyncio.timeout(self._answer_s):
                said = await self._peer.ask(method, {"sessionId": self.session_id, **params})
        except TimeoutError:
            # Questions that waited together met with one silence, however many they were.
            if self._silent == before:
                self._silent += 1
                self._rests_until = self._clock.monotonic() + REST_S
            return None
        self._silent = 0
        return said
