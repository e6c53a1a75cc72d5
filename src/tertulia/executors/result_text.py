"""What of a result may be read by another agent: its text, and never what steers the machinery around it.

A result can carry session ids, tokens, events and costs. So it is never serialised: only fields that are known to hold
text are looked at, at any depth, and a result without them has no text. `value` alone is the answer itself: one that is
a table or a list with no text to be found in it is told as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

VALUE = "value"
TEXT_FIELDS = (VALUE, "text", "content", "output", "message", "summary", "answer")
"""Where results keep their text; the first that has any is taken."""

_DEPTH = 4


def result_text(result: object) -> str:
    """The text of a result of any shape; empty where it has none."""
    text = value_text(result)
    return text if text.strip() else _text(result, _DEPTH)


def value_text(result: object) -> str:
    """The same, of `value` alone where the result is a table."""
    table = _table(result)
    if table is None:
        return _text(result, _DEPTH)
    value = table.get(VALUE)
    text = _text(value, _DEPTH)
    return text if text.strip() else _structured(value)


def _text(value: object, depth: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode() if _is_speakable(value) else ""
    table = _table(value)
    if table is not None:
        found = (_text(table.get(name), depth - 1) for name in TEXT_FIELDS if depth)
        return next((text for text in found if text.strip()), "")
    if isinstance(value, list | tuple) and depth:
        texts = (_text(item, depth - 1) for item in cast("list[object]", value))
        return "\n".join(text for text in texts if text.strip())
    return ""


def _structured(value: object) -> str:
    if not value or not isinstance(value, Mapping | list):
        return ""
    try:
        return msgspec.json.encode(cast("object", value)).decode()
    except (TypeError, ValueError, RecursionError):
        return ""


def _table(value: object) -> Mapping[object, object] | None:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def _is_speakable(value: float) -> bool:
    # Larger integers have no JSON.
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 64
