"""A client cannot fill the log."""

from __future__ import annotations

import logging

import pytest

from tertulia.server.jsonrpc.request_runner import MAX_WARNING_KINDS, CountedLog
from tests.server.client import connected


def test_a_kind_is_told_once_and_then_with_its_count_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    """L7."""
    log = CountedLog(logging.getLogger(__name__))
    for _ in range(50_000):
        log.write("a", "it was a")
    log.write("b", "it was b")
    texts = [f" ({count} times so far)" for count in ("10", "100", "1,000", "10,000")]
    assert caplog.messages == ["it was a", *(f"it was a{text}" for text in texts), "it was b"]


def test_kinds_without_end_are_one_kind(caplog: pytest.LogCaptureFixture) -> None:
    """L7: their names are the client's."""
    log = CountedLog(logging.getLogger(__name__))
    for number in range(50_000):
        log.write(str(number), f"it was {number}")
    assert len(caplog.messages) == MAX_WARNING_KINDS + 5
    assert caplog.messages[-1].endswith("(10,000 times so far)")


async def test_notifications_that_nobody_knows_are_not_logged_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    """L7: 50,000 of them were 5.35 MB."""
    async with connected() as client:
        for _ in range(2_000):
            await client.send({"jsonrpc": "2.0", "method": "no/such", "params": {}})
        await client.call("conversation/list")
    messages = [message for message in caplog.messages if "no/such" in message]
    assert len(messages) == 4
    assert "(1,000 times so far)" in messages[-1]
