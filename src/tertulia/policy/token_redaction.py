"""Session tokens in texts: of each its first eight characters may be seen, wherever it stands and however it is cut.

A token is hexadecimal, so no way of quoting changes it. What changes it is an output whose middle is left out, or a
text that comes in pieces: a beginning or an end of nine characters is recognised too, and twelve of its middle.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import takewhile

from msgspec.structs import replace

from tertulia.protocol.events import AgentMessageDelta, AgentReasoningDelta, EventData
from tertulia.protocol.tool_events import ExecCommandOutputDelta

VISIBLE_CHARACTERS = 8
"""How many characters of a token anybody may see."""
_KEY = VISIBLE_CHARACTERS + 1
_MIDDLE = 12
"""Less than that is found by chance in ids of all kinds, where there are thousands of tokens."""
_RUN = re.compile(rf"[0-9a-f]{{{_KEY},}}+")
_RETIRED = 64
REPLACEMENT = "[redacted:token]"


class TokenRedactor:
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

    def __bool__(self) -> bool:
        """Whether there is any token to take out."""
        return bool(self._heads)

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
                yield place + VISIBLE_CHARACTERS, done
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
            out += digits[done:start] + REPLACEMENT
            done = end
        return out + digits[done:]


def _places(token: str) -> range:
    return range(1, len(token) - _MIDDLE + 1)


def _agree(one: str, other: str) -> int:
    """How many characters they begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


_HEX_RUN = re.compile(r"[0-9a-f]+")
_HEX_END = re.compile(r"[0-9a-f]{1,72}\Z")
_STREAMS = 256


class TokenStreamRedactor:
    """The texts that are being written just now."""

    def __init__(self, tokens: TokenRedactor) -> None:
        self._tokens = tokens
        self._open: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """Of each the digits at its end, as they came, and how much of it was let through."""

    def clean(self, data: EventData) -> EventData:
        """A piece without what belongs to a token, at its place in what was let through; anything else as it is."""
        if not isinstance(data, AgentMessageDelta | AgentReasoningDelta | ExecCommandOutputDelta):
            return data
        before, let_through = self._open.pop(data.item_id, ("", data.offset)) if data.offset else ("", 0)
        whole = before + data.text
        text = self._piece(whole, len(before))
        end = _HEX_END.search(whole)
        self._open[data.item_id] = ("" if end is None else end[0], let_through + len(text))
        if len(self._open) > _STREAMS:
            self._open.popitem(last=False)
        same = text == data.text and let_through == data.offset
        return data if same else replace(data, text=text, offset=let_through)

    def _piece(self, whole: str, begin: int) -> str:
        out, done = "", begin
        for run in _HEX_RUN.finditer(whole):
            for start, end in self._tokens.hidden(run[0]):
                start, end = start + run.start(), end + run.start()
                if end > done:
                    out += whole[done:start] + (REPLACEMENT if start >= begin else "")
                    done = end
        return out + whole[done:]
