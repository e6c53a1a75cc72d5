"""Cutting one long text: its head and its tail stay, and a mark between them says how much is gone."""

from __future__ import annotations

_LEAST = 8
"""Characters of text that are worth a mark with a number in it."""


def clip(text: str, room: int) -> str:
    """The text in at most `room` code points. The mark stands within a line, so that no cut begins a new one."""
    if len(text) <= room:
        return text
    mark = _mark(len(text))
    kept = room - len(mark)
    if kept < _LEAST:
        kept, mark = room - 1, "…"
    else:
        mark = _mark(len(text) - kept)
    if kept < 0:
        return ""
    tail = kept // 2
    return text[: kept - tail] + mark + text[len(text) - tail :]


def _mark(characters: int) -> str:
    return f" [… {characters:,} characters cut …] "
