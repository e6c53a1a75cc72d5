"""Draws the calls of a model: tools, commands, patches and handoffs, with their outputs folded."""

from __future__ import annotations

from typing import Any, cast

from tertulia.policy.display_text import printable
from tertulia.terminal.drawing.diffs import DiffFile, counts, diff_rows, parse_diff
from tertulia.terminal.drawing.folding import Folded, fold_rows
from tertulia.terminal.drawing.markdown import PROSE_WIDTH
from tertulia.terminal.drawing.palette import Palette, Role
from tertulia.terminal.drawing.rows import TextRow, behind, blanks, output_rows, plain_rows, prose_rows
from tertulia.terminal.drawing.wrapping import Run
from tertulia.view import cells as c
from tertulia.view.text import NameOf, call_output, command_text, decider_text, duration, headline

OUTPUT_ROWS = 3
"""Rows that are shown of an output that succeeded; the others are folded away."""
FAILED_ROWS = 6
"""Last rows that are shown of an output that still runs or has failed."""
DIFF_ROWS = 12
MAX_DRAWN = 64 * 1024
"""Characters of an output that are drawn where it is folded; its lines are counted all the same."""


def call_rows(
    call: c.Call, width: int, palette: Palette, name: NameOf, *, unfolded: bool, woven: bool = False
) -> list[TextRow]:
    """A call as rows: its title, and what came of it.

    Args:
        call: What is drawn.
        width: Cells of the longest row.
        palette: What it is drawn with.
        name: Gives the names of conversations.
        unfolded: Draw all of its output.
        woven: The cells of other conversations are shown too, so an answer of one stands there.
    """
    match call:
        case c.CommandCell():
            title = printable(command_text(call.command)).split("\n")
            rows = _title_rows(call, [("$ ", palette["dim"]), (title[0], palette["call"])], width, palette)
            rows += behind(_script_rows(title[1:], width, palette, unfolded=unfolded), blanks(4, palette))
            return rows + _output(call, width, palette, unfolded=unfolded)
        case c.PatchCell():
            return _patch_rows(call, width, palette, unfolded=unfolded)
        case c.HandoffCell():
            rows = _title_rows(call, [(printable(headline(call, name)), palette["call"])], width, palette)
            if woven and not unfolded and call.success is not False:
                return rows
            return rows + _output(call, width, palette, unfolded=unfolded)
        case c.ToolCallCell():
            rows = _title_rows(call, [(printable(headline(call, name)), palette["call"])], width, palette)
            if not call.done and (call.message or call.progress is not None):
                rows += behind(plain_rows(_progress(call), max(1, width - 2), palette["dim"]), blanks(2, palette))
            return rows + _output(call, width, palette, unfolded=unfolded)


def _mark(call: c.Call, palette: Palette) -> Run:
    marks = palette.marks
    if not call.done:
        sign, role = (marks.asks, "name") if isinstance(call, c.HandoffCell) else (marks.running, "warning")
    elif call.success is False or call.lost or _exit_code(call):
        sign, role = marks.failed, "bad"
    else:
        sign, role = (marks.answered, "name") if isinstance(call, c.HandoffCell) else (marks.done, "good")
    return f"{sign} ", palette[cast("Role", role)]


def _exit_code(call: c.Call) -> int | None:
    return call.exit_code if isinstance(call, c.CommandCell) else None


def _title_rows(call: c.Call, title: list[Run], width: int, palette: Palette) -> list[TextRow]:
    mark = _mark(call, palette)
    rows = prose_rows([*title, *_remarks(call, palette)], max(1, min(width, PROSE_WIDTH + 20) - len(mark[0]) - 2))
    return behind(rows, [mark], blanks(len(mark[0]) + 2, palette))


def _remarks(call: c.Call, palette: Palette) -> list[Run]:
    """After the title: how long the call took, its exit code, and whether it still runs."""
    texts: list[str] = []
    if not call.done:
        texts.append("waits for the answer" if isinstance(call, c.HandoffCell) else "runs")
    elif call.duration_ms is not None:
        texts.append(duration(call.duration_ms / 1000))
    if code := _exit_code(call):
        texts.append(f"exit code {code}")
    elif call.done and call.success is False:
        texts.append("failed")
    if call.lost:
        texts.append("ended with its process, before it was done")
    if isinstance(call, c.CommandCell) and call.sandbox == "danger-full-access":
        texts.append("outside the sandbox")
    if call.allowed_by is not None and call.allowed_by.kind in ("grant", "callback"):
        texts.append(f"allowed by {printable(decider_text(call.allowed_by))}")
    return [(f"  {', '.join(texts)}", palette["dim"])] if texts else []


def _script_rows(lines: list[str], width: int, palette: Palette, *, unfolded: bool) -> list[TextRow]:
    """The further lines of a script."""
    if not lines:
        return []
    rows = output_rows("\n".join(lines), max(1, width - 4), palette["call"])
    return rows if unfolded else fold_rows(rows, Folded(head=OUTPUT_ROWS), palette)


def _output(call: c.Call, width: int, palette: Palette, *, unfolded: bool) -> list[TextRow]:
    text = call_output(call).rstrip()
    failed = bool(_exit_code(call)) or call.success is False or not call.done
    cut = getattr(call, "cut", 0)
    if not text and not cut:
        return []
    shown = Folded(tail=FAILED_ROWS) if failed else Folded(head=OUTPUT_ROWS)
    drawn = text if unfolded else _drawn_part(text, shown)
    left_out = text.count("\n") - drawn.count("\n")
    draw = plain_rows if isinstance(call, c.HandoffCell) else output_rows
    room = min(width, PROSE_WIDTH) if isinstance(call, c.HandoffCell) else width
    rows = draw(printable(drawn), max(1, room - 4), palette["dim"])
    if unfolded:
        rows = fold_rows(rows, Folded(head=len(rows)), palette, mark=True)
    else:
        rows = fold_rows(rows, shown, palette, mark=True, more=left_out)
    if call.truncated:
        rows.append(
            TextRow([(f"{palette.marks.output_end} the middle was cut out for the model", palette["dim"])], copied="")
        )
    return behind(rows, blanks(2, palette))


def _drawn_part(text: str, shown: Folded) -> str:
    """The end or beginning of an output that is drawn, so that a long one costs no more than a short one."""
    lines = 4 * (shown.head + shown.tail)
    if shown.tail:
        return "\n".join(text[-MAX_DRAWN:].rsplit("\n", lines)[-lines:])
    return "\n".join(text[:MAX_DRAWN].split("\n", lines)[:lines])


def _progress(call: c.ToolCallCell) -> str:
    amount = ""
    if call.progress is not None:
        amount = f"{call.progress:g}" if call.total is None else f"{call.progress:g} of {call.total:g}"
    return printable(": ".join(part for part in (amount, call.message) if part))


def _patch_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, dict):
        values = cast("dict[str, object]", arguments)
        texts = [value for key in ("input", "patch") if isinstance(value := values.get(key), str)]
        return texts[0] if texts else ""
    return ""


def _patch_rows(call: c.PatchCell, width: int, palette: Palette, *, unfolded: bool) -> list[TextRow]:
    files = parse_diff(printable(_patch_text(call.arguments)))
    if not files:
        files = [DiffFile(printable(change.get("path", "?")), change.get("kind", "update")) for change in call.changes]
    title: list[Run] = [("changes ", palette["call"])]
    for number, file in enumerate(files):
        title += [(", ", palette["dim"])] if number else []
        title += counts(file, palette)
    rows = _title_rows(call, title, width, palette)
    for row in rows:
        row.place = (files[0].path, 1) if files else None
    drawn = diff_rows(files, max(1, width - 2), palette)
    shown = drawn if unfolded else fold_rows(drawn, Folded(head=DIFF_ROWS), palette)
    rows += behind(shown, blanks(2, palette))
    if call.success is False:
        rows += behind(
            plain_rows(printable(call_output(call).rstrip()), max(1, width - 2), palette["bad"]), blanks(2, palette)
        )
    return rows
