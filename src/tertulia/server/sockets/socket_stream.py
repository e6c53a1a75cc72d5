"""One connection of a session's socket as bytes, both ways: used by the session's process and by its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

from tertulia.server.jsonrpc.output_sink import PipeSink


class SocketStream(PipeSink, asyncio.Protocol):
    """One connection: lines go out as through any sink, and what comes in is read when it is asked for."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        """Set when the connection is gone."""
        super().__init__(self.lost.set)
        self._incoming: list[bytes] = []
        self._news = asyncio.Event()
        self._ended = False

    def data_received(self, data: bytes) -> None:
        """Called by asyncio. Nothing more is read until this was taken: who sends faster has to wait."""
        self._incoming.append(data)
        self._news.set()
        cast(asyncio.Transport, self._transport).pause_reading()

    def eof_received(self) -> bool:
        """Called by asyncio: the client sends no more, but it may still read."""
        self._ended = True
        self._news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._ended = True
        self._news.set()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """What comes in, until its end."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._incoming:
                yield self._incoming.pop(0)
            if self._ended:
                return
            if self._transport is not None and not self._transport.is_closing():
                cast(asyncio.Transport, self._transport).resume_reading()
