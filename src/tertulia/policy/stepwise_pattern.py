"""Applies a pattern to a long text in short steps: a search in C lets no other thread run until it is done.

What is found is what one search would find, as long as a match shows within `OVERLAP` characters that it is one: a part
without an end in sight, longer than that, may be missed where two steps meet.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

WINDOW = 128 * 1024
"""Characters of one step. At the worst that is some ten milliseconds."""
OVERLAP = 16 * 1024
_NEAR = 64
"""So near to the end of a step a match may go on behind it, or be none for what stands there."""


def occurs_in(pattern: re.Pattern[AnyStr], text: AnyStr) -> bool:
    """Whether there is a match."""
    return _next_match(pattern, text, 0) is not None


def replace_all(pattern: re.Pattern[AnyStr], instead: AnyStr, text: AnyStr) -> AnyStr:
    """As `pattern.sub(instead, text)`; the same object where there is no match."""
    pieces: list[AnyStr] = []
    done = 0
    while (found := _next_match(pattern, text, done)) is not None:
        pieces += (text[done : found.start()], found.expand(instead))
        done = found.end()
    if not pieces:
        return text
    pieces.append(text[done:])
    # All are of one kind, which a type checker cannot see.
    return cast("Any", text[:0]).join(pieces)


def _next_match(pattern: re.Pattern[AnyStr], text: AnyStr, position: int) -> re.Match[AnyStr] | None:
    """The first match from there on. No pattern here matches nothing at all."""
    end = len(text)
    while position < end:
        limit = min(position + WINDOW, end)
        found = pattern.search(text, position, limit)
        if found is not None and limit < end and found.end() > limit - _NEAR:
            start = found.start()
            found = pattern.match(text, start)
            if found is None:
                position = start + 1
                continue
        if found is not None:
            return found
        position = end if limit == end else limit - OVERLAP
    return None
