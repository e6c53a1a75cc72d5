"""An answer that is streamed: a refusal in the middle of it stays what it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tertulia.errors import NotFoundError
from tertulia.server.http import streaming
from tertulia.server.http.streaming import StreamedAnswer
from tests.deadlines import HANG_S


async def test_what_is_raised_while_the_connection_is_kept_open_comes_out_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Surfaces tell their clients of a refusal by its type, also where the stream has begun."""
    monkeypatch.setattr(streaming, "SILENCE_S", 0.0)
    spoke = asyncio.Event()

    async def send(message: Any) -> None:
        spoke.set()

    answer = StreamedAnswer(send)
    with pytest.raises(NotFoundError, match="it is gone"):
        async with asyncio.timeout(HANG_S), answer.unbroken():
            await spoke.wait()
            raise NotFoundError("it is gone")


async def test_a_connection_that_breaks_in_the_silence_ends_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "SILENCE_S", 0.0)

    async def send(message: Any) -> None:
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError):
        async with asyncio.timeout(HANG_S), StreamedAnswer(send).unbroken():
            await asyncio.Event().wait()
