"""The selection in a transcript, and the text that is copied: as it was written, without drawing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rich.cells import cell_len, split_graphemes

from tertulia.terminal.drawing.rows import Place, TextRow
from tertulia.terminal.transcript.document import Document
from tertulia.terminal.transcript.viewport import Position
from tertulia.view import cells as c
from tertulia.view.text import NameOf, answer_text, call_output, command_text, end_text, headline

Point = tuple[int, int, int]
"""A cell, a row in it, and a column of that."""

_LOCATION = re.compile(r'File "([^"]+)", line (\d+)|([\w./~+-]*[\w~+-]\.\w+)(?::(\d+))?')
"""How programs name a place in a file: tracebacks, compilers, grep, a path alone."""


@dataclass(frozen=True, slots=True)
class SelectedRange:
    """The range between two points, in any order; `whole_rows`: both rows are selected in full."""

    anchor: Point
    head: Point
    whole_rows: bool = False

    @property
    def first(self) -> Point:
        """The point that is further up."""
        return min(self.anchor, self.head)

    @property
    def last(self) -> Point:
        """The point that is further down."""
        return max(self.anchor, self.head)

    def span(self, position: Position) -> tuple[int, int | None] | None:
        """The selected columns of a row, up to its end where the second is None; None: nothing is selected."""
        if not self.first[:2] <= position <= self.last[:2]:
            return None
        if self.whole_rows:
            return 0, None
        start = self.first[2] if position == self.first[:2] else 0
        return start, (self.last[2] + 1 if position == self.last[:2] else None)


def selected_text(document: Document, selected: SelectedRange) -> str:
    """The text of a selection: wrapped lines are joined again, and the drawing at the side is left out."""
    pieces: list[str] = []
    for cell in range(selected.first[0], min(selected.last[0] + 1, len(document))):
        for number, row in enumerate(document.rows(cell)):
            span = selected.span((cell, number))
            if span is None:
                continue
            text = row.copied_text if span == (0, None) else _columns(row, *span)
            if pieces and row.glue is not None:
                pieces.append(row.glue + text)
            else:
                pieces.append(f"\n{text}" if pieces else text)
    return "".join(pieces)


def _columns(row: TextRow, start: int, end: int | None) -> str:
    """A part of a row by its columns, without the drawing before its text."""
    text = row.text
    first = max(character_at(text, start), row.gutter)
    last = len(text) if end is None else character_at(text, end)
    return text[first:last].rstrip()


def character_at(text: str, column: int) -> int:
    """The index of the character that begins in a column, or of the next one."""
    if text.isascii():
        return min(column, len(text))
    cells = 0
    for start, _, size in split_graphemes(text)[0]:
        if cells >= column:
            return start
        cells += size
    return len(text)


def written_text(cell: c.Cell, name: NameOf) -> str:
    """The text of a cell as it was written, for copying and searching."""
    match cell:
        case c.UserCell() | c.AssistantCell() | c.ReasoningCell() | c.NoticeCell():
            return cell.text
        case c.CommandCell():
            return f"$ {command_text(cell.command)}\n{cell.text}".rstrip()
        case c.PatchCell():
            patch = cell.arguments if isinstance(cell.arguments, str) else ""
            return patch or headline(cell, name)
        case c.HandoffCell() | c.ToolCallCell():
            return f"{headline(cell, name)}\n{call_output(cell)}".rstrip()
        case c.PlanCell():
            return "\n".join(f"[{'x' if step.status == 'completed' else ' '}] {step.step}" for step in cell.steps)
        case c.ApprovalCell():
            answer = "" if cell.answer is None else answer_text(cell.answer)
            return "\n".join(filter(None, (cell.request.title, cell.request.detail, answer)))
        case c.ElicitationCell():
            return cell.request.message
        case c.TaskEndCell():
            return end_text(cell)
        case c.GapCell():
            return f"events {cell.from_seq} to {cell.to_seq} are missing"


def place_of(row: TextRow) -> Place | None:
    """The file and line that a row shows or names."""
    if row.place is not None:
        return row.place
    for found in _LOCATION.finditer(row.copied_text):
        path, line = found[1] or found[3], found[2] or found[4]
        if line or "/" in path:
            return path, int(line or 1)
    return None


def row_width(row: TextRow) -> int:
    """The cells that the text of a row takes."""
    return sum(cell_len(text) for text, _ in row.runs)
