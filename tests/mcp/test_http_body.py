"""The bodies of answers: whole, mended, and of the right request."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.http_body import MAX_BODY, Events, answers_another, asked_in, whole
from tertulia.mcp.mending import MAX_MENDED


class Pieces(httpx2.AsyncByteStream):
    """A body in these pieces, which then ends, or breaks off."""

    def __init__(self, *pieces: bytes, broken: bool = False) -> None:
        self.pieces, self.broken, self.closed = pieces, broken, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.broken:
            raise httpx2.ReadError("gone")

    async def aclose(self) -> None:
        self.closed = True


def post(**message: object) -> httpx2.Request:
    return httpx2.Request("POST", "http://x/", json={"jsonrpc": "2.0", **message})


@pytest.mark.parametrize(
    ("request_", "id"),
    [
        (post(id=1, method="tools/call"), 1),
        (post(id="a", method="ping"), "a"),
        (post(method="notifications/initialized"), None),
        (post(id=3, result={}), None),
        (httpx2.Request("POST", "http://x/", content=b"<html>"), None),
        (httpx2.Request("GET", "http://x/"), None),
    ],
)
def test_what_is_asked_stands_in_the_request(request_: httpx2.Request, id: int | str | None) -> None:
    assert asked_in(request_) == id


@pytest.mark.parametrize(
    ("body", "another"),
    [
        ('{"id":1,"result":{}}', False),
        ('{"id":2,"result":{}}', True),
        ('{"id":"1","error":{}}', True),
        ('{"id":null,"error":{}}', False),
        ('{"id":2,"method":"ping"}', False),
        ('{"method":"notifications/progress"}', False),
        ('{"id":[2],"result":{}}', False),
        ("not json", False),
        ("[" * 100_000, False),
    ],
)
def test_an_answer_belongs_to_its_request(body: str, another: bool) -> None:
    """HARDENING C7"""
    assert answers_another(body.encode(), 1) is another
    assert not answers_another(body.encode(), None)


async def test_a_body_is_taken_whole_and_mended() -> None:
    stream = Pieces(b'{"a": "x\\ud8', b'00y\xff"}')
    assert await whole(stream) == b'{"a": "x\\ufffdy\xef\xbf\xbd"}'
    assert stream.closed


async def test_what_is_too_long_or_breaks_off_is_said() -> None:
    """HARDENING C10"""
    assert await whole(Pieces(*[b"x" * (1 << 20)] * 17)) == f"its answer has more than {MAX_BODY:,} bytes"
    assert await whole(Pieces(b"x", broken=True)) == "its answer broke off"
    assert await whole(Pieces(b"[]," * 200_001)) == "its answer has more than 200,000 parts"


async def read(stream: Pieces, asked: int | None = 1) -> tuple[bytes, int]:
    """What comes through, and how much was left out."""
    dropped: list[None] = []
    events = Events(stream, asked, lambda: dropped.append(None))
    came = b"".join([piece async for piece in events])
    await events.aclose()
    assert stream.closed
    return came, len(dropped)


async def test_events_for_somebody_else_are_left_out() -> None:
    """HARDENING C7: the SDK would take any answer in the stream for the one that is waited for."""
    right, lie, news = ({"id": 1, "result": {}}, {"id": 2, "result": {"a": 1}}, {"method": "n", "params": {}})
    text = "".join(f"event: message\ndata: {json.dumps(each)}\n\n" for each in (news, lie, right))
    came, dropped = await read(Pieces(text.encode()))
    assert dropped == 1
    assert [json.loads(line[5:]) for line in came.splitlines() if line.startswith(b"data:")] == [news, right]
    assert await read(Pieces(text.encode()), None) == (text.encode(), 0)


@given(cuts=st.lists(st.integers(0, 60), max_size=6))
async def test_wherever_it_is_cut_the_same_comes_through(cuts: list[int]) -> None:
    text = b'id: 1\r\ndata: {"id":1,"result":{"a":"\\ud800 \xe2\x82\xac"}}\r\n\r\n: more\n'
    places = [0, *sorted(cuts), len(text)]
    came, _ = await read(Pieces(*(text[a:b] for a, b in pairwise(places))))
    assert came == text.replace(b"\\ud800", b"\\ufffd")


async def test_a_line_may_end_as_it_did_on_old_machines() -> None:
    stream = Events(Pieces(b'data: {"id":1}\r\r', b"data"), 1, lambda: None)
    assert await anext(aiter(stream)) == b'data: {"id":1}\r\r', "nothing waits for what comes later"


async def test_a_stream_ends_where_it_breaks_off_and_nothing_of_it_is_held_back_for_ever() -> None:
    assert await read(Pieces(b"data: 1\n\ndata", b": 2", broken=True)) == (b"data: 1\n\ndata: 2", 0)
    endless = Pieces(*[b"x" * (1 << 20)] * 20)
    came, _ = await read(endless)
    assert len(came) == 20 << 20, "who counts the bytes of an event refuses it"


async def test_a_line_that_is_too_long_to_be_looked_at_comes_through_as_it_is() -> None:
    long = b"data: " + "\u20ac".encode() * MAX_MENDED
    text = long + b"\ndata: \xff\n"
    pieces = [text[at : at + 100_001] for at in range(0, len(text), 100_001)]
    came, _ = await read(Pieces(*pieces))
    assert came == long + b"\ndata: \xef\xbf\xbd\n", "and what follows is looked at again"


async def test_a_long_line_in_small_pieces_costs_as_much_as_it_is_long() -> None:
    """HARDENING C10: a server that trickles one line does not take the time of everybody else."""

    async def spent(size: int) -> float:
        stream = Pieces(*[b"x" * 64] * (size // 64), b"\n")
        before = time.thread_time()
        came, _ = await read(stream)
        assert came == b"x" * size + b"\n"
        return time.thread_time() - before

    # Sixteen times the bytes; with a copy of the line for each piece it would be 256 times the work.
    assert await spent(MAX_MENDED) < 64 * await spent(MAX_MENDED // 16)
