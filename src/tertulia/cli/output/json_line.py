"""One JSON value, one line, whoever reads it.

Some programs end a line not only at a line feed, and a terminal obeys or hides more than JSON escapes: all of that is
escaped (HARDENING E11). What is decoded is the value as it was.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_ESCAPED = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_encode = msgspec.json.Encoder().encode


def json_line(value: Any) -> bytes:
    """The value with a line feed behind it, and none before."""
    return escape_invisible(_encode(value)) + b"\n"


def escape_invisible(encoded: bytes) -> bytes:
    """JSON with everything escaped that a screen would obey or not show."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _ESCAPED.sub(_escape, encoded.decode()).encode()


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
