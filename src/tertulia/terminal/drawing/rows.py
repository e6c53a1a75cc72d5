"""The rows that a cell is drawn as: what is painted, and the text that is copied from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.wrapping import (
    Run,
    bounded,
    cut_runs,
    hard_cuts,
    joined_runs,
    without_tabs,
    word_cuts,
)

Place = tuple[str, int]
"""A file, and a line in it."""


class TextRow:
    """One row of a cell. It never changes, so the strip that is painted is made once."""

    __slots__ = ("_copied", "_painted", "_strip", "code", "glue", "gutter", "place", "runs")

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        gutter: int = 0,
        glue: str | None = None,
        code: str | None = None,
        place: Place | None = None,
        copied: str | None = None,
    ) -> None:
        """Draw these runs.

        Args:
            runs: The texts and their styles.
            gutter: Of them, so many characters at the beginning are drawing and are not copied.
            glue: The line above was too long and goes on here; this was between them.
            code: The code block that it is a row of, as it was written.
            place: The file and line that it shows.
            copied: What is copied of it, where that is not what is drawn.
        """
        self.runs = runs
        self.gutter = gutter
        self.glue = glue
        self.code = code
        self.place = place
        self._copied = copied
        self._strip: Strip | None = None
        self._painted: tuple[int, Style] | None = None

    @property
    def text(self) -> str:
        """Everything that is drawn, as text."""
        return "".join(text for text, _ in self.runs)

    @property
    def copied_text(self) -> str:
        """The text without the drawing at its beginning and the blanks at its end."""
        return self.text[self.gutter :].rstrip() if self._copied is None else self._copied

    def strip(self, width: int, base: Style) -> Strip:
        """The row as it is painted, filled up to the width."""
        if self._strip is None or self._painted != (width, base):
            self._strip = painted(self.runs, width, base)
            self._painted = (width, base)
        return self._strip

    def indented(self, prefix: Sequence[Run]) -> TextRow:
        """The same row behind a drawing."""
        gutter = self.gutter + sum(len(text) for text, _ in prefix)
        return TextRow(
            joined_runs([*prefix, *self.runs]),
            gutter=gutter,
            glue=self.glue,
            code=self.code,
            place=self.place,
            copied=self._copied,
        )


def painted(runs: Iterable[Run], width: int, base: Style) -> Strip:
    """Runs as a strip of exactly this width."""
    segments = [Segment(text, style) for text, style in joined_runs(runs)]
    cells = sum(cell_len(segment.text) for segment in segments)
    if cells < width:
        if segments and segments[-1].style == base:
            segments[-1] = Segment(segments[-1].text + " " * (width - cells), base)
        else:
            segments.append(Segment(" " * (width - cells), base))
        return Strip(segments, width)
    return Strip(segments, cells).adjust_cell_length(width, base)


def prose_rows(runs: Sequence[Run], width: int) -> list[TextRow]:
    """A line of text, wrapped at its words."""
    line = joined_runs(runs)
    text = "".join(piece for piece, _ in line)
    return _wrapped(line, text, word_cuts(text, width))


def code_rows(runs: Sequence[Run], width: int, code: str | None = None) -> list[TextRow]:
    """A line of code or of output, wrapped where the row ends."""
    line = joined_runs(runs)
    text = "".join(piece for piece, _ in line)
    return _wrapped(line, text, hard_cuts(text, width), code)


def _wrapped(line: Sequence[Run], text: str, cuts: Sequence[tuple[int, int]], code: str | None = None) -> list[TextRow]:
    if len(cuts) <= 1:
        return [TextRow(line, code=code)]
    glues = [None, *(text[before[1] : after[0]] for before, after in pairwise(cuts))]
    return [TextRow(row, glue=glue, code=code) for row, glue in zip(cut_runs(line, cuts), glues, strict=True)]


def plain_rows(text: str, width: int, style: Style) -> list[TextRow]:
    """A text as it is, wrapped at its words."""
    rows: list[TextRow] = []
    for line in text.split("\n"):
        rows += prose_rows([(without_tabs(bounded(line)), style)], width)
    return rows


def output_rows(text: str, width: int, style: Style) -> list[TextRow]:
    """The output of a program as it is, wrapped where the row ends."""
    rows: list[TextRow] = []
    for line in text.split("\n"):
        rows += code_rows([(without_tabs(bounded(line)), style)], width)
    return rows


def behind(rows: Iterable[TextRow], first: Sequence[Run], others: Sequence[Run] | None = None) -> list[TextRow]:
    """The rows behind a drawing: one for the first row and, if it is another, one for those below."""
    below = first if others is None else others
    return [row.indented(first if number == 0 else below) for number, row in enumerate(rows)]


def blanks(count: int, palette: Palette) -> list[Run]:
    """So many blank cells as the beginning of a row."""
    return [(" " * count, palette.base)]
