"""Which lines differ between two texts, in time that grows little faster than their length.

Lines that occur once in both are taken as fixed points, as far as they stand in the same order; what lies between two
of them and is short is compared line by line, and what is long counts as replaced. Never wrong, at worst longer than
it need be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

DiffBlock = tuple[int, int, int, int]
"""Lines `[0]` to `[1]` of the old text are replaced by lines `[2]` to `[3]` of the new; either may be empty."""

_MOST_COMPARED = 200
"""Lines of a gap that are compared with each other: that takes quadratic time."""


def line_diff(old: Sequence[str], new: Sequence[str]) -> list[DiffBlock]:
    """The blocks that differ, in order."""
    blocks: list[DiffBlock] = []
    done_old = done_new = 0
    for old_at, new_at in [*_fixed_points(old, new), (len(old), len(new))]:
        blocks += _gap(old, new, (done_old, old_at, done_new, new_at))
        done_old, done_new = old_at + 1, new_at + 1
    return _joined(blocks)


def _fixed_points(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines at the same place in both, and the longest rising row of those that occur once in each."""
    head = _same(zip(old, new, strict=False))
    shorter = min(len(old), len(new)) - head
    tail = min(_same(zip(reversed(old), reversed(new), strict=False)), shorter)
    first = [(at, at) for at in range(head)]
    last = [(len(old) - at, len(new) - at) for at in range(tail, 0, -1)]
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    counts = Counter(middle_old), Counter(middle_new)
    places = {line: at for at, line in enumerate(middle_new) if counts[1][line] == 1}
    pairs = [(at, places[line]) for at, line in enumerate(middle_old) if counts[0][line] == 1 and line in places]
    return [*first, *((a + head, b + head) for a, b in _rising(pairs)), *last]


def _same(pairs: Iterator[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest sequence of pairs that rises in both numbers."""
    tops: list[int] = []
    owners: list[int] = []
    before: list[int | None] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        before.append(owners[pile - 1] if pile else None)
        if pile == len(tops):
            tops.append(place)
            owners.append(number)
        else:
            tops[pile], owners[pile] = place, number
    row: list[tuple[int, int]] = []
    at = owners[-1] if owners else None
    while at is not None:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]


def _gap(old: Sequence[str], new: Sequence[str], block: DiffBlock) -> list[DiffBlock]:
    begin, end, new_begin, new_end = block
    if begin == end and new_begin == new_end:
        return []
    if max(end - begin, new_end - new_begin) > _MOST_COMPARED:
        return [block]
    # Imported here: most differences are found without.
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old[begin:end], new[new_begin:new_end], autojunk=False)
    return [
        (begin + a, begin + b, new_begin + c, new_begin + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _joined(blocks: list[DiffBlock]) -> list[DiffBlock]:
    """Neighbours that touch as one."""
    joined: list[DiffBlock] = []
    for block in blocks:
        if joined and (joined[-1][1], joined[-1][3]) == (block[0], block[2]):
            joined[-1] = (joined[-1][0], block[1], joined[-1][2], block[3])
        else:
            joined.append(block)
    return joined
