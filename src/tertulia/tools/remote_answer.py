"""What a model reads of an MCP server's answer: the text first, structured content once, pictures as parts."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from tertulia.mcp.server_connection import CallResult
from tertulia.protocol.items import Part, TextPart
from tertulia.tools.outcome import MAX_OUTPUT_BYTES
from tertulia.tools.output import bound
from tertulia.tools.tool import Result

_MAX_COMPARED = 64 * 1024
"""Characters of a text that is read to see whether it says what the structured content says."""


def result_of(answer: CallResult, max_bytes: int | None) -> Result:
    """Bounded here, because only the answer knows how long the text was before it came."""
    written = None if answer.structured is None else _written(answer.structured)
    if not answer.text and written is not None:
        text, total, rest = written, None, None
    else:
        text, total = answer.text, answer.total_bytes
        rest = None if written is None or _says(answer.text, answer.structured) else written
    room = MAX_OUTPUT_BYTES if max_bytes is None else max_bytes
    short = bound(text, room, total_bytes=total)
    parts: tuple[Part, ...] = answer.parts if rest is None else (TextPart(rest), *answer.parts)
    # Half of a structure is none.
    structured = None if written is None or len(written.encode()) > room else answer.structured
    return Result(
        short.text, success=not answer.is_error, parts=parts, truncated=short.truncated, structured=structured
    )


def _written(structured: Any) -> str:
    try:
        return msgspec.json.encode(structured).decode()
    except (TypeError, ValueError, RecursionError) as error:
        return f"[structured content that cannot be written as JSON: {error}]"


def _says(text: str, structured: Any) -> bool:
    """Whether the text is the same once more, as servers are told to send it."""
    if len(text) > _MAX_COMPARED:
        # A server that sends so much has hardly two different things to say.
        return True
    forms = [structured]
    if isinstance(structured, dict) and list(cast(dict[str, Any], structured)) == ["result"]:
        # How servers wrap what is not an object.
        forms.append(structured["result"])
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        said = text
    return any(form in (text, said) or _lines(form) == text for form in forms)


def _lines(value: Any) -> str | None:
    """A list as texts of their own, one below another."""
    if not isinstance(value, list):
        return None
    each = cast(list[Any], value)
    return "\n".join(one if isinstance(one, str) else _written(one) for one in each)
