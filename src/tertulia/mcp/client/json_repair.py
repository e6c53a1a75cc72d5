"""Repairs JSON of servers where a fault in one part would cost the whole answer.

It invents nothing: what cannot be read becomes U+FFFD or null.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from tertulia.mcp.client.tool_listing import mark_invalid_tools
from tertulia.mcp.server_connection import MODERN
from tertulia.protocol.json_steps import StepwiseWork, read, run_to_end

MAX_BLOCKS = 4096
"""Content blocks of one result."""
MAX_REPAIRED = 1 << 20
"""Repairing a longer text would take too long."""
MAX_DEPTH = 500
"""Levels of one message: as deep as the SDK can encode, so that one deep tool does not cost the whole list."""
_LOST = rb"\ufffd"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
"""An escaped character: a surrogate pair, (a lone surrogate), or any other."""
_ODD_NUMBER = re.compile(rb"NaN|Infinity|[0-9]{19}|[eE]\+?[0-9]{3}")
_LONGEST_WHOLE = 18


def repair_text(line: bytes) -> bytes:
    """JSON in which every lone surrogate, and every byte that is not UTF-8, is U+FFFD."""
    return _ESCAPE.sub(lambda match: _LOST if match[1] else match[0], line.decode("utf-8", "replace").encode())


def repair_if_needed(text: bytes) -> bytes:
    """The same text, repaired if it needs it and is not too long."""
    if len(text) > MAX_REPAIRED:
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return repair_text(text)
    return repair_text(text) if _HALF.search(text) else text


def decode_odd_numbers(line: bytes) -> Any:
    """JSON with numbers that are not finite or too large, as null. ValueError where there are no such numbers."""
    if not _ODD_NUMBER.search(line):
        raise ValueError("its numbers are not what is wrong with it")
    return json.loads(line, parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)


async def read_leniently(text: bytes) -> Any:
    """Decode a text of any length with all of these repairs but that of bytes. ParseError for what is no JSON.

    The loop is never held up for long.
    """
    return await run_to_end(StepwiseWork(read(text, _lenient, MAX_DEPTH, _whole_characters)))


def repair_result(result: dict[str, Any], version: str) -> None:
    """Repair, in place, what the SDK would refuse or take too long over. `version`: empty before it is known."""
    if version >= MODERN:
        # A result that does not say whether it is complete, is.
        result.setdefault("resultType", "complete")
    if "structuredContent" in result:
        result.setdefault("content", [])
    content = result.get("content")
    if isinstance(content, list) and len(blocks := cast("list[Any]", content)) > MAX_BLOCKS:
        left = f"[{len(blocks) - MAX_BLOCKS:,} more pieces were left out]"
        result["content"] = [*blocks[:MAX_BLOCKS], {"type": "text", "text": left}]
    if version and "tools" in result:
        if version >= MODERN:
            # The same for how long it holds, and whether it may be shared.
            result.setdefault("ttlMs", 0)
            result.setdefault("cacheScope", "private")
        mark_invalid_tools(result, version)


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _whole(text: str) -> int | float | None:
    return int(text) if len(text) <= _LONGEST_WHOLE else _finite(text)


def _whole_characters(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_lenient = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)
