"""One message of JSON-RPC that may be long: in one step as far as that takes no time, in many where it would.

Knows no transport, and not what a message is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from tertulia.errors import ParseError
from tertulia.mcp.client.json_repair import MAX_DEPTH, read_leniently
from tertulia.protocol.json_scan import MAX_PARTS, find_excess_in_steps

SHORT = 64 * 1024
"""Whatever is wrong with a text of so many bytes, it can be mended at once."""
AT_ONCE = 2 << 20
"""So many bytes that are as they should be take msgspec a twentieth of a second at most. Of more, steps are made."""


class MessageProblem(msgspec.Struct):
    """What an answer says that is an error."""

    code: int
    message: str
    data: Any = None


class Envelope(msgspec.Struct):
    """A message: a request, a notification or an answer."""

    jsonrpc: Literal["2.0"]
    id: int | str | None | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: MessageProblem | msgspec.UnsetType = msgspec.UNSET


async def read_long(text: bytes, decode: Callable[[bytes], Envelope]) -> Envelope:
    """The message in a text of any length, mended; the loop is never held for long.

    ParseError or ValueError for what is none; `why_not` says it in words.
    """
    if len(text) <= AT_ONCE:
        if (too_much := await find_excess_in_steps(text, MAX_PARTS, MAX_DEPTH)) is not None:
            raise ParseError(too_much)
        try:
            return decode(text)
        except (ValueError, RecursionError):
            # It may be JSON by its grammar: texts are cut in the middle of a character every day.
            pass
    return msgspec.convert(await read_leniently(text), Envelope)


def why_not(error: Exception) -> str:
    """Why a message cannot be read, for whoever waits for it."""
    match error:
        case msgspec.ValidationError():
            return "it is not what JSON-RPC calls an answer"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case ParseError(message=words) if words.startswith("not UTF-8"):
            return "it is not UTF-8"
        case ParseError(message=words) if words.startswith("it takes"):
            return words
        case ParseError(message=words) if not words.startswith("not JSON"):
            return f"it has {words}"
        case _:
            return "it is not JSON"
