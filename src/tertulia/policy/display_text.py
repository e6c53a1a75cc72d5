"""Text of models, tools, servers and commands as people see it: nothing in it can hide, move or pretend.

A character that a screen would obey or not show is written as `⟨U+202E⟩`. There are two degrees. `visible` is for text
that a person decides by: odd blanks, unassigned characters, letters of another alphabet that pretend to be ours and the
bracket itself are written that way too, so that no text can imitate such a mark. `printable` is for text that is read
on a terminal or through a pipe: there blanks and signs of every language stay as they are. What writing needs stays in
both: joiners within emoji, Persian and Indic words, the signs for coloured emoji, and the flags of England, Scotland
and Wales.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import cast

import msgspec

from tertulia.lazy_pattern import lazy_pattern

MAX_CHARACTERS = 4_000
"""Of a text that is shown in short, if its caller names no other limit."""

_BRACKET = "\u27e8"
_ORDINARY = re.compile(r"[ -~]*")
_ORDINARY_LINES = re.compile(r"[ -~\n\t]*")
_FOREIGN = re.compile(r"[^ -~]+")
_FOREIGN_IN_LINES = re.compile(r"[^ -~\n\t]+")

# Letters and symbols by their category, and yet nothing to be seen. The last is a blank cell of drawings in Braille.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_BLANK = _FILLERS | {"\u2800"}
_SIGNS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
"""Format characters by their category, and yet signs that are seen: Arabic and Syriac marks of numbers and verses."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_UNSEEN_OR_UNKNOWN = _UNSEEN | {"Cn", "Co", "Zs"}
_VARIANTS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
_IGNORED = ((0x2065, 0x2065), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF))
"""Unassigned, and drawn as nothing where they are not known."""

_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_ONE_EMOJI = f"[{_EMOJI}]\ufe0f?[\U0001f3fb-\U0001f3ff]?"
_ARABIC = "\u0620-\u064a\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f\u08a0-\u08c7"
_ARABIC_UNJOINED = (
    "\u0621-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0677\u0688-\u0699\u06c0-\u06cb\u06cd\u06cf\u06d2\u06d3"
)
"""Letters that do not join the next one: a sign against joining would change nothing after them, so it would hide."""
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_INDIC = "\u0900-\u0dff"
_KEPT = lazy_pattern(
    f"{_ONE_EMOJI}(?:\u200d{_ONE_EMOJI})+"
    f"|[{_EMOJI}\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299][\ufe0e\ufe0f]"
    "|[0-9#*]\ufe0f\u20e3"
    "|\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
    f"|(?<=[{_VIRAMA}])[\u200c\u200d](?=[{_INDIC}])"
    f"|(?<=[{_ARABIC}])(?<![{_ARABIC_UNJOINED}])\u200c(?=[{_ARABIC}])"
)
"""Where a character that is not seen by itself is part of ordinary writing."""
_JOINING = re.compile("[\u200c\u200d\ufe0e\ufe0f\U000e0067]")
"""Without one of these there is nothing to be kept."""
_UNFINISHED = lazy_pattern(
    f"(?:[{_EMOJI}{_INDIC}{_ARABIC}\u200c\u200d\ufe0e\ufe0f\U000e0020-\U000e007f]{{1,32}}|\r)\\Z"
)
"""The end of a piece that the next one may go on with."""


# What looks like a character of ASCII and is none. Letters of another alphabet pretend only where they stand in a word
# with letters of ours: a Russian word is a word.
_PRETENDING_LETTERS = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u04cf\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0405\u0406\u0408\u04c0"
    "\u03bf\u03bd\u03c1\u03b9\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u0585\u057d\u0570\u0578\u0261\u2160-\u217f\uff21-\uff3a\uff41-\uff5a"
)
_PRETENDING_SIGNS = (
    "\u037e\u0589\u01c0\u02d0\u2010\u2011\u201a\u2024\u2044\u2215\u2216\u2223\u29f8\ua789\U0001d400-\U0001d7ff"
)
_PRETENDING = lazy_pattern(f"[{_PRETENDING_LETTERS}{_PRETENDING_SIGNS}]")
_SIGN = lazy_pattern(f"[{_PRETENDING_SIGNS}]")
_MIXED = lazy_pattern(rf"\w+|[{_PRETENDING_SIGNS}]")
_ASCII_LETTER = re.compile("[A-Za-z]")


class DisplayText(msgspec.Struct, frozen=True, gc=False):
    """A text as it may be shown."""

    text: str
    whole: bool
    """False: it was cut, and the text says how long it is and what its SHA-256 is."""


def make_display_text(text: str, *, lines: bool = False, max_characters: int = MAX_CHARACTERS) -> DisplayText:
    """The text made visible, and its middle cut out where it is longer. The length is that before escaping."""
    if len(text) <= max_characters:
        return DisplayText(visible(text, lines=lines), True)
    half = max_characters // 2
    mark = f"{_BRACKET}… cut: {len(text):,} characters, sha256 {sha256(text)} …\u27e9"
    return DisplayText(visible(text[:half], lines=lines) + mark + visible(text[-half:], lines=lines), False)


def visible(text: str, *, lines: bool = False) -> str:
    """The whole text for a person who decides by it. `lines` lets newlines and tabs be what they are."""
    if (_ORDINARY_LINES if lines else _ORDINARY).fullmatch(text):
        return text
    shown = _escaped(text, _misleads, 3, lines=lines)
    return shown if _PRETENDING.search(shown) is None else _MIXED.sub(_mark_pretending, shown)


def printable(text: str) -> str:
    """The whole text for a terminal or a pipe. Line ends and tabs stay, and `\\r\\n` is a line end."""
    if _ORDINARY_LINES.fullmatch(text):
        return text
    return _escaped(text.replace("\r\n", "\n"), _steers, 8, lines=True)


class PrintableStream:
    """`printable` for a text that comes in pieces: a sequence that a piece may have cut is held for the next one."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be printed now."""
        text = self._held + piece
        unfinished = None if text.isascii() and not text.endswith("\r") else _UNFINISHED.search(text)
        ready = text if unfinished is None else text[: unfinished.start()]
        self._held = text[len(ready) :]
        return printable(ready)

    def end(self) -> str:
        """What was held; there is no next piece."""
        held, self._held = self._held, ""
        return printable(held)


def value_text(value: object) -> str:
    """A setting in a sentence, spelled as on the wire: `true`, `workspace-write`, `auto_run trusted, may_ask false`."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case dict():
            fields = cast("dict[object, object]", value)
            return ", ".join(f"{name} {value_text(field_value)}" for name, field_value in fields.items()) or "nothing"
        case list() | tuple() | set() | frozenset():
            entries = cast("Iterable[object]", value)
            return ", ".join(map(value_text, entries)) or "nothing"
        case _:
            return visible(str(value))


def sha256(text: str) -> str:
    """The digest of a text in UTF-8, also where it holds characters that UTF-8 cannot encode."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _escaped(text: str, is_hidden: Callable[[str], bool], most_marks: int, *, lines: bool) -> str:
    foreign = _FOREIGN_IN_LINES if lines else _FOREIGN

    def named(found: re.Match[str]) -> str:
        return _marked(found[0], is_hidden, most_marks)

    if _JOINING.search(text) is None:
        return foreign.sub(named, text)
    pieces: list[str] = []
    position = 0
    for piece in _KEPT.finditer(text):
        pieces += (foreign.sub(named, text[position : piece.start()]), piece[0])
        position = piece.end()
    pieces.append(foreign.sub(named, text[position:]))
    return "".join(pieces)


def _marked(text: str, is_hidden: Callable[[str], bool], most_marks: int) -> str:
    if text.isalpha() and _FILLERS.isdisjoint(text):
        # Most text that is not ASCII: letters, and no accents beside them.
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        # Accents that one letter may carry; more of them cover the lines around it.
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        shown.append(_name(character) if marks > most_marks or is_hidden(character) else character)
    return "".join(shown)


@lru_cache(4_096)
def _misleads(character: str) -> bool:
    if character in _SIGNS:
        return False
    if character in _BLANK or character == _BRACKET:
        return True
    return unicodedata.category(character) in _UNSEEN_OR_UNKNOWN or _is_within(character, _VARIANTS)


@lru_cache(4_096)
def _steers(character: str) -> bool:
    if character in _SIGNS:
        return False
    if character in _FILLERS or unicodedata.category(character) in _UNSEEN:
        return True
    return _is_within(character, _VARIANTS) or _is_within(character, _IGNORED) or ord(character) & 0xFFFE == 0xFFFE


def _is_within(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= ord(character) <= last for first, last in ranges)


def _mark_pretending(found: re.Match[str]) -> str:
    """A word or a sign, with what looks like a character of ASCII written out."""
    pretending = _PRETENDING if _ASCII_LETTER.search(found[0]) else _SIGN
    return pretending.sub(lambda one: _name(one[0]), found[0])


def _name(character: str) -> str:
    return f"{_BRACKET}U+{ord(character):04X}\u27e9"
