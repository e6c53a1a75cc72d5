"""What the user asked for, in less room than it takes: no request goes as a whole as long as there is room for a part.

Where all fit, all are whole. Else the first, which often sets the terms, and the newest have a quarter of the room
each, and those between share the rest: short ones stay whole, and of longer ones the sentences stay that are most
likely a demand. That is a guess. What it misses is left to the notes of the model, which list demands: `demands_of`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tertulia.history.segment import utf8_size
from tertulia.lazy_pattern import lazy_pattern

_LEAST = 24
_LEAST_SHARE = 60
"""Less than this of a request says nothing; then the oldest go."""
_TERMS = lazy_pattern(
    r"\b(?:never|always|must|should|only|without|keep|avoid|do not|don['’]t|not|at (?:most|least)"
    r"|nie|niemals|immer|muss|darf|nur|ohne|nicht|kein\w*|jamais|toujours|doit|sans|nunca|siempre|debe|sin)\b",
    re.IGNORECASE,
)
"""Words by which a sentence sets terms."""
_NUMBER = lazy_pattern(r"[0-9]+")
_SENTENCE_END = lazy_pattern(r"(?<=[.!?;])\s+|\n+")
_DEMANDS = lazy_pattern(r"^[#* \t]*demands\b[^\n]*\n+((?:[ \t]*(?:[-*]|\d+[.)])[ \t]+[^\n]*(?:\n+|\Z))+)", re.I | re.M)
_LISTED = lazy_pattern(r"^[ \t]*(?:[-*]|\d+[.)])[ \t]+(.*\S)", re.MULTILINE)
_MOST_DEMANDS = 200
_LONGEST_DEMAND = 600


def demands_of(notes: str) -> list[str]:
    """The demands that a model has listed in its notes, under a line that begins with `Demands`."""
    listed = [one for section in _DEMANDS.findall(notes) for one in _LISTED.findall(section)]
    return [one[:_LONGEST_DEMAND] for one in listed[:_MOST_DEMANDS]]


def requests_in(texts: Sequence[str], room: int) -> list[str]:
    """The requests, oldest first, in at most `room` bytes of entries."""
    if not texts or sum(map(entry_size, texts)) <= room:
        return list(texts)
    if not (first := _shortened(texts[0], room // 4)):
        return []
    newest = fitting((_shortened(text, room // 4) for text in reversed(texts[1:])), room // 4)
    left = room - entry_size(first) - sum(map(entry_size, newest))
    return [first, *_shared(texts[1 : len(texts) - len(newest)], left, set(_sentences(first))), *newest]


def _shared(texts: Sequence[str], room: int, known: set[str]) -> list[str]:
    """These texts in fair shares of the room, without sentences that stand in an earlier one."""
    own: list[list[str]] = []
    for text in texts:
        new = [one for one in dict.fromkeys(_sentences(text)) if one not in known]
        known.update(new)
        if new:
            # Whole as it was written, where nothing of it is known already.
            own.append([text] if len(new) == len(_sentences(text)) else new)
    own = _as_many_as_fit(own, room)
    chosen: dict[int, str] = {}
    # The shortest first: what they leave of their shares is for the longer ones.
    for count, place in enumerate(sorted(range(len(own)), key=lambda at: _weight(own[at]))):
        text = _of_share(own[place], room // (len(own) - count))
        room -= entry_size(text) if text else 0
        chosen[place] = text
    return [chosen[place] for place in range(len(own)) if chosen[place]]


def _as_many_as_fit(texts: list[list[str]], room: int) -> list[list[str]]:
    """The texts without the oldest of those that set no terms, and then without the oldest, until a share is of use."""
    surplus = len(texts) - max(room // _LEAST_SHARE, 0)
    if surplus <= 0:
        return texts
    plain = [at for at, sentences in enumerate(texts) if not any(map(_TERMS.search, sentences))]
    dropped = set(plain[:surplus])
    others = [at for at in range(len(texts)) if at not in dropped]
    dropped.update(others[: surplus - len(dropped)])
    return [sentences for at, sentences in enumerate(texts) if at not in dropped]


def _weight(sentences: Sequence[str]) -> int:
    return entry_size("\n".join(sentences))


def _of_share(sentences: Sequence[str], room: int) -> str:
    if _weight(sentences) <= room:
        return "\n".join(sentences)
    text = "\n".join(sentences)
    return _likeliest(_sentences(text), room) or clipped(text, room)


def _shortened(text: str, room: int) -> str:
    """The request whole; or its beginning, and the sentences behind it that are most likely demands."""
    if entry_size(text) <= room:
        return text
    demands = _likeliest(_sentences(text), room // 2)
    head = clipped(text, room - (entry_size(demands) if demands else 0))
    more = [sentence for sentence in demands.splitlines() if sentence not in head]
    return "\n".join([head, *more]) if head else ""


def _sentences(text: str) -> list[str]:
    return [plain for sentence in _SENTENCE_END.split(text) if (plain := sentence.strip())]


def _likeliest(sentences: Sequence[str], room: int) -> str:
    """As many sentences as fit, in their order: those that set terms, those that are like no other, of these
    the last, the first and the shortest. What is alike but for its numbers, as lines of a log are, is seldom a demand.
    """
    distinct = list(dict.fromkeys(sentences))
    ends = {0, len(distinct) - 1}
    shapes = Counter(map(_shape, distinct))

    def rank(at: int) -> tuple[bool, bool, bool, int]:
        one = distinct[at]
        return not _TERMS.search(one), shapes[_shape(one)] > 1, at not in ends, len(one)

    chosen: list[int] = []
    for at in sorted(range(len(distinct)), key=rank):
        # As a line of an entry each takes as much as an entry of its own.
        size = entry_size(distinct[at])
        if size <= room:
            room -= size
            chosen.append(at)
    return "\n".join(distinct[at] for at in sorted(chosen))


def _shape(sentence: str) -> str:
    return _NUMBER.sub("0", sentence)


def fitting(newest_first: Iterable[str], room: int, *, skip: bool = False) -> list[str]:
    """As many of the newest as fit, oldest first; with `skip`, also those behind one that is empty or too long."""
    chosen: list[str] = []
    for text in newest_first:
        if entry_size(text) > room or not text:
            if skip:
                continue
            break
        room -= entry_size(text)
        chosen.append(text)
    return chosen[::-1]


def entry(text: str) -> str:
    """A text as an entry of a list, each of its lines marked as such."""
    return "- " + "\n  ".join(text.splitlines())


def entry_size(text: str) -> int:
    """The bytes that a text takes as an entry, with the end of its line."""
    return utf8_size(entry(text)) + 1


def clipped(text: str, room: int) -> str:
    """The beginning of a longer text, as an entry of at most `room` bytes; empty where that would be too short."""
    # As an entry it has at most three bytes more for each line: cut until it fits.
    size = room - utf8_size("- …\n")
    while size >= _LEAST:
        cut = text[:size].encode()[:size].decode(errors="ignore").rstrip() + "…"
        if entry_size(cut) <= room:
            return cut
        size -= max(entry_size(cut) - room, 1)
    return ""
