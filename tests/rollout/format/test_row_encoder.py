"""The only way by which a text leaves for the store."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.rollout.format.written_rows import RowEncoder
from tertulia.rollout.store import LongBody, Row
from tests.tables import each_row


def row_of(policy: StoragePolicy, body: dict[str, Any] | None) -> Row:
    maker = RowEncoder(redacted, 6)
    assert maker.put("said", "user", 3, 1.0, {"chars": 7}, policy=policy, body=body) == 7
    (row,) = maker.rows
    assert (row.n, row.conversation, row.header, row.policy) == (7, 3, b'{"chars":7}', policy)
    return row


def redacted(text: bytes) -> bytes:
    if b"broken" in text:
        raise ValueError("no text")
    return text.replace(b"hunter2", b"*")


def made(policy: StoragePolicy, body: dict[str, Any] | None) -> bytes | None:
    return row_of(policy, body).stored_body


@each_row("policy", [Full(), Ttl(5.0)])
def test_a_body_is_redacted_where_it_may_be_stored(policy: StoragePolicy) -> None:
    """E6"""
    assert made(policy, {"text": "hunter2"}) == b'{"text":"*"}'


@each_row("policy", [HeadersOnly(), NoStorage()])
def test_a_body_is_left_out_where_it_may_not(policy: StoragePolicy) -> None:
    """S002-16, S002-17, S002-19"""
    assert made(policy, {"text": "hunter2"}) is None


def test_a_long_body_is_redacted_when_it_is_stored_and_shows_itself_to_nobody_before() -> None:
    """E6, L1: that may take seconds, and is not done on the loop's thread."""
    row = row_of(Full(), {"text": "hunter2" * 100_000})
    assert isinstance(row.body, LongBody)
    assert "hunter2" not in repr(row)
    assert row.stored_body == b'{"text":"%b"}' % (b"*" * 100_000)
    assert made(HeadersOnly(), {"text": "hunter2" * 100_000}) is None
    assert made(Full(), {"text": "broken" * 100_000}) is None


@each_row("body", [None, {}, {"text": "\ud800"}, {"text": object()}, {"text": "broken"}])
def test_where_there_is_nothing_that_can_be_written_there_is_no_body(body: dict[str, Any] | None) -> None:
    assert made(Full(), body) is None


def test_a_header_that_cannot_be_written_is_empty() -> None:
    maker = RowEncoder(bytes, 0)
    maker.put("conversation", "conversation", 0, 1.0, {"id": object()}, policy=Full())

    assert [(row.n, row.conversation, row.header) for row in maker.rows] == [(1, 0, b"{}")]
