"""Text that a person decides by: nothing in it can hide, move or pretend, and what is too long says so.

A character that a screen would obey or not show is written as `⟨U+202E⟩`; the bracket itself is written that way too,
so that nobody can write such a mark by hand.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

import msgspec

MAX_CHARACTERS = 4_000

# Letters and symbols by their category, and yet nothing to be seen.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_BRACKET = "\u27e8"
_VARIANTS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_ORDINARY = re.compile(r"[ -~]+")
_MAX_MARKS = 3
"""Accents that one letter may carry; more of them cover the lines around it."""


class Shown(msgspec.Struct, frozen=True, gc=False):
    """A text as it may be shown."""

    text: str
    whole: bool
    """False: it was cut, and the text says how long it is and what its SHA-256 is."""


def shown(text: str, *, lines: bool = False, max_characters: int = MAX_CHARACTERS) -> Shown:
    """Escape and cut. `lines` lets newlines and tabs be what they are. The length is that before escaping."""
    if len(text) <= max_characters:
        return Shown(_escaped(text, lines), True)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    half = max_characters // 2
    mark = f"{_BRACKET}… cut: {len(text):,} characters, sha256 {digest} …\u27e9"
    return Shown(_escaped(text[:half], lines) + mark + _escaped(text[-half:], lines), False)


def _escaped(text: str, lines: bool) -> str:
    if _ORDINARY.fullmatch(text):
        return text
    kept: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        hidden = marks > _MAX_MARKS or _is_hidden(character)
        kept.append(_name(character) if hidden and not (lines and character in "\n\t") else character)
    return "".join(kept)


def _is_hidden(character: str) -> bool:
    if " " <= character <= "~":
        return False
    if character in _BLANK or character == _BRACKET or unicodedata.category(character) in _HIDDEN_CATEGORIES:
        return True
    return any(first <= ord(character) <= last for first, last in _VARIANTS)


def _name(character: str) -> str:
    return f"{_BRACKET}U+{ord(character):04X}\u27e9"
