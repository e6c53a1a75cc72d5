"""One JSON value, one line, whoever reads it.

Some programs end a line not only at a line feed: what else they take for an end is escaped (HARDENING E11).
"""

from __future__ import annotations

from typing import Any

import msgspec

_ESCAPED = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
_encode = msgspec.json.Encoder().encode


def json_line(value: Any) -> bytes:
    """The value with a line feed behind it, and none before."""
    line = _encode(value)
    if not line.isascii():
        for character, escaped in _ESCAPED:
            line = line.replace(character, escaped)
    return line + b"\n"
