"""Bodies of HTTP requests: one JSON text, whole, in time, within a limit, and readable in one way only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from tertulia.errors import ParseError
from tertulia.server.http.refusal import HttpRefusal, Message, Receive
from tertulia.server.jsonrpc.incremental_json import decode_json
from tertulia.server.jsonrpc.messages import encode_error

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Room for the longest text that is accepted, however it is escaped, up to a point."""
BODY_S = 30.0
"""For all of it."""


class RequestBody(msgspec.Struct, frozen=True):
    """As it came, and what it says."""

    text: bytes
    value: Any


async def read_bounded_body(method: str, header: Callable[[bytes], bytes], receive: Receive) -> RequestBody | None:
    """The body; None for a request that has none. Raises HttpRefusal."""
    if method not in ("POST", "PUT", "PATCH"):
        return None
    # A page can send plain text and forms anywhere without being asked; JSON it cannot.
    if header(b"content-type").partition(b";")[0].strip().lower() != b"application/json":
        raise HttpRefusal(415, "unsupported_media_type", "send application/json")
    if header(b"content-encoding").lower() not in (b"", b"identity"):
        raise HttpRefusal(415, "unsupported_media_type", "send the body as it is, not compressed")
    length = header(b"content-length")
    if length and (not length.isdigit() or len(length) > 12 or int(length) > MAX_BODY_BYTES):
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_S):
            body = await _read(receive)
    except TimeoutError:
        raise HttpRefusal(408, "timeout", f"the body did not come within {BODY_S:g} s") from None
    try:
        return RequestBody(body, await decode_json(body))
    except ParseError as error:
        # As JSON-RPC says it: all our bodies are that.
        raise HttpRefusal(400, error.code, error.message, encode_error(None, error)) from None


def replay_body(body: bytes, receive: Receive) -> Receive:
    """For whoever comes next: the body as if nobody had read it, then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpRefusal(400, "invalid_request", "the body is cut off")
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large() -> HttpRefusal:
    return HttpRefusal(413, "too_large", f"a body has at most {MAX_BODY_BYTES:,} bytes")
