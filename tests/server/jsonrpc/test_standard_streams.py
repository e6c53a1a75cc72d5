"""Lines of a client, whole or not. What becomes of the streams themselves: see `test_stdio`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from time import thread_time
from typing import Any

import pytest

from tertulia.errors import TertuliaError
from tertulia.server.jsonrpc import standard_streams
from tertulia.server.jsonrpc.line_framing import LineSplitter
from tertulia.server.jsonrpc.standard_streams import receive_lines
from tests.loop_steps import MOST_S, loop_steps


class Listener:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def receive(self, line: bytes) -> None:
        self.heard.append(line)

    async def refuse(self, error: TertuliaError) -> None:
        self.heard.append(error.code)


async def heard(given: bytes) -> list[Any]:
    source, feed = os.pipe()
    os.write(feed, given)
    os.close(feed)
    listener = Listener()
    async with asyncio.timeout(10):
        await receive_lines(source, listener)
    os.close(source)
    return listener.heard


async def test_lines_are_handed_on_in_order_and_the_last_one_needs_no_end() -> None:
    """Issue 10 (2), HARDENING D11."""
    assert await heard(b"one\ntwo\r\n\nthree") == [b"one", b"two", b"three"]


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """HARDENING D7."""
    monkeypatch.setattr(standard_streams, "LineSplitter", lambda: LineSplitter(10))
    assert await heard(b"x" * 50 + b"\nnext\n") == ["invalid_request", b"next"]


async def test_lines_that_are_nothing_hold_the_loop_never_for_long() -> None:
    """L1: each was refused at once, and 130,000 of them in one step of 337 ms."""

    class Refusing:
        heard = 0

        async def receive(self, line: bytes | bytearray) -> None:
            self.heard += 1
            # As long as a refusal takes.
            until = thread_time() + 2e-5
            while thread_time() < until:
                pass

        async def refuse(self, error: TertuliaError) -> None:
            raise AssertionError(error)

    client, data = Refusing(), b"x\n" * 20_000
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        async with loop_steps() as steps:
            await receive_lines(file.fileno(), client)
    assert client.heard == 20_000
    assert steps.longest_s < MOST_S
