"""Reads JSON of rows that may be damaged: what cannot be used counts as missing, and nothing is raised."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def object_of(written: bytes) -> dict[str, Any]:
    """The members of a JSON object; none where it is not one."""
    try:
        return _decode(written)
    except (msgspec.MsgspecError, RecursionError):
        return {}


def string_of(value: object) -> str | None:
    """The value where it is a string; None for any other."""
    return value if isinstance(value, str) else None
