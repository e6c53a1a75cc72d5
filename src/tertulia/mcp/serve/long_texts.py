"""The long texts of a call over HTTP, which go around the SDK: it would hold body and texts to the call's end.

It is given the same call with short marks in their place, and the texts are put back before the call is carried out.
"""

from __future__ import annotations

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
        match value:
            case str() if len(value) > LONG_CHARACTERS:
                self._texts.append(value)
                return f"{self._mark}{len(self._texts) - 1}"
            case list():
                return [self.take_out(entry) for entry in cast("list[Any]", value)]
            case dict():
                return {key: self.take_out(entry) for key, entry in cast("dict[str, Any]", value).items()}
            case _:
                return value

    def put_back(self, value: Any) -> Any:
        """The same with each text in place of its mark."""
        match value:
            case str() if value.startswith(self._mark):
                return self._texts[int(value.removeprefix(self._mark))]
            case list():
                return [self.put_back(entry) for entry in cast("list[Any]", value)]
            case dict():
                return {key: self.put_back(entry) for key, entry in cast("dict[str, Any]", value).items()}
            case _:
                return value
