"""Draws cells: turns each kind of cell into its rows."""

from __future__ import annotations

from typing import assert_never

from rich.style import Style

from tertulia.policy.display_text import printable
from tertulia.terminal.drawing.calls import call_rows
from tertulia.terminal.drawing.folding import Folded, fold_rows
from tertulia.terminal.drawing.growing import GrowingMarkdown
from tertulia.terminal.drawing.markdown import PROSE_WIDTH, markdown_rows
from tertulia.terminal.drawing.palette import Palette, Role
from tertulia.terminal.drawing.rows import TextRow, behind, blanks, plain_rows, prose_rows
from tertulia.terminal.drawing.wrapping import Run
from tertulia.view import cells as c
from tertulia.view.text import NameOf, answer_text, attachment_text, because_text, end_text, message_heading, short_name

INDENT = 3
"""Cells before the text of a cell: the mark of the cursor, the bar of a person's text, and a blank."""
REASONING_ROWS = 3
"""Rows of reasoning that are shown where it is folded."""


class CellDrawer:
    """Draws the cells of one transcript for one width and one palette."""

    __slots__ = ("_growing", "_quiet", "palette", "width")

    def __init__(self, width: int, palette: Palette) -> None:
        self.width = max(4, width)
        self.palette = palette
        self._quiet = palette.subdued()
        self._growing: dict[str, GrowingMarkdown] = {}
        """Texts that are still being streamed, by the key of their cell."""

    def draw(
        self, cell: c.Cell, *, unfolded: bool = False, name: NameOf = short_name, woven: bool = False
    ) -> list[TextRow]:
        """The rows of a cell. `woven`: cells of other conversations are shown beside it."""
        palette, width = self.palette, self.width - INDENT
        match cell:
            case c.UserCell():
                return self._user_rows(cell, name)
            case c.AssistantCell():
                return self._indented(self._markdown(cell, width, palette))
            case c.ReasoningCell():
                return self._indented(self._reasoning_rows(cell, unfolded=unfolded))
            case c.ToolCallCell() | c.CommandCell() | c.PatchCell() | c.HandoffCell():
                return self._indented(call_rows(cell, width, palette, name, unfolded=unfolded, woven=woven))
            case c.PlanCell():
                return self._indented(_plan_rows(cell, width, palette))
            case c.ApprovalCell() | c.ElicitationCell():
                return self._indented(_question_rows(cell, width, palette))
            case c.NoticeCell():
                return self._indented(_notice_rows(cell, width, palette))
            case c.TaskEndCell():
                return self._indented(_end_rows(cell, width, palette))
            case c.GapCell():
                lost = (
                    f"events {cell.from_seq:,} to {cell.to_seq:,} are missing here: this screen was too slow for them"
                )
                return self._indented(_marked(palette.marks.warning, "warning", lost, width, palette))
            case _:
                assert_never(cell)

    def _indented(self, rows: list[TextRow]) -> list[TextRow]:
        return behind(rows, blanks(INDENT, self.palette))

    def _user_rows(self, cell: c.UserCell, name: NameOf) -> list[TextRow]:
        palette = self.palette
        width = min(self.width - INDENT, PROSE_WIDTH)
        rows = plain_rows(printable(cell.text), width, palette["user"])
        if (heading := message_heading(cell, name)) is not None:
            rows = [*prose_rows([(printable(heading), palette["name"])], width), *rows]
        for attachment in cell.attachments:
            rows += prose_rows([(printable(attachment_text(attachment)), palette["dim"])], width)
        bar = palette["name"] if cell.delegated else palette["bar"]
        return behind(rows, [(" ", palette.base), (palette.marks.bar, bar), (" ", palette.base)])

    def _markdown(self, cell: c.AssistantCell | c.ReasoningCell, width: int, palette: Palette) -> list[TextRow]:
        if cell.done:
            self._growing.pop(cell.key, None)
            rows = markdown_rows(printable(cell.text), width, palette)
        else:
            growing = self._growing.get(cell.key)
            if growing is None:
                growing = self._growing[cell.key] = GrowingMarkdown(width, palette)
            rows = growing.draw(cell.text)
        if cell.missing:
            lost = f"{cell.missing:,} characters are missing here; the whole text follows"
            rows = [*rows, *prose_rows([(lost, palette["warning"])], width)]
        return rows

    def forget(self, key: str) -> None:
        """Drop the unfinished drawing of a cell that is no longer shown; it is drawn again when it comes back."""
        self._growing.pop(key, None)

    def _reasoning_rows(self, cell: c.ReasoningCell, *, unfolded: bool) -> list[TextRow]:
        quiet, marks = self._quiet, self.palette.marks
        rows = self._markdown(cell, self.width - INDENT - 2, quiet)
        shown = Folded(head=REASONING_ROWS) if cell.done else Folded(tail=REASONING_ROWS)
        if not unfolded:
            rows = fold_rows([row for row in rows if row.text.strip()], shown, quiet)
        prefix: list[Run] = [(f"{marks.thought} ", quiet["text"])]
        return behind(rows, prefix, blanks(2, quiet))


def _marked(
    mark: str, role: Role, text: str, width: int, palette: Palette, style: Style | None = None
) -> list[TextRow]:
    """A sentence behind a mark."""
    rows: list[TextRow] = []
    for line in printable(text).split("\n"):
        rows += prose_rows([(line, palette[role] if style is None else style)], min(width, PROSE_WIDTH) - len(mark) - 1)
    return behind(rows, [(f"{mark} ", palette[role])], blanks(len(mark) + 1, palette))


def _plan_rows(cell: c.PlanCell, width: int, palette: Palette) -> list[TextRow]:
    marks = palette.marks
    rows = _marked(marks.plan, "call", "plan", width, palette)
    if cell.explanation:
        rows += behind(_marked("", "dim", cell.explanation, width - 1, palette), blanks(1, palette))
    looks: dict[str, tuple[str, Role, Role]] = {
        "completed": (marks.yes, "good", "dim"),
        "in_progress": (marks.step_now, "warning", "strong"),
        "pending": (marks.step_open, "dim", "text"),
    }
    for step in cell.steps:
        mark, role, text_role = looks[step.status]
        rows += behind(_marked(mark, role, step.step, width - 2, palette, palette[text_role]), blanks(2, palette))
    return rows


def _question_rows(cell: c.Question, width: int, palette: Palette) -> list[TextRow]:
    marks = palette.marks
    because = None
    if isinstance(cell, c.ElicitationCell):
        question = f"{cell.request.server} asks: {cell.request.message}"
        answers = {"accept": "answered", "decline": "declined", "cancel": "cancelled"}
        answer = None if cell.action is None else answers[cell.action]
        good = cell.action == "accept"
    else:
        question, because = cell.request.title, cell.request.because
        answer = None if cell.answer is None else answer_text(cell.answer)
        good = cell.answer is not None and cell.answer.decision == "allow"
    if answer is None:
        strong = palette.mix(palette["warning"], "strong")
        rows = _marked(marks.question, "warning", question, width, palette, strong)
    else:
        rows = _marked(marks.question, "dim", question, width, palette)
    if because is not None and not good:
        rows += behind(prose_rows([(printable(because_text(because)), palette["dim"])], width - 2), blanks(2, palette))
    if answer is None:
        return rows
    mark, role = (marks.yes, "good") if good else (marks.failed, "bad")
    answered = _marked(mark, role, answer, width - 2, palette, palette["dim" if good else "bad"])
    return [*rows, *behind(answered, blanks(2, palette))]


def _notice_rows(cell: c.NoticeCell, width: int, palette: Palette) -> list[TextRow]:
    marks = palette.marks
    text = cell.text if cell.code is None else f"{cell.text} ({cell.code})"
    match cell.level:
        case "note":
            return _marked(marks.notice, "dim", text, width, palette)
        case "warning":
            return _marked(marks.warning, "warning", text, width, palette)
        case "error":
            return _marked(marks.failed, "bad", text, width, palette)


def _end_rows(cell: c.TaskEndCell, width: int, palette: Palette) -> list[TextRow]:
    if cell.status == "completed":
        return _marked(palette.marks.yes, "dim", end_text(cell), width, palette)
    role: Role = "bad" if cell.status in ("failed", "crash") else "warning"
    return _marked(palette.marks.failed, role, end_text(cell), width, palette)
