"""Server-sent events of a model provider."""

from __future__ import annotations

from tertulia.models.http.sse import EventSplitter
from tests.fuzz.targets import cuts, pieces

SEEDS = [
    b'\0event: message\ndata: {"a":1}\nid: 3\n\n: comment\n\ndata: [DONE]\n\n',
    b"\3\4\7\20\xef\xbb\xbfdata: a\r\ndata:b\r\rdata\r\n\r\n",
    b"\7\1\2\3\4\5\6\7data:\n\ndata: x\n\n\ndata: never ended",
]
WORDS = [b"data: ", b"data:", b"data\n", b"\r\n", b"\n\n", b"\r\r", b"\xef\xbb\xbf", b"event: ", b"retry: 1\n", b": "]


def fuzz(data: bytes) -> None:
    """However the stream is cut, the events are the same, and none is made up."""
    places, whole = cuts(data)
    events = _events(pieces(places, whole))
    assert events == _events([whole])
    assert events == _events([whole[at : at + 1] for at in range(len(whole))])
    assert sum(map(len, events)) <= len(whole)


def _events(chunks: list[bytes]) -> list[bytes]:
    splitter = EventSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)]
