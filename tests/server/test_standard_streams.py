"""Lines of a client, whole or not. What becomes of the streams themselves: see `test_stdio`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tertulia.errors import AgentError
from tertulia.server import standard_streams
from tertulia.server.framing import Lines
from tertulia.server.standard_streams import hear


class Listener:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def receive(self, line: bytes) -> None:
        self.heard.append(line)

    async def refuse(self, error: AgentError) -> None:
        self.heard.append(error.code)


async def heard(given: bytes) -> list[Any]:
    source, feed = os.pipe()
    os.write(feed, given)
    os.close(feed)
    listener = Listener()
    async with asyncio.timeout(10):
        await hear(source, listener)
    os.close(source)
    return listener.heard


async def test_lines_are_handed_on_in_order_and_the_last_one_needs_no_end() -> None:
    """Issue 10 (2), HARDENING D11."""
    assert await heard(b"one\ntwo\r\n\nthree") == [b"one", b"two", b"three"]


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING D7."""
    monkeypatch.setattr(standard_streams, "Lines", lambda: Lines(10))
    assert await heard(b"x" * 50 + b"\nnext\n") == ["invalid_request", b"next"]
