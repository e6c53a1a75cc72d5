"""The lines of a file that are not as a model knows them, for the refusal of a change that is based on old ones."""

from __future__ import annotations

from array import array

GONE = "There is no such file any more."
VIEW_AGAIN = "View it again."
MAX_LINES = 100_000
"""A file with more is compared as a whole, without its lines."""
_SHOWN_LINES = 60
_SHOWN_CHARACTERS = 6_000


def line_numbers(content: bytes) -> array[int] | None:
    """For each line a number that tells it from others; None where there are too many."""
    if content.count(b"\n") >= MAX_LINES:
        return None
    return array("q", map(hash, content.split(b"\n")))


def difference(before: bytes | None, now: bytes | None) -> str:
    """What a model has to know of a file that changed meanwhile; None: there was none, or is none any more."""
    if now is None:
        return GONE
    if before == now:
        return "It was written again, with the same content: make your change again."
    return new_lines(line_numbers(before or b""), now) or VIEW_AGAIN


def new_lines(before: array[int] | None, content: bytes) -> str | None:
    """The lines from the first to the last that differ, with their numbers; None where they are too many."""
    lines, now = content.split(b"\n"), line_numbers(content)
    if before is None or now is None:
        return None
    head, shorter = 0, min(len(before), len(now))
    while head < shorter and before[head] == now[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == now[-1 - tail]:
        tail += 1
    gone, new = len(before) - tail - head, lines[head : len(lines) - tail]
    text = "\n".join(f"{head + at + 1}\t{line.decode('utf-8', 'replace')}" for at, line in enumerate(new))
    if len(new) > _SHOWN_LINES or len(text) > _SHOWN_CHARACTERS:
        return None
    if not new:
        return f"{_lines(gone)} after line {head} were removed. Look whether your change still fits, and make it again."
    where = f"Lines {head + 1} to {head + len(new)} are new (in place of {gone or 'none'})"
    return f"{where}:\n{text}\nLook whether your change still fits, and make it again."


def _lines(count: int) -> str:
    return f"{count:,} line{'s' * (count != 1)}"
