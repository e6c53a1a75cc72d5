"""An answer that comes in one long event: no step of the loop is long, and little more memory is used than it has."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

import tertulia
from tertulia.models.http.http_wire import PIECE_CHARACTERS, HttpWire
from tertulia.models.wire import AnswerItem, ReasoningDelta, TextDelta
from tests.loop_steps import MOST_S, loop_steps
from tests.models.apis import Api, Recording, every_api
from tests.models.mock_provider import event
from tests.models.wire_contract import a_request

CHARACTERS = 7_500_000
TEXT = rb"\"" * CHARACTERS
"""What takes longest to decode and to encode again."""
CHUNK_BYTES = 64 * 1024

EVENTS: dict[str, tuple[bytes, bytes]] = {
    "responses": (
        b'data: {"type":"response.output_text.delta","output_index":0,"delta":"%b"}\n\n',
        event({"type": "response.completed", "response": {}}),
    ),
    "chat": (b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n', b"data: [DONE]\n\n"),
    "messages": (
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"%b"}}\n\n',
        event({"type": "message_stop"}),
    ),
}


class Streaming(Recording):
    """A recording in chunks that are made when they are read: the stream is in memory once, and by the test."""

    def __init__(self, stream: bytes) -> None:
        super().__init__([b""])
        self._coming = (stream[start : start + CHUNK_BYTES] for start in range(0, len(stream), CHUNK_BYTES))

    async def next_events(self, *, progress: bool = True) -> list[bytearray]:
        for chunk in self._coming:
            await asyncio.sleep(0)
            if events := self._splitter.feed(chunk):
                return events
        return []


def a_wire(api: Api) -> tuple[HttpWire, int]:
    """One whose model gives the long answer, and how many bytes that has."""
    first, last = EVENTS[api.name]
    stream = first % TEXT + last
    wire = api.wire("http://mock.example", env_key=None)
    wire._line = Streaming(stream)
    return wire, len(stream)


@every_api
async def test_a_long_answer_is_given_in_short_pieces(api: Api) -> None:
    """L1: of 7.5 million characters in one event each step that handled the piece took as long as all of it."""
    wire, _ = a_wire(api)
    longest = total = 0
    async with loop_steps() as steps:
        async for piece in wire.stream(a_request(dialect=wire.dialect)):
            if isinstance(piece, TextDelta | ReasoningDelta):
                longest, total = max(longest, len(piece.text)), total + len(piece.text)
            elif isinstance(piece, AnswerItem):
                assert len(piece.item.text) == CHARACTERS
    assert (longest, total) == (PIECE_CHARACTERS, CHARACTERS)
    assert steps.longest_s < MOST_S


@every_api
async def test_reading_a_long_answer_takes_little_more_memory_than_it_has_bytes(api: Api) -> None:
    """L1: it was copied five times before it was decoded."""
    wire, size = a_wire(api)
    tracemalloc.start(1)
    try:
        async for _ in wire.stream(a_request(dialect=wire.dialect)):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * size


@every_api
@pytest.mark.parametrize("measured", ["time", "memory"])
async def test_a_session_takes_a_long_answer_in_short_steps_and_little_memory(api: Api, measured: str) -> None:
    """L1: at most 100 ms a step and four times the message, with a reader that encodes each event as a client's is."""
    wire, size = a_wire(api)
    sent = 0
    async with tertulia.Session.start(tertulia.Settings(model=wire)) as session, loop_steps() as steps:
        if measured == "memory":
            tracemalloc.start(1)
        try:
            async for published in session.root.stream("Go."):
                sent += len(published.json())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert sent > 2 * size
    assert peak < 4 * size
    assert measured == "memory" or steps.longest_s < MOST_S
