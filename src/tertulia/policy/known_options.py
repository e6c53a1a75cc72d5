"""The options that a program may be given. Which words are values only the program knows: see `known_safe`."""

from __future__ import annotations

from collections.abc import Sequence


def words(text: str) -> frozenset[str]:
    """A long list, written as a sentence."""
    return frozenset(text.split())


class Options:
    """A list of options: letters that may stand together, letters that take what follows, and long names."""

    __slots__ = ("_flags", "_long", "_valued")

    def __init__(self, flags: str, valued: str, long: str) -> None:
        self._flags = frozenset(flags)
        self._valued = frozenset(valued)
        self._long = words(long)

    def admit(self, arguments: Sequence[str]) -> bool:
        """Whether every word that could be an option is on the list; a long one must be written out."""
        return all(self._admits(word) for word in arguments if word.startswith("-") and word not in ("-", "--"))

    def _admits(self, word: str) -> bool:
        if word.startswith("--"):
            return word[2:].partition("=")[0] in self._long
        for letter in word[1:]:
            if letter in self._valued:
                return True
            if letter not in self._flags:
                return False
        return True
