"""Where a response of HTTP ends: known for certain, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertulia.models.http.http_response import MAX_HEAD_BYTES, HttpResponse, NotHttpError
from tests.tables import each_row
from tests.thorough import examples

COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type:\t text/plain \r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;name=value\r\nhello\r\n00A\r\n, in parts\r\n"
    b"0\r\nX-Sum: 1\r\n\r\n"
)
OPEN_END = b"HTTP/1.1 200 OK\r\nX: 1\r\nx: 2\r\n\r\nuntil it is closed"


def read(whole: bytes, *, step: int = 1 << 20) -> HttpResponse:
    response = HttpResponse()
    for start in range(0, len(whole), step):
        response.feed(whole[start : start + step])
    return response


@each_row("step", [1, 2, 3, 7, 1 << 20])
def test_a_response_is_the_same_however_it_is_cut(step: int) -> None:
    counted, chunked, closed = (read(whole, step=step) for whole in (COUNTED, CHUNKED, OPEN_END))
    assert (counted.status, counted.headers["content-type"], counted.take()) == (200, "text/plain", b"hello")
    assert (chunked.status, chunked.take()) == (200, b"hello, in parts")
    assert (closed.headers["x"], closed.take()) == ("1, 2", b"until it is closed")
    assert [response.keeps_open for response in (counted, chunked, closed)] == [True, True, False]
    assert [response.done for response in (counted, chunked, closed)] == [True, True, False]
    assert closed.end()


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from([COUNTED, CHUNKED]), st.data())
def test_no_beginning_of_a_response_is_taken_for_all_of_it(whole: bytes, data: st.DataObject) -> None:
    some = read(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert not some.done
    assert not some.end()


def test_what_was_taken_is_not_given_again() -> None:
    response = read(COUNTED[:-2])
    assert (response.buffered, response.take(), response.buffered) == (3, b"hel", 0)
    response.feed(b"lo")
    assert (response.take(), response.take()) == (b"lo", b"")


@each_row(
    ("head", "keeps_open"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0", False),
        (b"HTTP/1.1 204 No Content", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0", True),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\nContent-Length: 0", True),
        (b"HTTP/1.1 101 Switching Protocols", False),
    ],
)
def test_a_connection_is_kept_where_the_response_says_so(head: bytes, keeps_open: bool) -> None:
    response = read(head + b"\r\n\r\n")
    assert response.done
    assert response.keeps_open is keeps_open


def test_with_a_length_and_chunks_the_chunks_count_and_the_connection_is_not_used_again() -> None:
    response = read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")
    assert (response.done, response.keeps_open, response.take()) == (True, False, b"ab")


def test_what_follows_the_end_makes_the_connection_unusable() -> None:
    response = read(COUNTED + b"HTTP/1.1 200 OK\r\n")
    assert (response.done, response.surplus, response.keeps_open, response.take()) == (True, True, False, b"hello")


def test_announcements_come_before_the_response() -> None:
    response = read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + COUNTED)
    assert (response.status, "link" in response.headers, response.take()) == (200, False, b"hello")


@each_row(
    "bad",
    [
        b"220 mail.example ESMTP\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno name\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : space\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5" + b"0" * 5_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: aaaa\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
    ],
)
def test_what_is_no_response_or_has_no_certain_end_is_refused(bad: bytes) -> None:
    with pytest.raises(NotHttpError):
        read(bad)
    with pytest.raises(NotHttpError):
        read(bad, step=1_000)
