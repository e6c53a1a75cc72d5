"""Folds long lines into rows of the screen. A continued row begins with a mark, so that it cannot pass for a line of
the program.
"""

from __future__ import annotations

import textwrap

from rich.cells import cell_len

from tertulia.policy.display_text import printable

BAR = "│ "
"""The beginning of every line that does not come from this program."""
_GOES_ON = "… "
_TAB = 4
_NARROWEST = 8
"""The least cells of a row. A narrower row has one character at least, and the edge of the screen cuts it."""


def fold_line(line: str, width: int) -> list[str]:
    """The rows of one line. Nothing in it steers the terminal, whatever the server at the other end has sent."""
    line = printable(line).expandtabs(_TAB)
    goes_on = BAR + _GOES_ON if line.startswith(BAR) else _GOES_ON
    if fits(line, width):
        return [line]
    room = max(width - len(goes_on), _NARROWEST - len(goes_on))
    first = take_cells(line, 0, max(width, _NARROWEST))
    rows, at = [line[:first]], first
    while at < len(line):
        end = take_cells(line, at, room)
        rows.append(goes_on + line[at:end])
        at = end
    return rows


def fits(line: str, width: int) -> bool:
    """Whether a line needs no more cells than that."""
    return len(line) <= width if line.isascii() else cell_len(line) <= width


def take_cells(line: str, start: int, cells: int) -> int:
    """The end of a row of so many cells that begins at `start`: at least one character further."""
    piece = line[start : start + cells]
    if piece.isascii():
        return start + len(piece)
    while len(piece) > 1 and cell_len(piece) > cells:
        # Each step drops at least one character, and half of the surplus where wide characters make it large.
        piece = piece[: -max((cell_len(piece) - cells) // 2, 1)]
    return start + len(piece)


def wrap_words(text: str, width: int) -> list[str]:
    """The rows of a sentence after a label: wrapped between words, and within a word that is too long."""
    if not text.isascii():
        return fold_line(text, width)
    return textwrap.wrap(text, max(width, _NARROWEST), break_on_hyphens=False) or [""]
