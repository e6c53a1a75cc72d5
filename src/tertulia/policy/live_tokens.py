"""Session tokens in texts: of each its first eight characters may be seen, wherever it stands and however it is cut.

A token is hexadecimal, so no way of quoting changes it. What changes it is an output whose middle is left out: a
beginning or an end of nine characters is recognised too.
"""

from __future__ import annotations

import re
from collections import deque
from itertools import takewhile

SHOWN = 8
"""How many characters of a token anybody may see."""
_KEY = SHOWN + 1
_RUN = re.compile(rf"[0-9a-f]{{{_KEY},}}+")
_FEW = 16
"""Beginnings and ends. Up to so many it is quicker to look for each than for anything that looks like one."""
_RETIRED = 64
_INSTEAD = "[redacted:token]"


class LiveTokens:
    """The tokens that are valid, and the last that were: what holds one may still be on its way to the disk."""

    __slots__ = ("_heads", "_probes", "_retired", "_tails")

    def __init__(self) -> None:
        self._heads: dict[str, str] = {}
        self._tails: dict[str, str] = {}
        self._retired: deque[str] = deque()
        # What is looked for in texts and in bytes, while it is little. Replaced and never changed: the writer's
        # thread reads it.
        self._probes: tuple[tuple[str, ...], tuple[bytes, ...]] | None = ((), ())

    def add(self, token: str) -> None:
        """From now on it is taken out."""
        self._heads[token[:_KEY]] = self._tails[token[-_KEY:]] = token
        self._look_for()

    def retire(self, token: str) -> None:
        """It is valid no more, and is forgotten when enough others have followed."""
        self._retired.append(token)
        if len(self._retired) > _RETIRED:
            gone = self._retired.popleft()
            self._heads.pop(gone[:_KEY], None)
            self._tails.pop(gone[-_KEY:], None)
            self._look_for()

    def text(self, text: str) -> str:
        """The same object if there is nothing to take out."""
        probes = self._probes
        if probes is not None and not any(key in text for key in probes[0]):
            return text
        return _RUN.sub(self._clean, text)

    def json(self, body: bytes) -> bytes:
        """The same for encoded JSON."""
        probes = self._probes
        if probes is not None and not any(key in body for key in probes[1]):
            return body
        # Byte for byte there and back, whatever the bytes mean.
        text = body.decode("latin-1")
        cleaned = _RUN.sub(self._clean, text)
        return body if cleaned == text else cleaned.encode("latin-1")

    def _look_for(self) -> None:
        if len(self._heads) + len(self._tails) > _FEW:
            self._probes = None
        else:
            keys = (*self._heads, *self._tails)
            self._probes = (keys, tuple(map(str.encode, keys)))

    def _clean(self, run: re.Match[str]) -> str:
        digits = run[0]
        out: list[str] = []
        done = place = 0
        while place <= len(digits) - _KEY:
            key = digits[place : place + _KEY]
            if (token := self._heads.get(key)) is not None:
                out += (digits[done : place + SHOWN], _INSTEAD)
                done = place = place + _agree(digits[place : place + len(token)], token)
            elif (token := self._tails.get(key)) is not None:
                end = place + _KEY
                before = digits[max(done, end - len(token)) : end]
                start = end - _agree(before[::-1], token[::-1])
                out += (digits[done:start], _INSTEAD)
                done = place = end
            else:
                place += 1
        return "".join((*out, digits[done:])) if done else digits


def _agree(one: str, other: str) -> int:
    """How many characters they begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
