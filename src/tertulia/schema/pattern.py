"""Regular expressions that always end: the ECMA-262 dialect of JSON Schema.

Schemas come from strangers and texts from models, and Python's `re` takes centuries over a pattern like
`(a+)+$` and cannot be stopped. To refuse suspicious patterns would be to refuse half of those that schema
libraries write for mail addresses and dates. So patterns are read here and matched by `positions`, which
cannot do one thing: back-references.
"""

from __future__ import annotations

import re
from typing import NoReturn

from tertulia.errors import InvalidParamsError
from tertulia.lazy_pattern import lazy_pattern
from tertulia.schema.regex_matcher import (
    Chars,
    CharTest,
    PatternPart,
    Spend,
    SubjectText,
    category,
    choice,
    edge,
    look,
    none_of,
    one_of,
    repeat,
    sequence,
)

MAX_SOURCE = 4096
"""The longest pattern, in characters."""
MAX_NESTING = 32
"""How deep groups may be nested in a pattern."""


class Pattern:
    """A pattern that was understood. It is looked for anywhere in a text, as JSON Schema has it."""

    __slots__ = ("_part", "source")

    def __init__(self, source: str) -> None:
        """Raise InvalidParams for what is not a pattern, is too long, or cannot be matched here."""
        self.source = source
        self._part = _Reader(source).read()

    def occurs_in(self, text: str, spend: Spend) -> bool:
        """Whether there is a match; what `spend` raises passes through."""
        subject = SubjectText(text, spend)
        return self._part(subject.everywhere, subject, True) != 0


_LINE_ENDS = "\n\r\u2028\u2029"
_SPACES = "\t\v\f \xa0\ufeff\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGIT = one_of("0123456789")
_WORD = one_of("0123456789_" + _LETTERS)
_SPACE = one_of(_SPACES + _LINE_ENDS)
_CLASSES = {
    "d": _DIGIT,
    "D": none_of(_DIGIT),
    "s": _SPACE,
    "S": none_of(_SPACE),
    "w": _WORD,
    "W": none_of(_WORD),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_ANY = Chars(none_of(one_of(_LINE_ENDS)))
_WORDS = Chars(_WORD)


def _boundary(subject: SubjectText) -> int:
    words = subject.before(_WORDS)
    return words ^ (words << 1)


_START = edge(lambda _: 1)
_END = edge(lambda subject: 1 << len(subject.text))
_EDGES = {
    "b": edge(_boundary),
    "B": edge(lambda subject: subject.everywhere & ~_boundary(subject)),
    # Not of the dialect, but written by people who think in Python or Rust.
    "A": _START,
    "z": _END,
    "Z": _END,
}
_SIGNS = {"^": _START, "$": _END, ".": _ANY}

# Python's own engine reads the pieces: each of these expressions is linear.
_QUANTIFIER = lazy_pattern(r"(?:([*+?])|\{(\d{1,9})(?:(,)(\d{1,9})?)?\})\??", re.ASCII)
_BOUNDS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_GROUP = lazy_pattern(r"\((?:\?(?::|P?<[A-Za-z_$][\w$]*>|(<?[=!])))?")
_CODE = lazy_pattern(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")
_PROPERTY = lazy_pattern(r"([pP])\{(?:General_Category=|gc=)?([CLMNPSZ][a-z]?)\}")


class _Reader:
    """Turns the text of a pattern into parts, by recursive descent."""

    __slots__ = ("_at", "_depth", "_known", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0
        self._known: dict[str, Chars] = {}

    def read(self) -> PatternPart:
        if len(self._source) > MAX_SOURCE:
            self._refuse(f"is longer than {MAX_SOURCE:,} characters")
        part = self._alternatives()
        if self._peek():
            self._refuse("has a ) without its (")
        return part

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidParamsError(f"pattern {self._source[:80]!r} {why} (at character {self._at})")

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            self._refuse("ends too early")
        self._at += 1
        return char

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._source, self._at)
        if found:
            self._at = found.end()
        return found

    def _alternatives(self) -> PatternPart:
        options = [self._terms()]
        while self._peek() == "|":
            self._at += 1
            options.append(self._terms())
        return choice(options)

    def _terms(self) -> PatternPart:
        parts: list[PatternPart] = []
        while self._peek() not in {"", "|", ")"}:
            part = self._atom()
            quantifier = self._match(_QUANTIFIER)
            parts.append(self._repeated(part, quantifier) if quantifier else part)
        return sequence(parts)

    def _repeated(self, part: PatternPart, quantifier: re.Match[str]) -> PatternPart:
        sign, low, comma, high = quantifier.groups()
        if sign:
            return repeat(part, *_BOUNDS[sign])
        at_least = int(low)
        at_most = int(high) if high else None if comma else at_least
        if at_most is not None and at_most < at_least:
            self._refuse("repeats at most less than at least")
        return repeat(part, at_least, at_most)

    def _atom(self) -> PatternPart:
        start = self._at
        char = self._take()
        if char in _SIGNS:
            return _SIGNS[char]
        if char == "(":
            self._at = start
            return self._group()
        if char == "[":
            return self._class(start)
        if char == "\\" and self._peek() in _EDGES:
            return _EDGES[self._take()]
        if char in "*+?":
            self._refuse("repeats nothing")
        return self._chars(start, self._escaped() if char == "\\" else char)

    def _chars(self, start: int, meant: CharTest | str, weight: int = 1) -> Chars:
        # One object for one spelling: a text is then searched once for it, however often the pattern has it.
        spelling = self._source[start : self._at]
        return self._known.setdefault(spelling, Chars(_as_test(meant), weight))

    def _group(self) -> PatternPart:
        opened = self._match(_GROUP)
        if opened is None or self._peek() == "?":
            self._refuse("has a group of a kind that is not supported")
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._refuse("is nested too deep")
        part = self._alternatives()
        if self._peek() != ")":
            self._refuse("has a ( without its )")
        self._at += 1
        self._depth -= 1
        kind = opened[1]
        return look(part, forward="<" not in kind, negated="!" in kind) if kind else part

    def _class(self, start: int) -> Chars:
        negated = self._peek() == "^"
        self._at += negated
        members: list[CharTest] = []
        while self._peek() != "]":
            members.append(self._member())
        self._at += 1

        def has(char: str) -> bool:
            return any(member(char) for member in members) != negated

        return self._chars(start, has, len(members))

    def _member(self) -> CharTest:
        low = self._class_atom()
        if self._peek() != "-" or self._source[self._at + 1 : self._at + 2] in {"", "]"}:
            return _as_test(low)
        self._at += 1
        high = self._class_atom()
        if callable(low) or callable(high) or low > high:
            self._refuse("has a range without two ends in order")
        return lambda char: low <= char <= high

    def _class_atom(self) -> CharTest | str:
        char = self._take()
        if char != "\\":
            return char
        if self._peek() == "b":
            self._at += 1
            return "\b"
        return self._escaped()

    def _escaped(self) -> CharTest | str:
        """What follows a backslash: a kind of character, or one character."""
        if code := self._match(_CODE):
            number = int(code[1] or code[2] or code[3], 16)
            return chr(number) if number < 0x110000 else self._refuse("names a character that does not exist")
        if named := self._match(_PROPERTY):
            return category(named[2]) if named[1] == "p" else none_of(category(named[2]))
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum() and char not in _CONTROLS:
            self._refuse(f"uses \\{char}, which is not supported")
        return _CONTROLS.get(char, char)


def _as_test(meant: CharTest | str) -> CharTest:
    return meant if callable(meant) else one_of(meant)
