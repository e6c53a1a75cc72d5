"""Finds the chunks of a patch in a file's lines and replaces them by the new lines, with a bounded amount of work.

Context lines keep every byte they have in the file, also where they were matched loosely. New lines get the line end
of their neighbours, so a file with CRLF keeps it. Reads and writes no file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from time import thread_time
from typing import TypeVar

import msgspec

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.tools.patch.text import Chunk

MAX_CPU_S = 3.0
"""CPU time of the thread, so that a busy machine refuses nothing that an idle one accepts."""
AT_ONCE = 20_000
"""How many lines one call into C processes, which takes a few milliseconds."""
CHARACTERS_AT_ONCE = 1 << 20

T = TypeVar("T")


class WorkBudget:
    """Bounds the CPU time of one patch. Used by one thread; any thread may stop it."""

    __slots__ = ("_began_at", "_limit_s", "_stopped")

    def __init__(self, limit_s: float = MAX_CPU_S) -> None:
        self._limit_s = limit_s
        self._began_at: float | None = None
        self._stopped = False

    def stop(self) -> None:
        """Make the next `check` raise, because the result is no longer needed."""
        self._stopped = True

    def check(self) -> None:
        """Raise LimitError when the time is spent or the work was stopped. The time counts from the first check."""
        now = thread_time()
        if self._began_at is None:
            self._began_at = now
        if self._stopped:
            raise LimitError("the work on this patch was stopped; nothing was changed")
        if now - self._began_at > self._limit_s:
            raise LimitError(
                f"finding the places of this patch takes more than {self._limit_s:g} s; "
                "give more context, split it, or put all changes of a file under one `*** Update File`"
            )

    def some(self, entries: Sequence[T]) -> Iterator[Sequence[T]]:
        """The entries in slices that take a short time each, with a check before every slice."""
        for start in range(0, len(entries), AT_ONCE):
            self.check()
            yield entries[start : start + AT_ONCE]

    def joined(self, texts: Sequence[str], between: str = "") -> str:
        """The texts as one, joined in steps."""
        return between.join([between.join(some) for some in self.some(texts)])

    def lines(self, content: str) -> list[str]:
        """The content, cut at its newlines."""
        lines: list[str] = []
        begin = 0
        while True:
            self.check()
            # Cut at the last newline of a slice; a line that is longer than a slice is taken whole.
            end = content.rfind("\n", begin, begin + CHARACTERS_AT_ONCE)
            if end < 0:
                end = content.find("\n", begin)
            if end < 0:
                lines.append(content[begin:])
                return lines
            lines += content[begin:end].split("\n")
            begin = end + 1

    @staticmethod
    def free(entries: list[str]) -> None:
        """Empty the list in slices: freeing all entries at once would be one long call into C as well."""
        while entries:
            del entries[-AT_ONCE:]

    def find(self, text: str, wanted: str, begin: int) -> int:
        """The first position of `wanted` at or after `begin`; -1 if there is none."""
        step = max(CHARACTERS_AT_ONCE, len(wanted))
        for start in range(begin, max(begin + 1, len(text)), step):
            self.check()
            position = text.find(wanted, start, start + step + len(wanted) - 1)
            if position >= 0:
                return position
        return -1


MAX_SCANNED = 256 * 1024 * 1024
"""How many characters of one file are searched in all; it bounds the time of a patch that was made to be slow."""

_FOLDED = {
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"),
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys([0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000], " "),
    0xFEFF: None,
}

_FOLDED_AT_ONCE = 1 << 16


def _exact(line: str) -> str:
    return line


def _folded(line: str) -> str:
    if len(line) <= _FOLDED_AT_ONCE:
        return line.translate(_FOLDED).strip()
    starts = range(0, len(line), _FOLDED_AT_ONCE)
    return "".join([line[start : start + _FOLDED_AT_ONCE].translate(_FOLDED) for start in starts]).strip()


PASSES: tuple[Callable[[str], str], ...] = (_exact, str.rstrip, str.strip, _folded)
"""How lines are normalised before they are compared, strictest first."""


class _Index(msgspec.Struct, frozen=True):
    """All lines of a file, normalised for one pass."""

    lines: list[str]
    known: set[str]
    text: str
    """All lines, each between newlines, so that a search finds whole lines only."""
    starts: list[int]
    """The position in `text` of the newline before each line."""

    @classmethod
    def of(cls, lines: list[str], effort: WorkBudget) -> _Index:
        distinct: set[str] = set()
        starts = [0]
        for some in effort.some(lines):
            distinct.update(some)
            starts += accumulate((len(line) + 1 for line in some[1:]), initial=starts[-1] + len(some[0]) + 1)
        text = "\n" + effort.joined(lines, between="\n") + "\n" if lines else "\n"
        return cls(lines, distinct, text, starts)


class FileLines:
    """A file's lines, and the search in them. Takes time in proportion to the text searched, whatever it contains.

    Raises LimitError as soon as the effort is spent; no single call into C takes long.
    """

    __slots__ = ("_effort", "_indexes", "_left", "endings", "texts")

    def __init__(self, content: str, max_scanned: int = MAX_SCANNED, effort: WorkBudget | None = None) -> None:
        self._effort = effort or WorkBudget()
        pieces = self._effort.lines(content)
        last = pieces.pop()
        self.texts: list[str] = []
        self.endings: list[str] = []
        for some in self._effort.some(pieces):
            self.texts += [piece.removesuffix("\r") for piece in some]
            self.endings += ["\r\n" if piece.endswith("\r") else "\n" for piece in some]
        if last:
            self.texts.append(last)
            self.endings.append("")
        self._indexes: dict[int, _Index] = {}
        self._left = max_scanned

    def find(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> int | None:
        """The first place of these lines at or after `start`, by the strictest pass that finds any."""
        if at_end and (tail := len(self.texts) - len(wanted)) >= start:
            for number, look in enumerate(PASSES):
                if self._index(number).lines[tail:] == [look(line) for line in wanted]:
                    return tail
        for number, look in enumerate(PASSES):
            place = self._search(self._index(number), [look(line) for line in wanted], start)
            if place is not None:
                return place
        return None

    def free(self) -> None:
        """Release the memory of all lines and indexes, in short steps."""
        for index in self._indexes.values():
            while index.known:
                index.known.pop()
            self._effort.free(index.lines)
        self._effort.free(self.texts)

    def _search(self, index: _Index, wanted: list[str], start: int) -> int | None:
        if not index.known.issuperset(wanted):
            return None
        begin = index.starts[start]
        position = self._effort.find(index.text, "\n" + "".join(f"{line}\n" for line in wanted), begin)
        self._left -= (position if position >= 0 else len(index.text)) - begin
        if self._left < 0:
            raise LimitError("finding the places of this patch takes too long; give more context, or split it")
        return bisect_left(index.starts, position) if position >= 0 else None

    def _index(self, number: int) -> _Index:
        index = self._indexes.get(number)
        if index is None:
            look = PASSES[number]
            seen = [look(text) for some in self._effort.some(self.texts) for text in some]
            index = self._indexes[number] = _Index.of(seen, self._effort)
        return index


def apply_chunks(path: str, content: str, chunks: Iterable[Chunk], effort: WorkBudget | None = None) -> str:
    """The file's new content; InvalidParams names the file, what was not found, and the line of the patch."""
    effort = effort or WorkBudget()
    lines = FileLines(content, effort=effort)
    try:
        result = _changed(path, lines, chunks)
    finally:
        lines.free()
    new = effort.joined(result)
    effort.free(result)
    return new


def _changed(path: str, lines: FileLines, chunks: Iterable[Chunk]) -> list[str]:
    """The lines of the new content, each with its line end."""
    fallback = next((ending for ending in lines.endings if ending), "\n")
    result: list[str] = []
    appended: list[str] = []
    done = cursor = 0
    for chunk in chunks:
        cursor = _after_headers(path, lines, chunk, cursor)
        place = _place(path, lines, chunk, cursor)
        if place is None:
            appended += [text + fallback for mark, text in chunk.lines if mark == "+"]
            continue
        at, marked = place
        result += _context_lines(lines, done, at, fallback)
        done = cursor = at
        for mark, text in marked:
            if mark == "+":
                near = lines.endings[max(done - 1, at)]
                result.append(text + (near or fallback))
                continue
            if mark == " ":
                result += _context_lines(lines, done, done + 1, fallback)
            done = cursor = done + 1
    result += _context_lines(lines, done, len(lines.texts), fallback)
    return result + appended


def _context_lines(lines: FileLines, begin: int, end: int, fallback: str) -> list[str]:
    return [lines.texts[number] + (lines.endings[number] or fallback) for number in range(begin, end)]


def _after_headers(path: str, lines: FileLines, chunk: Chunk, cursor: int) -> int:
    for header in chunk.headers:
        position = lines.find([header], cursor)
        if position is None:
            raise InvalidParamsError(
                f"Failed to find context '{header}' in {path} (line {chunk.line_number} of the patch)"
            )
        cursor = position + 1
    return cursor


def _place(path: str, lines: FileLines, chunk: Chunk, cursor: int) -> tuple[int, Sequence[tuple[str, str]]] | None:
    """(the place of the chunk, its lines), or None if it only adds lines, which then go to the end of the file."""
    wanted = [text for mark, text in chunk.lines if mark != "+"]
    if not wanted:
        return None
    position = lines.find(wanted, cursor, at_end=chunk.at_end)
    if position is not None:
        return position, chunk.lines
    if wanted[-1] == "":
        # Often this is meant as the empty string after the file's last newline, which is no line.
        if len(wanted) == 1:
            return None
        position = lines.find(wanted[:-1], cursor, at_end=chunk.at_end)
        if position is not None:
            last = max(number for number, (mark, _) in enumerate(chunk.lines) if mark != "+")
            return position, (*chunk.lines[:last], *chunk.lines[last + 1 :])
    raise InvalidParamsError(
        f"Failed to find expected lines in {path}:\n" + "\n".join(wanted) + f"\n(line {chunk.line_number} of the patch)"
    )
