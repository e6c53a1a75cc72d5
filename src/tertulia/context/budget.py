"""Too much text: who gives way, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tertulia.context.provider import Fragment, FragmentCut
from tertulia.history.segment import BYTES_PER_TOKEN, estimate_tokens, utf8_size

DEFAULT_TOKENS = 32_000
"""A quarter of the usual context window."""
_LEAST = 64
"""Tokens. A shorter rest of a text would say nothing."""
_NOTE = "\n[… the rest of this part was left out: it is too long]"


def count_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return estimate_tokens(utf8_size(text))


def fit_to_budget(fragments: Sequence[Fragment], max_tokens: int) -> tuple[list[Fragment], list[FragmentCut]]:
    """(what stays, in the same order; what was cut). The lowest priority gives way first, of equals the later one.

    A part gives only what is needed: it loses its end, or goes as a whole if next to nothing would be left of it.
    One that holds a token is kept or dropped whole.
    """
    kept = dict(enumerate(fragments))
    cuts: list[FragmentCut] = []
    excess = sum(fragment.tokens for fragment in fragments) - max_tokens
    for place, fragment in sorted(kept.items(), key=lambda each: (each[1].priority, -each[0])):
        if excess <= 0:
            break
        shorter = _shorten(fragment, fragment.tokens - excess)
        if shorter is None:
            del kept[place]
        else:
            kept[place] = shorter
        left = 0 if shorter is None else shorter.tokens
        cuts.append(FragmentCut(fragment.provider, fragment.tokens, left))
        excess -= fragment.tokens - left
    return list(kept.values()), cuts


def _shorten(fragment: Fragment, tokens: int) -> Fragment | None:
    if fragment.sensitive or tokens < _LEAST:
        return None
    room = tokens * BYTES_PER_TOKEN - utf8_size(_NOTE)
    # As many characters as there is room for bytes is never too few, and spares encoding megabytes.
    text = fragment.text[:room].encode()[:room].decode(errors="ignore") + _NOTE
    return replace(fragment, text=text, tokens=count_tokens(text))
