"""Session tokens in texts: of each its first eight characters may be seen, wherever it stands and however it is cut.

A token is hexadecimal, so no way of quoting changes it. What changes it is an output whose middle is left out, or a
text that comes in pieces: a beginning or an end of nine characters is recognised too, and twelve of its middle.

Of a long text only the places are looked at closely where five digits of a token stand, by a search in C: any nine have
five of them at one of the places that are five apart. Where there are more of those than chance explains, all long
numbers that follow are taken out, whatever they are. Of data every string is such a text: in its JSON numbers, and the
digits of an escape, would be taken for a part of one.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from collections.abc import Generator, Iterator, Sequence
from itertools import takewhile
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from tertulia.protocol.events import AgentMessageDelta, AgentReasoningDelta, EventData
from tertulia.protocol.tool_events import ExecCommandOutputDelta

VISIBLE_CHARACTERS = 8
"""How many characters of a token may be shown."""
_KEY = VISIBLE_CHARACTERS + 1
_MIDDLE = 12
"""Less than that is found by chance in ids of all kinds, where there are thousands of tokens."""
_RUN = re.compile(rf"[0-9a-f]{{{_KEY},}}+")
_RETIRED = 64
_GRAM = 5
_BLOCK = re.compile(rf"[0-9a-f]{{{_GRAM}}}")
_SHORT = 1_024
"""Characters that are looked at closely in any case."""
_DIGITS = re.compile(r"[0-9a-f]+")
_HEX_END = re.compile(r"[0-9a-f]+\Z")
_STEP = 8 * 1024
_PART = 64 * 1024
_MOST_PLACES = 2_000
_MOST_CLOSE = 16 * 1024
_OFTEN = 64
"""So many strings are looked at between two stops."""
REPLACEMENT = "[redacted:token]"

T = TypeVar("T")
TokenSteps = Generator[None, None, T]
"""Work with a stop after every few kilobytes."""


class _Budget:
    """What is still looked at closely, of one text or of all strings of some data."""

    __slots__ = ("characters", "places")

    def __init__(self) -> None:
        self.places = _MOST_PLACES
        """Where five digits of a token stand, besides those that are there by chance."""
        self.characters = _MOST_CLOSE

    @property
    def is_spent(self) -> bool:
        """Whether long numbers are taken out from now on, whatever they are."""
        return self.places < 0 or self.characters < 0


class TokenRedactor:
    """The tokens that are valid, and the last that were: what holds one may still be on its way to the disk.

    The writer's thread reads while the loop's adds; a single entry is there or not.
    """

    __slots__ = ("_grams", "_heads", "_longest", "_middles", "_retired", "_tails")

    def __init__(self) -> None:
        self._heads: dict[str, str] = {}
        self._tails: dict[str, str] = {}
        self._middles: dict[str, str] = {}
        """To what follows it in its token, itself included."""
        self._retired: deque[str] = deque()
        self._grams: Counter[str] = Counter()
        """Five digits in a row of a token: how often they occur in all of them."""
        self._longest = 0

    def __bool__(self) -> bool:
        """Whether there is any token to take out."""
        return bool(self._heads)

    def add(self, token: str) -> None:
        """From now on it is taken out."""
        self._heads[token[:_KEY]] = self._tails[token[-_KEY:]] = token
        self._middles.update((token[at : at + _MIDDLE], token[at:]) for at in _places(token))
        self._grams.update(_grams(token))
        self._longest = max(self._longest, len(token))

    def retire(self, token: str) -> None:
        """It is not valid any more, and is forgotten when enough others have followed."""
        self._retired.append(token)
        if len(self._retired) > _RETIRED:
            gone = self._retired.popleft()
            self._heads.pop(gone[:_KEY], None)
            self._tails.pop(gone[-_KEY:], None)
            for at in _places(gone):
                self._middles.pop(gone[at : at + _MIDDLE], None)
            for gram in _grams(gone):
                self._grams[gram] -= 1
                if not self._grams[gram]:
                    del self._grams[gram]

    def text(self, text: str) -> str:
        """The text without tokens; the same object if it has none."""
        return at_once(self.text_steps(text)) if self._heads else text

    def may_be_in(self, body: bytes) -> bool:
        """Whether encoded JSON may hold one. Where it says no, there is none in any of its strings."""
        if not self._heads:
            return False
        # Byte for byte, whatever the bytes mean: digits are digits.
        windows, rest = at_once(self._windows(body.decode("latin-1"), _Budget()))
        return bool(windows) or rest is not None

    def text_steps(self, text: str) -> TokenSteps[str]:
        """What `text` gives, with a stop after every few kilobytes."""
        return self._text_steps(text, _Budget())

    def data_steps(self, data: Any) -> TokenSteps[Any]:
        """Lists, tuples and tables without tokens in their strings and keys; the same object if they have none."""
        return self._data_steps(data, _Budget())

    def _data_steps(self, data: Any, budget: _Budget) -> TokenSteps[Any]:
        match data:
            case str():
                return (yield from self._text_steps(data, budget))
            case list() | tuple():
                return (yield from self._clean_entries(cast("list[Any] | tuple[Any, ...]", data), budget))
            case dict():
                return (yield from self._object(cast("dict[Any, Any]", data), budget))
            case _:
                return data

    def _object(self, data: dict[Any, Any], budget: _Budget) -> TokenSteps[dict[Any, Any]]:
        keys, values = list(data), list(data.values())
        clean_keys = yield from self._clean_entries(keys, budget)
        clean_values = yield from self._clean_entries(values, budget)
        same = clean_keys is keys and clean_values is values
        return data if same else dict(zip(clean_keys, clean_values, strict=True))

    def _clean_entries(self, entries: Sequence[Any], budget: _Budget) -> TokenSteps[Sequence[Any]]:
        """The same object where nothing in it changes. `msgspec.to_builtins` leaves tuples as they are."""
        changed: dict[int, Any] = {}
        for index, entry in enumerate(entries):
            if index % _OFTEN == _OFTEN - 1:
                yield
            cleaned = yield from self._data_steps(entry, budget)
            if cleaned is not entry:
                changed[index] = cleaned
        return [changed.get(index, entry) for index, entry in enumerate(entries)] if changed else entries

    def _text_steps(self, text: str, budget: _Budget) -> TokenSteps[str]:
        pieces: list[str] = []
        done = 0
        windows, rest = yield from self._windows(text, budget)
        for start, end in self._spans_within(text, windows, rest):
            pieces += (text[done:start], REPLACEMENT)
            done = end
        if rest is not None:
            pieces.append(text[done:rest])
            done = len(text)
            for begin, end in _parts_by_runs(text, rest):
                pieces.append(_RUN.sub(REPLACEMENT, text[begin:end]))
                yield
        return "".join([*pieces, text[done:]]) if pieces else text

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """From where to where a text must not be seen, in order."""
        windows, rest = at_once(self._windows(text, _Budget()))
        yield from self._spans_within(text, windows, rest)
        if rest is not None:
            yield from (run.span() for run in _RUN.finditer(text, rest))

    def _spans_within(self, text: str, windows: list[tuple[int, int]], rest: int | None) -> Iterator[tuple[int, int]]:
        """Up to `rest`, where all long numbers begin to be taken out."""
        limit = len(text) if rest is None else rest
        for begin, end in windows:
            for run in _RUN.finditer(text, begin, end):
                for start, stop in self.hidden(run[0]):
                    if run.start() + start < limit:
                        yield run.start() + start, min(run.start() + stop, limit)

    def _windows(self, text: str, budget: _Budget) -> TokenSteps[tuple[list[tuple[int, int]], int | None]]:
        """(Where tokens stand, apart from each other; from where on there are too many of such places, if so)."""
        if len(text) <= _SHORT:
            if self._grams.keys().isdisjoint(_BLOCK.findall(text)):
                return [], None
            budget.characters -= len(text)
            return ([], 0) if budget.is_spent else ([(0, len(text))], None)
        windows: list[tuple[int, int]] = []
        budget.places += 2 * (len(text) // _GRAM * len(self._grams) // 16**_GRAM)
        margin = self._longest + _MIDDLE
        # Whole blocks of five, so that a dump without any other character has none that is cut at the end.
        reach = -(-(_STEP + margin) // _GRAM) * _GRAM
        for begin in range(0, len(text), _STEP):
            yield
            end = begin + reach
            blocks = _BLOCK.findall(text, begin, end)
            if self._grams.keys().isdisjoint(blocks):
                continue
            places = self._places_of(blocks, text, begin, end)
            budget.places -= len(places)
            for place in places if not budget.is_spent else ():
                if self._has_key(text, place):
                    budget.characters -= _extend(windows, max(0, place - margin), min(len(text), place + margin))
            if budget.is_spent:
                rest = max(begin, windows[-1][1] if windows else 0)
                # A number that goes on there is taken out from its beginning, or as far back as a token can reach.
                run = _HEX_END.search(text, max(0, rest - margin), rest)
                return windows, rest if run is None else run.start()
        return windows, None

    def _places_of(self, blocks: list[str], text: str, begin: int, end: int) -> list[int]:
        """Where those of the blocks stand that are five digits of a token."""
        if sum(map(len, blocks)) == min(end, len(text)) - begin:
            # No other character between them, as in a dump: their places are known by counting.
            grams = self._grams
            return [begin + index * _GRAM for index, block in enumerate(blocks) if block in grams]
        return [block.start() for block in _BLOCK.finditer(text, begin, end) if block[0] in self._grams]

    def _has_key(self, text: str, place: int) -> bool:
        """Whether what is known of a token stands over this place."""
        for at in range(max(0, place + _GRAM - _MIDDLE), place + 1):
            key = text[at : at + _KEY]
            if key in self._heads or key in self._tails or text[at : at + _MIDDLE] in self._middles:
                return True
        return False

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


def at_once(steps: TokenSteps[T]) -> T:
    """All steps of it, without a stop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _parts_by_runs(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """Parts of a text from there on that cut no run of digits."""
    while begin < len(text):
        end = begin + _PART
        # A run that goes on there is a part of this one, however long it is.
        while end < len(text) and (more := _DIGITS.match(text, end - 1, end + _PART)) and more.end() > end:
            end = more.end()
        yield begin, min(end, len(text))
        begin = end


def _extend(windows: list[tuple[int, int]], begin: int, end: int) -> int:
    """Add a window; those that it touches become a part of it. By how much there is more of them."""
    before = 0
    while windows and begin <= windows[-1][1]:
        first, last = windows.pop()
        begin, end, before = min(begin, first), max(end, last), before + last - first
    windows.append((begin, end))
    return end - begin - before


def _grams(token: str) -> list[str]:
    return [token[at : at + _GRAM] for at in range(len(token) - _GRAM + 1)]


def _places(token: str) -> range:
    return range(1, len(token) - _MIDDLE + 1)


def _agree(one: str, other: str) -> int:
    """How many characters they have in common at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


_LONGEST_END = 72
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
        end = _HEX_END.search(whole, max(0, len(whole) - _LONGEST_END))
        self._open[data.item_id] = ("" if end is None else end[0], let_through + len(text))
        if len(self._open) > _STREAMS:
            self._open.popitem(last=False)
        same = text == data.text and let_through == data.offset
        return data if same else replace(data, text=text, offset=let_through)

    def _piece(self, whole: str, begin: int) -> str:
        out, done = "", begin
        for start, end in self._tokens.spans(whole):
            if end > done:
                out += whole[done:start] + (REPLACEMENT if start >= begin else "")
                done = end
        return out + whole[done:]
