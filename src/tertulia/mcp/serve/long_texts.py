"""The long texts of a call over HTTP, which go around the SDK: it would hold body and texts to the call's end.

It is given the same call with short marks in their place, and the texts are put back before the call is carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

from tertulia.protocol.records import LONG_CHARACTERS

LONG_TEXTS = "tertulia.long_texts"
"""The key of a request's scope under which they stand."""


class LongTexts:
    """The long texts of one call, apart from its message."""

    __slots__ = ("_mark", "_texts")

    def __init__(self) -> None:
        # Of this call alone: no other request can name its texts.
        self._mark = uuid4().hex
        self._texts: list[str] = []

    def take_out(self, value: Any) -> Any:
        """The same with a mark in place of each long text."""
        return _with_texts(value, self._mark_of)

    def put_back(self, value: Any) -> Any:
        """The same with each text in place of its mark."""
        return _with_texts(value, self._text_of)

    def _mark_of(self, text: str) -> str:
        if len(text) <= LONG_CHARACTERS:
            return text
        self._texts.append(text)
        return f"{self._mark}{len(self._texts) - 1}"

    def _text_of(self, text: str) -> str:
        return self._texts[int(text.removeprefix(self._mark))] if text.startswith(self._mark) else text


def _with_texts(value: Any, replace: Callable[[str], str]) -> Any:
    """The same value with every text in it replaced; keys stay."""
    match value:
        case str():
            return replace(value)
        case list():
            return [_with_texts(entry, replace) for entry in cast("list[Any]", value)]
        case dict():
            return {key: _with_texts(entry, replace) for key, entry in cast("dict[str, Any]", value).items()}
        case _:
            return value
