"""Long outputs made short: the head, the tail, and how much there was."""

from __future__ import annotations

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from tertulia.lazy_pattern import lazy_pattern
from tertulia.protocol.inputs import InputItem, NewConversation, OpenFromPython
from tertulia.protocol.items import ImagePart, Part, TextPart
from tertulia.tools.tool import Handoff, Outcome, Result, Rounds

MAX_IMAGE_BYTES = 16 * 1024 * 1024
"""Of all pictures of one output."""
MAX_PARTS = 256

_SURROGATES = lazy_pattern("[\ud800-\udfff]")
_CHUNK = 1 << 20


class BoundedText(msgspec.Struct, frozen=True, gc=False):
    """A text that can be encoded and is not longer than was allowed."""

    text: str
    truncated: bool
    total_bytes: int
    """Of the whole text, as UTF-8."""


def bound(text: str, max_bytes: int, *, total_bytes: int | None = None) -> BoundedText:
    """Keep at most `max_bytes` of UTF-8: all, or head and tail around a line that tells the true size.

    `total_bytes`: what that is where the text was cut before it came here. Never raises: a lone surrogate becomes
    U+FFFD. Costs no copy of the whole of a text that is too long.
    """
    size = _size(text)
    total = max(size, total_bytes or 0)
    if size <= max_bytes:
        return BoundedText(_encodable(text), total > size, total)
    lines = text.count("\n") + (not text.endswith("\n"))
    counted = f" and {lines:,} lines" if total == size else ""
    marker = f"\n[… {total:,} bytes{counted} in all; the middle is left out …]\n"
    room = max_bytes - len(marker.encode())
    if room <= 0:
        return BoundedText(_head(text, max_bytes), True, total)
    tail = room // 2
    return BoundedText(_head(text, room - tail) + marker + _tail(text, tail), True, total)


def bound_result(result: Result, max_bytes: int) -> tuple[Result, bool]:
    """(the same with its text, that of its parts included, within `max_bytes`; whether anything was left out)."""
    text = bound(result.text, max_bytes)
    truncated = result.truncated or text.truncated or len(result.parts) > MAX_PARTS
    room = max(0, max_bytes - text.total_bytes)
    image_room = MAX_IMAGE_BYTES
    parts: list[Part] = []
    for part in result.parts[:MAX_PARTS]:
        if isinstance(part, TextPart):
            bounded = bound(part.text, room)
            room = max(0, room - bounded.total_bytes)
            parts.append(TextPart(bounded.text))
            truncated |= bounded.truncated
        elif len(part.image_url) <= image_room:
            image_room -= len(part.image_url)
            parts.append(ImagePart(_encodable(part.image_url)))
        else:
            parts.append(TextPart(f"[a picture of {len(part.image_url):,} bytes is left out]"))
            truncated = True
    return msgspec.structs.replace(result, text=text.text, parts=tuple(parts)), truncated


def _size(text: str) -> int:
    if text.isascii():
        return len(text)
    # U+FFFD takes three bytes, as the surrogate that it stands for would.
    chunks = (text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK))
    return sum(len(chunk.encode("utf-8", "surrogatepass")) for chunk in chunks)


def _encodable(text: str) -> str:
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


# A character is at least one byte, so as many characters as bytes are wanted are always enough to cut from;
# "ignore" drops the pieces of one that was cut through.


def _head(text: str, size: int) -> str:
    return _encodable(text[:size]).encode()[:size].decode("utf-8", "ignore")


def _tail(text: str, size: int) -> str:
    return _encodable(text[-size:]).encode()[-size:].decode("utf-8", "ignore") if size else ""


MAX_OUTPUT_BYTES = 1024 * 1024
"""Of one output's text, where no limit is set."""


def validate_outcome(returned: object) -> Outcome:
    """The same, every field of it checked; TypeError, ValueError or RecursionError where it cannot be used."""
    match returned:
        case Result(text=str()):
            return msgspec.convert(msgspec.to_builtins(returned), Result)
        case Handoff():
            return _validate_handoff(returned)
        case _:
            return Result(f"the tool returned {type(returned).__name__} instead of a result", success=False)


def bound_output(result: Result, max_bytes: int | None) -> tuple[Result, bool]:
    """(the same within `max_bytes`, or within what holds without a limit; whether anything was left out)."""
    return bound_result(result, MAX_OUTPUT_BYTES if max_bytes is None else max_bytes)


def _validate_handoff(handoff: Handoff) -> Handoff:
    items = msgspec.convert(msgspec.to_builtins(handoff.input), tuple[InputItem, ...])
    target = handoff.target
    if not isinstance(target, str):
        # Field by field: its model may be a wire.
        fields = {name: value for name, value in asdict(target).items() if value is not UNSET}
        target = msgspec.convert(fields, OpenFromPython if isinstance(target, OpenFromPython) else NewConversation)
    shared = msgspec.convert(handoff.fork_history, Rounds)
    return replace(handoff, input=items, target=target, fork_history=shared)
