"""Session tokens in texts: of each its first eight characters may be seen, wherever it stands and however it is cut.

A token is hexadecimal, so no way of quoting changes it. What changes it is an output whose middle is left out, or a
text that comes in pieces: a beginning or an end of nine characters is recognised too, and twelve of its middle.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import takewhile

SHOWN = 8
"""How many characters of a token anybody may see."""
_KEY = SHOWN + 1
_MIDDLE = 12
"""Less than that is found by chance in ids of all kinds, where there are thousands of tokens."""
_RUN = re.compile(rf"[0-9a-f]{{{_KEY},}}+")
_RETIRED = 64
INSTEAD = "[redacted:token]"


class LiveTokens:
    """The tokens that are valid, and the last that were: what holds one may still be on its way to the disk.

    The writer's thread reads while the loop's adds; a single entry is there or not.
    """

    __slots__ = ("_heads", "_middles", "_retired", "_tails")

    def __init__(self) -> None:
        self._heads: dict[str, str] = {}
        self._tails: dict[str, str] = {}
        self._middles: dict[str, str] = {}
        """To what follows it in its token, itself included."""
        self._retired: deque[str] = deque()

    def add(self, token: str) -> None:
        """From now on it is taken out."""
        self._heads[token[:_KEY]] = self._tails[token[-_KEY:]] = token
        self._middles.update((token[at : at + _MIDDLE], token[at:]) for at in _places(token))

    def retire(self, token: str) -> None:
        """It is valid no more, and is forgotten when enough others have followed."""
        self._retired.append(token)
        if len(self._retired) > _RETIRED:
            gone = self._retired.popleft()
            self._heads.pop(gone[:_KEY], None)
            self._tails.pop(gone[-_KEY:], None)
            for at in _places(gone):
                self._middles.pop(gone[at : at + _MIDDLE], None)

    def text(self, text: str) -> str:
        """The same object if there is nothing to take out."""
        if not self._heads:
            return text
        cleaned = _RUN.sub(self._clean, text)
        return text if cleaned == text else cleaned

    def json(self, body: bytes) -> bytes:
        """The same for encoded JSON."""
        if not self._heads:
            return body
        # Byte for byte there and back, whatever the bytes mean.
        text = body.decode("latin-1")
        cleaned = _RUN.sub(self._clean, text)
        return body if cleaned == text else cleaned.encode("latin-1")

    def hidden(self, digits: str) -> Iterator[tuple[int, int]]:
        """From where to where a run of hexadecimal digits must not be seen."""
        done = place = 0
        while place <= len(digits) - _KEY:
            key = digits[place : place + _KEY]
            if (token := self._heads.get(key)) is not None:
                done = place + _agree(digits[place : place + len(token)], token)
                yield place + SHOWN, done
                place = done
            elif (token := self._tails.get(key)) is not None:
                end = place + _KEY
                before = digits[max(done, end - len(token)) : end]
                yield end - _agree(before[::-1], token[::-1]), end
                done = place = end
            elif (rest := self._middles.get(digits[place : place + _MIDDLE])) is not None:
                done = place + _agree(digits[place : place + len(rest)], rest)
                yield place, done
                place = done
            else:
                place += 1

    def _clean(self, run: re.Match[str]) -> str:
        digits, out, done = run[0], "", 0
        for start, end in self.hidden(digits):
            out += digits[done:start] + INSTEAD
            done = end
        return out + digits[done:]


def _places(token: str) -> range:
    return range(1, len(token) - _MIDDLE + 1)


def _agree(one: str, other: str) -> int:
    """How many characters they begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
