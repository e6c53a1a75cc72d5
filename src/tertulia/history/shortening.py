"""Shortening: long outputs of old tool calls are reduced to their beginning and end. No item is removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tertulia.history.segment import Segment, utf8_size
from tertulia.protocol.items import Item, Part, TextPart, ToolOutput

SHORT_OUTPUT_BYTES = 1_024
"""What is left of the text of a shortened output, in bytes of UTF-8."""
RECENT_OUTPUTS = 8
"""The newest outputs stay whole: the model is still working with them."""

_NO_PICTURE = TextPart("[a picture was removed to make room]")


def shortened(items: Iterable[Item], most_bytes: int) -> tuple[Item, ...]:
    """The items, with the text of each tool output in at most `most_bytes` and without its pictures.

    The same items always give the same result: a record stores which segments were shortened, not the result.
    """
    return tuple(_shortened(item, most_bytes) if _is_long(item, most_bytes) else item for item in items)


def long_outputs(segments: Sequence[Segment], most_bytes: int) -> tuple[int, ...]:
    """The places of the segments that shortening would change, the newest outputs left out."""
    places: list[int] = []
    recent = RECENT_OUTPUTS
    for place in range(len(segments) - 1, -1, -1):
        outputs = sum(isinstance(item, ToolOutput) for item in segments[place].items)
        if recent <= 0 and any(_is_long(item, most_bytes) for item in segments[place].items):
            places.append(place)
        recent -= outputs
    return tuple(reversed(places))


def _is_long(item: Item, most_bytes: int) -> bool:
    if not isinstance(item, ToolOutput):
        return False
    return utf8_size(item.text) > most_bytes or any(not isinstance(part, TextPart) for part in item.parts)


def _shortened(item: Item, most_bytes: int) -> Item:
    assert isinstance(item, ToolOutput)
    pictures = sum(not isinstance(part, TextPart) for part in item.parts)
    parts: tuple[Part, ...] = (TextPart(_ends_of(item.text, most_bytes)),) if item.text else ()
    return replace(item, parts=(*parts, *([_NO_PICTURE] * pictures)))


def _ends_of(text: str, most_bytes: int) -> str:
    size = utf8_size(text)
    if size <= most_bytes:
        return text
    note = f"\n[… {size:,} bytes in all; the middle was removed to make room …]\n"
    half = (most_bytes - utf8_size(note)) // 2
    # A character takes at least one byte, and "ignore" drops what is left of one that was cut through.
    head = text[:half].encode()[:half].decode(errors="ignore")
    tail = text[-half:].encode()[-half:].decode(errors="ignore")
    return head + note + tail
