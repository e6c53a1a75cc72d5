"""Turns the result of a task into the text that an executor may read: its content, without control fields.

A text stays as it is. `value` is the answer itself; where there is none, the whole result is used. What is not a text
becomes JSON without ids of sessions and traces, tokens, events and costs. Nothing else is left out; what is nested too
deep or too long is marked. Long texts are clipped in the middle. Stores nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from typing import cast

import msgspec

_LEAST = 8
"""The fewest characters of text beside a mark with a number; with less room the mark is a single `…`."""


def clip(text: str, room: int) -> str:
    """The text in at most `room` code points. The mark has no line breaks, so that a cut never starts a new line."""
    if len(text) <= room:
        return text
    mark = _mark(len(text))
    left = room - len(mark)
    if left < _LEAST:
        left, mark = room - 1, "…"
    else:
        mark = _mark(len(text) - left)
    if left < 0:
        return ""
    tail = left // 2
    return text[: left - tail] + mark + text[len(text) - tail :]


def _mark(characters: int) -> str:
    return f" [… {characters:,} characters cut …] "


VALUE = "value"
TEXT_FIELDS = (VALUE, "text", "content", "output", "message", "summary", "answer")
"""Fields in which results keep their text. A result with no other field is this text; `plain_text` takes the first one
set.
"""

_CONTROL = re.compile(
    r"(?:.*_)?(?:(?:session|thread|trace|span|conversation|task|subtask|resume|native)_?ids?|events?|tokens?|secrets?|"
    r"password|passwd|api_?keys?|credentials?|authorization|cookies?|usage|cost|cost_usd)",
    re.DOTALL,
)
"""Matches names of control fields, in lower case and with `_` for `-`."""
_DEPTH = 4
_MAX_DEPTH = 32
_MAX_PARTS = 20_000
_TOO_DEEP = "[… nested too deep to be told …]"


def result_text(result: object) -> str:
    """The text of a result of any shape; empty where it has no content."""
    text = value_text(result)
    if text.strip():
        return text
    table = _table(result)
    return "" if table is None else _value_text({name: part for name, part in table.items() if name != VALUE})


def value_text(result: object) -> str:
    """The text of a result; of a table only its `value`."""
    table = _table(result)
    return _value_text(result if table is None else table.get(VALUE))


def is_plain_text(result: object) -> bool:
    """Whether the result is a text itself, and was not made JSON here."""
    text = result_text(result)
    return text == plain_text(result)


def plain_text(value: object) -> str:
    """Only the text in a value, down to the depth that results have; of a table the first known field with text."""
    return _plain(value, _DEPTH)


def _plain(value: object, depth: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(_number(value)) if not isinstance(value, bool) else str(value).lower()
    table = _table(value)
    if table is not None:
        texts = (_plain(table.get(name), depth - 1) for name in TEXT_FIELDS if depth)
        return next((text for text in texts if text.strip()), "")
    if isinstance(value, list | tuple) and depth:
        texts = (_plain(item, depth - 1) for item in cast("list[object]", value))
        return "\n".join(text for text in texts if text.strip())
    return ""


def _value_text(value: object) -> str:
    content = _Content().of(value, _MAX_DEPTH)
    text = _only_text(content)
    if text is not None:
        return text
    return msgspec.json.encode(content).decode()


def _only_text(content: object) -> str | None:
    """The text of a value that is a text, a number, a list of these, or a table with one text; None for any other."""
    if content is _NOTHING or content is None or content in ({}, []):
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, bool | int | float):
        return msgspec.json.encode(content).decode()
    if isinstance(content, dict):
        table = cast("dict[str, object]", content)
        names = [name for name, part in table.items() if part not in (None, "") and name != "type"]
        alone = len(names) == 1 and names[0] in TEXT_FIELDS
        return _only_text(table[names[0]]) if alone else None if names else ""
    texts = [_only_text(item) for item in cast("list[object]", content)]
    return None if None in texts else "\n".join(text for text in texts if text and text.strip())


class _Nothing:
    """Stands for a value with nothing but control fields."""


_NOTHING = _Nothing()


class _Content:
    """Copies the content of one result as plain JSON values, within bounds."""

    def __init__(self) -> None:
        self._room = _MAX_PARTS

    def of(self, value: object, depth: int) -> object:
        self._room -= 1
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, int | float):
            return _number(value)
        if depth == 0:
            return _TOO_DEEP
        table = _table(value)
        if table is not None:
            return self._of_table(table, depth)
        if isinstance(value, list | tuple | Set):
            return self._of_list(list(cast("list[object]", value)), depth)
        return self._of_other(value, depth)

    def _of_table(self, table: Mapping[object, object], depth: int) -> object:
        parts: dict[str, object] = {}
        for name, value in table.items():
            if self._room <= 0:
                parts["…"] = f"[{len(table) - len(parts):,} more]"
                break
            if not _is_control(str(name)) and (part := self.of(value, depth - 1)) is not _NOTHING:
                parts[str(name)] = part
        return parts if parts or not table else _NOTHING

    def _of_list(self, items: list[object], depth: int) -> object:
        parts: list[object] = []
        for place, value in enumerate(items):
            if self._room <= 0:
                parts.append(f"[… {len(items) - place:,} more …]")
                break
            if (part := self.of(value, depth - 1)) is not _NOTHING:
                parts.append(part)
        return parts if parts or not items else _NOTHING

    def _of_other(self, value: object, depth: int) -> object:
        """A Python object: its JSON form where it has one, else a note of its type or size."""
        if isinstance(value, bytes | bytearray):
            return f"[{len(value):,} bytes]"
        try:
            plain = msgspec.to_builtins(value, str_keys=True)
        except (TypeError, ValueError, RecursionError):
            return f"[{type(value).__name__}]"
        return self.of(plain, depth - 1)


def _is_control(name: str) -> bool:
    return _CONTROL.fullmatch(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:200]).lower().replace("-", "_")) is not None


def _number(value: float) -> object:
    """A number as JSON; as text where JSON has no such number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if -(1 << 63) <= value < 1 << 64:
        return value
    return str(value) if value.bit_length() <= 4_096 else f"[a whole number of {value.bit_length():,} bits]"


def _table(value: object) -> Mapping[object, object] | None:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None
