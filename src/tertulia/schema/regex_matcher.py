"""The parts of a regular expression, as functions from a set of positions in a text to the next.

A set is one integer: bit i is the position before character i, the last bit the end of the text. A part maps
the positions where it begins to those where it ends, or back. A pattern occurs when any position is left
after its last part; nothing is ever tried twice, so nothing can explode. Each move is paid for in proportion
to the text, and the payer may refuse.

Not here: how patterns are written (`pattern`), and groups as results.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

Spend = Callable[[int], None]
"""Pays for so many steps of about half a microsecond, or raises."""
CharTest = Callable[[str], bool]
"""Whether a character belongs to a class."""


class SubjectText:
    """A text, and where in it each kind of character stands."""

    __slots__ = ("_alphabet", "_found", "_spend", "_toll", "_walk", "everywhere", "text")

    def __init__(self, text: str, spend: Spend) -> None:
        self.text = text
        # A walk over all characters; Python is quick at it while they are ASCII.
        self._walk = 1 + (len(text) >> (6 if text.isascii() else 3))
        self._toll = 1 + (len(text) >> 11)
        spend(self._walk)
        self.everywhere = (1 << (len(text) + 1)) - 1
        self._alphabet = frozenset(text)
        self._found: dict[Chars, int] = {}
        self._spend = spend

    def pay(self) -> None:
        """For one operation on sets of positions."""
        self._spend(self._toll)

    def before(self, chars: Chars) -> int:
        """The positions right before such a character."""
        found = self._found.get(chars)
        if found is None:
            self._spend(self._walk + (len(self._alphabet) * (chars.weight + 2) >> 2))
            digits = {ord(char): "1" if chars.has(char) else "0" for char in self._alphabet}
            found = self._found[chars] = int("0" + self.text[::-1].translate(digits), 2)
        return found


PatternPart = Callable[[int, SubjectText, bool], int]
"""(beginnings, subject, True) gives the ends; (ends, subject, False) gives the beginnings."""


class Chars:
    """One character of a kind."""

    __slots__ = ("has", "weight")

    def __init__(self, has: CharTest, weight: int = 1) -> None:
        self.has = has
        self.weight = weight
        """How many tests `has` may take."""

    def __call__(self, at: int, subject: SubjectText, ahead: bool) -> int:
        """One character on, or back, from where it stands."""
        subject.pay()
        before = subject.before(self)
        return (at & before) << 1 if ahead else (at >> 1) & before


def sequence(parts: Sequence[PatternPart]) -> PatternPart:
    """Matches the parts, one after the other."""
    backwards = parts[::-1]

    def move(at: int, subject: SubjectText, ahead: bool) -> int:
        for part in parts if ahead else backwards:
            if not at:
                break
            at = part(at, subject, ahead)
        return at

    return parts[0] if len(parts) == 1 else move


def choice(options: Sequence[PatternPart]) -> PatternPart:
    """Matches any one of the options."""

    def move(at: int, subject: SubjectText, ahead: bool) -> int:
        subject.pay()
        reached = 0
        for option in options:
            reached |= option(at, subject, ahead)
        return reached

    return options[0] if len(options) == 1 else move


def repeat(part: PatternPart, low: int, high: int | None) -> PatternPart:
    """At least `low` times and at most `high`. Greedy or lazy makes no difference to whether it matches."""
    if high is None and isinstance(part, Chars):
        return sequence([repeat(part, low, low), _run(part)]) if low else _run(part)
    extra = None if high is None else high - low

    # A part that can be empty keeps every position and one that cannot moves them all on, so that both loops
    # come to rest after as many rounds as the text has characters, whatever numbers the pattern names.
    def move(at: int, subject: SubjectText, ahead: bool) -> int:
        for _ in range(low):
            before, at = at, part(at, subject, ahead)
            if at == before:
                break
        reached = fresh = at
        rounds = 0
        while fresh and rounds != extra:
            subject.pay()
            fresh = part(fresh, subject, ahead) & ~reached
            reached |= fresh
            rounds += 1
        return reached

    return move


def _run(chars: Chars) -> PatternPart:
    """The common case, `[a-z]*`, without a loop: a sum carries a bit through a whole run of ones at once."""
    loop = repeat(chars.__call__, 0, None)

    def move(at: int, subject: SubjectText, ahead: bool) -> int:
        if not ahead:
            return loop(at, subject, ahead)
        subject.pay()
        run = subject.before(chars)
        return (((at & run) + run) ^ run) | at

    return move


def edge(here: Callable[[SubjectText], int]) -> PatternPart:
    """Nothing, but only at certain positions."""

    def stay(at: int, subject: SubjectText, ahead: bool) -> int:
        subject.pay()
        return at & here(subject)

    return stay


def look(part: PatternPart, *, forward: bool, negated: bool) -> PatternPart:
    """Nothing, but only where the part can, or cannot, be seen in that direction."""

    def stay(at: int, subject: SubjectText, ahead: bool) -> int:
        subject.pay()
        # What is seen ahead begins here, what is seen behind ends here: the part is run from all its other ends.
        seen = part(subject.everywhere, subject, not forward)
        return at & ~seen if negated else at & seen

    return stay


def one_of(members: str) -> CharTest:
    """Tests for being one of the characters."""
    return frozenset(members).__contains__


def none_of(test: CharTest) -> CharTest:
    """Tests for being a character that `test` refuses."""
    return lambda char: not test(char)


def category(name: str) -> CharTest:
    """The characters of a Unicode general category, such as `L` or `Nd`."""
    return lambda char: unicodedata.category(char).startswith(name)
