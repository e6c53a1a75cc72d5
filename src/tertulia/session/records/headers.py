"""The header of a row as JSON. A row may hold anything: what makes no sense is an empty header."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def header_of(header: bytes) -> dict[str, Any]:
    """Its fields; none where it is no JSON object."""
    try:
        return _decode(header)
    except (msgspec.MsgspecError, RecursionError):
        return {}


def word(value: object) -> str | None:
    """A value that has to be a string; None for any other."""
    return value if isinstance(value, str) else None
