"""Bytes of a client, as far as a request or a refusal (D9)."""

from __future__ import annotations

from typing import Any

from tertulia.errors import ParseError
from tertulia.protocol.line_framing import LineSplitter, OversizedLine
from tertulia.server.jsonrpc.messages import RequestRefusal, encode_error, encode_result, read_request
from tertulia.server.jsonrpc.strict_json import decode
from tests.fuzz.targets import cuts, pieces

_LIMIT = 1_000

SEEDS = [
    b'\0{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":[1,2.5e3,null,true,"\\u00e9"]}}\n',
    b'\2\5\11{"jsonrpc":"2.0","method":"x"}\r\n\n [{"jsonrpc":"2.0","id":"a","method":"y","params":[]}]\n{}',
    b'\0{"a":1,"a":2}\n["\\ud800",NaN,-Infinity,1e999]\n\xef\xbb\xbf{}\n\xff\n' + b"[" * 200 + b"\n" + b"9" * 1_100,
]
WORDS = [
    *(b'"jsonrpc":"2.0"', b'"id":', b'"method":"', b'"params":{', b"\\ud800", b"\\udc00", b"\xef\xbb\xbf", b"NaN"),
    *(b"18446744073709551616", b"1e999", b"[[[[[[[[", b"true", b"null", b"\r\n"),
]


def fuzz(data: bytes) -> None:
    """However the bytes are cut, the lines are the same; each is one request or one refusal that can be sent."""
    places, whole = cuts(data)
    lines = _lines(pieces(places, whole))
    # Where a line that is too long was cut decides when that is told, and not what.
    assert lines == _lines([whole])
    for line in lines:
        if not isinstance(line, OversizedLine):
            _read(line)


def _lines(chunks: list[bytes]) -> list[bytes | OversizedLine]:
    framing = LineSplitter(_LIMIT)
    found = [line for chunk in chunks for line in framing.feed(chunk)]
    return [*found, *framing.end()]


def _read(line: bytes) -> None:
    try:
        value = decode(line)
    except ParseError as error:
        decode(encode_error(None, error))
        return
    for entry in value if isinstance(value, list) else [value]:
        _take(entry)


def _take(entry: Any) -> None:
    try:
        request = read_request(entry)
    except RequestRefusal as refused:
        line = refused.line
    else:
        line = None if request.id is None else encode_result(request.id, request.params)
    # Whoever sent JSON that can be read in one way gets such JSON back.
    if line is not None:
        assert decode(line)["jsonrpc"] == "2.0"
