"""Decodes JSON of clients strictly: what could be read in two ways, or costs too much to read, is refused.

A long text is decoded in short steps, so that the event loop is never held. Not msgspec: it keeps the last of duplicate
keys in silence, and refuses a whole text for a lone surrogate, so that the refusal could not be given under the
request's id.
"""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import Any, cast

from tertulia.errors import ParseError
from tertulia.protocol.json_scan import find_excess
from tertulia.protocol.json_steps import StepwiseWork, read, run_to_end
from tertulia.protocol.validation_text import explain_json, is_encodable

MAX_DIGITS = 1_000
"""Of an integer. Reading digits costs their square."""

_BEYOND_64_BITS = 1 << 64


def decode(data: bytes | bytearray) -> Any:
    """The one value in these bytes; ParseError when it is not exactly one, in plain UTF-8, without duplicate keys."""
    if (too_much := find_excess(data)) is not None:
        raise ParseError(too_much)
    try:
        return decoder.decode(data.decode())
    except UnicodeDecodeError as error:
        raise ParseError(f"not UTF-8 at byte {error.start}") from None
    except JSONDecodeError as error:
        raise ParseError(f"not JSON at character {error.pos}: {explain_json(error)}") from None


def find_unencodable(value: Any) -> str | None:
    """What in a decoded value cannot be stored or sent on: a lone surrogate, an integer beyond 64 bits. Else None."""
    values = [value]
    # Containers put their elements at the end of the list under iteration: no recursion.
    for entry in values:
        if isinstance(entry, str):
            if not (entry.isascii() or is_encodable(entry)):
                return "a lone surrogate; send valid Unicode"
        elif isinstance(entry, int):
            if not -_BEYOND_64_BITS // 2 <= entry < _BEYOND_64_BITS:
                return "an integer beyond 64 bits"
        elif isinstance(entry, dict):
            values.extend(cast("dict[str, Any]", entry))
            values.extend(cast("dict[str, Any]", entry).values())
        elif isinstance(entry, list):
            values.extend(cast("list[Any]", entry))
    return None


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these members; ParseError for a key that is given twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ParseError(f"the key {twice[:64]!r} is given twice")
    return members


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ParseError(f"an integer of {len(digits):,} digits; the limit is {MAX_DIGITS:,}")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ParseError("a number beyond the range of a double")
    return number


def _constant(name: str) -> Any:
    raise ParseError(f"{name} is not JSON")


decoder = JSONDecoder(object_pairs_hook=build_object, parse_int=_integer, parse_float=_real, parse_constant=_constant)


AT_ONCE_BYTES = 128 * 1024
"""A longer text is read in steps."""


async def decode_json(data: bytes | bytearray) -> Any:
    """The one value in these bytes, whatever their length. ParseError: see `decode`.

    The loop is never held for long, and a cancellation ends it.
    """
    return decode(data) if len(data) <= AT_ONCE_BYTES else await run_to_end(IncrementalDecoder(data))


class IncrementalDecoder(StepwiseWork[Any]):
    """The reading of one text. `step` until it is done; then there is the `value`."""

    def __init__(self, data: bytes | bytearray) -> None:
        super().__init__(read(data, decoder))
