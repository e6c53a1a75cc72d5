"""Pages of other origins that the user lets call the server, and the headers by which browsers let them (CORS).

Nothing is opened by this: a page still brings the token. Without it a browser does not even ask.
"""

from __future__ import annotations

import re

from tertulia.errors import InvalidParamsError

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::([1-9][0-9]{0,4}))?")
_USUAL_PORTS = {"http": "80", "https": "443"}
_LAST_PORT = 65_535

Headers = list[tuple[bytes, bytes]]


def parse_origin(text: str) -> bytes:
    """An origin as browsers send it, such as `https://app.example`; InvalidParams says what is wrong with any other.

    `*` and `null` are none: they stand for pages that no one knows.
    """
    match = _ORIGIN.fullmatch(text.lower())
    if match is None or int(match[3] or 1) > _LAST_PORT:
        raise InvalidParamsError(
            f"{text!r:.200} is no origin; give scheme, host and perhaps port of the page, such as "
            "https://app.example or http://localhost:5173, and nothing after it"
        )
    if match[3] is not None and match[3] == _USUAL_PORTS.get(match[1]):
        raise InvalidParamsError(f"{text!r:.200}: browsers leave out :{match[3]} of {match[1]}; leave it out too")
    return text.lower().encode()


def allowing_headers(origin: bytes) -> Headers:
    """For an answer to a page of an allowed origin: its scripts may read it."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"mcp-session-id"),
        (b"vary", b"origin"),
    ]


def preflight_headers(origin: bytes) -> Headers:
    """For the question that a browser asks before such a page's request: what the page may send."""
    return [
        *allowing_headers(origin),
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (
            b"access-control-allow-headers",
            b"authorization, content-type, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id",
        ),
        (b"access-control-max-age", b"600"),
    ]
