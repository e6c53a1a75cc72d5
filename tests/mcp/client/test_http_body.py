"""The bodies of answers: whole, mended, and of the right request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.mcp.client import http_body as module
from tertulia.mcp.client.error_text import NO_ANSWER, UNREADABLE
from tertulia.mcp.client.http_body import (
    MAX_BODY,
    BodyFailure,
    EventStreamBody,
    Tickets,
    answers_other_request,
    read_body,
    request_id_in,
)
from tertulia.mcp.client.json_repair import MAX_REPAIRED
from tertulia.mcp.client.jsonrpc_lines import Envelope, MessageProblem
from tests.deadlines import HANG_S
from tests.loop_steps import MOST_S, loop_steps
from tests.tables import Large, each_row


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


@each_row(
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
    assert request_id_in(request_) == id


@each_row(
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
    assert answers_other_request(body.encode(), 1) is another
    assert not answers_other_request(body.encode(), None)


async def test_a_body_is_taken_whole_and_mended() -> None:
    stream = Pieces(b'{"a": "x\\ud8', b'00y\xff"}')
    assert await read_body(stream) == b'{"a": "x\\ufffdy\xef\xbf\xbd"}'
    assert stream.closed


async def test_what_is_too_long_or_breaks_off_is_said() -> None:
    """HARDENING C10"""
    too_long = BodyFailure(f"Unreadable: it has more than {MAX_BODY:,} bytes")
    assert await read_body(Pieces(*[b"x" * (1 << 20)] * 17)) == too_long
    assert await read_body(Pieces(b"x", broken=True)) == BodyFailure("its answer broke off", NO_ANSWER)
    assert await read_body(Pieces(b"[]," * 200_001)) == BodyFailure("Unreadable: it has more than 200,000 parts")
    assert await read_body(Pieces(b"[" * 50_000)) == BodyFailure("Unreadable: it has nested deeper than 500 levels")


async def read(stream: Pieces, limit: int | None = 1) -> tuple[bytes, int]:
    """What comes through, and how much was left out."""
    dropped: list[None] = []
    events = EventStreamBody(stream, limit, lambda: dropped.append(None), Tickets())
    came = b"".join([piece async for piece in events])
    await events.aclose()
    assert stream.closed
    return came, len(dropped)


async def test_events_for_somebody_else_are_left_out() -> None:
    """HARDENING C7: the SDK would take any answer in the stream for the one that is waited for."""
    right, lie, news = ({"id": 1, "result": {}}, {"id": 2, "result": {"a": 1}}, {"method": "n", "params": {}})
    text = "".join(f"event: message\ndata: {json.dumps(message)}\n\n" for message in (news, lie, right))
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
    stream = EventStreamBody(Pieces(b'data: {"id":1}\r\r', b"data"), 1, lambda: None, Tickets())
    assert await anext(aiter(stream)) == b'data: {"id":1}\r\r', "nothing waits for what comes later"


async def test_a_stream_ends_where_it_breaks_off_and_nothing_of_it_is_held_back_for_ever() -> None:
    assert await read(Pieces(b"data: 1\n\ndata", b": 2", broken=True)) == (b"data: 1\n\ndata: 2", 0)


def refusal(came: bytes) -> dict[str, Any]:
    """The error in place of an answer."""
    [data] = [line[5:] for line in came.splitlines() if line.startswith(b"data:")]
    answer = json.loads(data)
    assert (answer["id"], answer["error"]["code"]) == (1, UNREADABLE)
    return answer["error"]


async def test_an_event_that_is_too_long_is_an_error_as_soon_as_that_is_certain() -> None:
    """L1, L4, HARDENING C10: also where it never ends."""
    came, _ = await read(Pieces(*[b"data: " + b"x" * (1 << 20)] * 20))
    assert refusal(came)["message"] == f"Unreadable: it has more than {MAX_BODY:,} bytes or 20,000 lines"
    after = b'\n\ndata: {"id":1,"result":{}}\n\n'
    came, _ = await read(Pieces(*[b"data: " + b"x" * (1 << 20)] * 20, after))
    assert came.endswith(after[2:]), "the next event is read again"
    assert await read(Pieces(*[b"x" * (1 << 20)] * 20), None) == (b":\n\n", 1), "nobody waits for it"


PARTS = Large(lambda: b'{"jsonrpc":"2.0","id":1,"result":{"a":[' + b"{}," * 1_000_000 + b"1]}}")
DEEP = b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001


@pytest.mark.parametrize(("data", "why"), [(PARTS, "more than 200,000 parts"), (DEEP, "nested deeper than 500 levels")])
async def test_an_event_of_too_many_parts_is_an_error_and_never_built(data: bytes, why: str) -> None:
    """L1, L4: an event with 5 million `{}` held the loop for 3.5 s, with 912 MB."""
    text = b"event: message\ndata: " + data + b"\n\n"
    async with loop_steps() as steps:
        came, dropped = await read(Pieces(*(text[at : at + 65_536] for at in range(0, len(text), 65_536))))
    assert (refusal(came)["message"], dropped) == (f"Unreadable: it has {why}", 0)
    assert steps.longest_s < MOST_S


async def test_a_notification_of_too_many_parts_is_left_out_and_the_answer_still_waited_for() -> None:
    """L4: it answers nothing, so no call may fail for it."""
    news = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"a":[' + b"{}," * 250_000 + b"1]}}\n\n"
    answer = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'
    assert await read(Pieces(news + answer)) == (b":\n\n" + answer, 1)


async def test_what_a_string_holds_is_no_part_and_an_event_may_have_many_lines() -> None:
    """L1: a quote in another field of the event does not hide what is in its data."""
    program = b'id: 7\ndata: {"jsonrpc":"2.0","id":1,\ndata: "result":{"text":"' + b"{}," * 300_000 + b'"}}\n\n'
    tickets = Tickets()
    [came] = [some async for some in EventStreamBody(Pieces(program), 1, lambda: None, tickets)]
    name, _, data = came.partition(b"\ndata:")
    assert name == b"id: 7"
    assert tickets.content(json.loads(data)["result"]) == {"text": "{}," * 300_000}
    came, _ = await read(Pieces(b'id: "\ndata: ' + PARTS.make() + b"\n\n"))
    assert "parts" in refusal(came)["message"]


async def test_a_long_event_that_cannot_be_read_is_an_error_and_what_follows_is_looked_at_again() -> None:
    """L4."""
    text = b"data: " + "\u20ac".encode() * MAX_REPAIRED + b"\n\n" + b"data: \xff\n\n"
    pieces = [text[at : at + 100_001] for at in range(0, len(text), 100_001)]
    came, _ = await read(Pieces(*pieces))
    first, _, rest = came.partition(b"\n\n")
    assert refusal(first)["message"] == "Unreadable: it is not JSON"
    assert rest == b"data: \xef\xbf\xbd\n\n"


async def test_a_long_line_in_small_pieces_costs_as_much_as_it_is_long() -> None:
    """HARDENING C10: a server that trickles one line does not take the time of everybody else."""

    async def spent(size: int) -> float:
        stream = Pieces(*[b"x" * 64] * (size // 64), b"\n")
        before = time.thread_time()
        came, _ = await read(stream)
        assert came == b":\n\n", "nobody wants it"
        return time.thread_time() - before

    # Sixteen times the bytes; with a copy of the line for each piece it would be 256 times the work.
    assert await spent(MAX_REPAIRED) < 64 * await spent(MAX_REPAIRED // 16)


@each_row(
    ("hostile", "heard"),
    [
        (b"data: ab\n" * 40_000 + b"\n", 1),
        (b"\n" * 200_000, 0),
        (b":\n\n" * 70_000, 0),
        (b"data: 1\n\n" * 9_000, 9_000),
    ],
    ids=["lines", "blank", "comments", "events"],
)
async def test_lines_and_events_without_number_hold_the_loop_never_for_long(hostile: bytes, heard: int) -> None:
    """L1: each step is short, of what says nothing a few are enough, and too many lines are an error."""
    pieces = [hostile[start : start + 65_536] for start in range(0, len(hostile), 65_536)]
    async with loop_steps() as steps:
        passed = [some async for some in EventStreamBody(Pieces(*pieces), 1, lambda: None, Tickets())]
    assert b"".join(passed).count(b"data:") == heard
    assert len(max(passed, key=len)) < 4096
    assert steps.longest_s < MOST_S


# ---- tickets for what the SDK need not see


async def test_a_ticket_stands_for_its_content_once() -> None:
    """L1."""
    tickets, content = Tickets(), {"text": "x" * 100_000}
    replaced = tickets.replace_content(Envelope(jsonrpc="2.0", id=1, result=content))
    assert len(replaced) < 200
    result = json.loads(replaced)["result"]
    assert tickets.content(result) is content
    assert tickets.content(result) is result, "there is nothing left"
    assert len(tickets) == 0


async def test_requests_and_notifications_of_a_server_keep_their_names() -> None:
    tickets = Tickets()
    request = json.loads(tickets.replace_content(Envelope(jsonrpc="2.0", id="a", method="m", params={"x": 1})))
    news = json.loads(tickets.replace_content(Envelope(jsonrpc="2.0", method="n")))
    assert (request["id"], request["method"], "id" in news) == ("a", "m", False)
    assert (tickets.content(request["params"]), tickets.content(news["params"])) == ({"x": 1}, {})


async def test_an_error_is_cut() -> None:
    problem = MessageProblem(-1, "y" * 100_000, data={"a": 1})
    replaced = Tickets().replace_content(Envelope(jsonrpc="2.0", id=1, error=problem))
    assert json.loads(replaced)["error"] == {"code": -1, "message": "y" * 10_000}


async def test_no_server_can_write_a_ticket() -> None:
    tickets = Tickets()
    tickets.replace_content(Envelope(jsonrpc="2.0", id=1, result={"secret": 1}))
    for guess in ("", "0" * 32, 1, None, ["x"], {}):
        fields = {"tertulia/ticket": guess}
        assert tickets.content(fields) is fields


async def test_what_nobody_asks_for_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_S", 0.0)
    tickets = Tickets()
    tickets.replace_content(Envelope(jsonrpc="2.0", id=1, result={"a": 1}))
    gone = asyncio.Event()
    asyncio.get_running_loop().call_later(0.0, gone.set)
    async with asyncio.timeout(HANG_S):
        await gone.wait()
    assert len(tickets) == 0
    monkeypatch.setattr(module, "KEPT_S", 30.0)
    tickets.replace_content(Envelope(jsonrpc="2.0", id=1, result={"a": 1}))
    tickets.clear()
    assert len(tickets) == 0
