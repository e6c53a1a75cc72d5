"""Completes the text before the cursor: commands after `/`, files and conversations after `@`, old entries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

MOST_SHOWN = 8
_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)\Z")
_COMMAND = re.compile(r"/(\S*)\Z")


class CompletionChoice(msgspec.Struct, frozen=True):
    """A text that may be inserted, and what is shown beside it."""

    text: str
    help: str = ""


class Token(msgspec.Struct, frozen=True):
    """The part before the cursor that may be completed."""

    kind: Literal["command", "mention", "history"]
    query: str
    length: int
    """Characters before the cursor that a completion replaces."""


def token_before(line: str, *, is_first_line: bool) -> Token | None:
    """The part to complete at the end of this text, which is a line up to the cursor."""
    if is_first_line and (found := _COMMAND.fullmatch(line)):
        return Token("command", found[1], len(line))
    if found := _MENTION.search(line):
        return Token("mention", found[1], len(found[1]) + 1)
    return None


def rank(query: str, names: Sequence[str], most: int = MOST_SHOWN) -> list[str]:
    """The best matches: names that begin with the text, then those whose last part does, those that contain it, and
    those that have its letters in that order.
    """
    wanted = query.casefold()
    if not wanted:
        return list(names[:most])
    scored = [(_score(wanted, name.casefold()), len(name), name) for name in names if wanted in name.casefold()]
    if len(scored) < most:
        letters = re.compile(".*?".join(map(re.escape, wanted)))
        scored += [
            (3, len(name), name)
            for name in names
            if letters.search(folded := name.casefold()) is not None and wanted not in folded
        ]
    return [name for _, _, name in sorted(scored)[:most]]


def _score(wanted: str, name: str) -> int:
    if name.startswith(wanted):
        return 0
    return 1 if name.rpartition("/")[2].startswith(wanted) else 2


class Completions:
    """The open list: its choices, and which one is chosen."""

    def __init__(self) -> None:
        self.token: Token | None = None
        self.candidates: list[CompletionChoice] = []
        self.at = 0

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.candidates)

    @property
    def chosen(self) -> CompletionChoice | None:
        """What Tab or Enter puts in."""
        return self.candidates[self.at] if self.candidates else None

    def open(self, token: Token | None, candidates: Iterable[CompletionChoice]) -> None:
        """Offer these choices; an empty list closes it."""
        self.token, self.candidates, self.at = token, list(candidates), 0

    def close(self) -> None:
        """Offer nothing until the text changes."""
        self.open(None, ())

    def move(self, step: int) -> None:
        """Choose the next one or the one before, around the ends."""
        self.at = (self.at + step) % len(self.candidates) if self.candidates else 0
