"""The response of a model provider, as it comes from a connection."""

from __future__ import annotations

from tertulia.models.http.http_response import HttpResponse, NotHttpError
from tests.fuzz.targets import cuts, pieces

SEEDS = [
    b"\0HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"\2\5\31HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0;a=b\r\nX: y\r\n\r\n",
    b"\3\4\7\20HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 429 Slow\r\nConnection: keep-alive\r\n\r\nuntil closed",
    b"\0HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n\x81\x00",
]
WORDS = [
    *(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 ",
        b"\r\n\r\n",
        b"\r\n",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
    ),
    *(b"Connection: close\r\n", b"0\r\n\r\n", b"ffffffffffff\r\n", b"5\r\n", b";x", b" 204 ", b" 101 "),
]

_Outcome = tuple[int | None, dict[str, str], bytes, bool, bool, bool]


def fuzz(data: bytes) -> None:
    """However the bytes are cut, the response is the same, and nothing of it is made up."""
    places, whole = cuts(data)
    outcome = _read(pieces(places, whole))
    assert outcome == _read([whole])
    assert outcome == _read([whole[at : at + 1] for at in range(len(whole))])
    if outcome is not None:
        assert outcome[2] in whole or b"chunked" in whole.lower()
        assert len(outcome[2]) <= len(whole)


def _read(chunks: list[bytes]) -> _Outcome | None:
    """What came; None where it is no response. What follows its end is not fed to it, as on a connection."""
    response = HttpResponse()
    surplus = False
    try:
        for chunk in chunks:
            if response.done:
                surplus = surplus or bool(chunk)
            else:
                response.feed(chunk)
    except NotHttpError:
        return None
    surplus = surplus or response.surplus
    keeps_open = response.keeps_open and not surplus
    return response.status, response.headers, response.take(), response.end(), surplus, keeps_open
