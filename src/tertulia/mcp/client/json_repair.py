"""What servers send, mended where a fault in a part would cost the whole: the answer, or the time of who waits for it.

Nothing is believed that was not said: what cannot be read becomes the sign for something that was lost.
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
"""Pieces of one answer."""
MAX_REPAIRED = 1 << 20
"""Of a longer text it would take too long."""
MAX_DEPTH = 500
"""Levels of one message: as deep as the SDK can write, so that one deep tool costs itself and not the whole list."""
_LOST = rb"\ufffd"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
"""An escaped character: a pair of halves, (one alone), or any other."""
_ODD_NUMBER = re.compile(rb"NaN|Infinity|[0-9]{19}|[eE]\+?[0-9]{3}")
_LONGEST_WHOLE = 18


def repair_text(line: bytes) -> bytes:
    """JSON in which every half of a character, and every byte that is none, is the sign for one that was lost."""
    return _ESCAPE.sub(lambda found: _LOST if found[1] else found[0], line.decode("utf-8", "replace").encode())


def repair_if_needed(text: bytes) -> bytes:
    """The same, mended if that is needed and it is not too long."""
    if len(text) > MAX_REPAIRED:
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return repair_text(text)
    return repair_text(text) if _HALF.search(text) else text


def decode_odd_numbers(line: bytes) -> Any:
    """JSON with numbers that are none, or larger than any of ours: those are null. ValueError for what has none."""
    if not _ODD_NUMBER.search(line):
        raise ValueError("its numbers are not what is wrong with it")
    return json.loads(line, parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)


async def read_leniently(text: bytes) -> Any:
    """What a text of any length says, with all of that mended but bytes that are none. ParseError for what is no JSON.

    The loop is never held for long.
    """
    return await run_to_end(StepwiseWork(read(text, _lenient, MAX_DEPTH, _whole_characters)))


def repair_result(result: dict[str, Any], version: str) -> None:
    """What the SDK would refuse as a whole, or take for ever to look at. `version`: what was agreed on, if it was."""
    if version >= MODERN:
        # An answer that does not say whether it is complete, is.
        result.setdefault("resultType", "complete")
    if "structuredContent" in result:
        result.setdefault("content", [])
    content = result.get("content")
    if isinstance(content, list) and len(blocks := cast("list[Any]", content)) > MAX_BLOCKS:
        left = f"[{len(blocks) - MAX_BLOCKS:,} more pieces were left out]"
        result["content"] = [*blocks[:MAX_BLOCKS], {"type": "text", "text": left}]
    if version and "tools" in result:
        if version >= MODERN:
            # Nor does one have to say for how long it holds, and for whom.
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
