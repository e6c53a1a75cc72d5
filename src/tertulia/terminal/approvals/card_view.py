"""Draws the card of a question: a bar on the left, and as much of the text as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.geometry import Region
from textual.strip import Strip

from tertulia.terminal.approvals.card import (
    PanelQuestion,
    Row,
    body_rows,
    fact_rows,
    head_row,
    hint_rows,
    key_hints,
)
from tertulia.terminal.approvals.question_queue import QuestionQueue
from tertulia.terminal.panels.lines import line
from tertulia.terminal.rows_view import RowsView
from tertulia.view.board_state import BoardState

_BAR = ("▌ ", "yellow")
_EDGE = 2
_LEAST_BODY = 3
_LEAST_HINTS = 2
KeysFor = Literal["panel", "entry", "others"]
"""What the keys pressed now are for; `entry`: the field in which a sentence is typed."""


class CardView(RowsView):
    """The rows of one card. Drawn when the question changes; each second only the first row is drawn again."""

    def __init__(self) -> None:
        super().__init__()
        self._hints: list[tuple[str, str]] = []
        self._first_hint = 0

    def draw(
        self, queue: QuestionQueue, board: BoardState, now: float, *, width: int, most_rows: int, keys: KeysFor
    ) -> None:
        """Draw the question in view in at most so many rows. `keys`: what the keys that are pressed now are for."""
        question = queue.current
        if question is None:
            farewell = queue.farewell(now)
            self.put([line([_BAR, (farewell, "dim")], width)] if farewell else [])
            return
        state, room = queue.state(), max(width - _EDGE, 1)
        away = [("F6", "to answer:")] if keys == "others" else []
        self._hints = [] if keys == "entry" else [*away, *key_hints(question, board, state)]
        style = "dim" if away else "bold"
        hints = hint_rows(self._hints, room, style=style)
        if len(hints) > max(most_rows // 2, _LEAST_HINTS):
            # Where the composer would be pushed off the screen, the keys alone have to do; F1 says what they mean.
            self._hints = [(key, "") for key, _ in self._hints]
            hints = hint_rows(self._hints, room, style=style)
        notes: list[Row] = [[(text, style)] for text, style in _notes(queue, now) if text]
        around = len(notes) + len(hints) + 1
        facts = _cut(fact_rows(question, room), max(most_rows - around - _LEAST_BODY, 1), can_open=True)
        rest = len(facts) + len(notes) + len(hints) + 1
        body = body_rows(question, state, queue.form, room)
        shown = _cut(body, max(most_rows - rest, _LEAST_BODY), can_open=queue.form is None)
        rows = [*shown, *facts, *notes, *hints]
        self._first_hint = 1 + len(rows) - len(hints)
        self.put([self._head(question, queue, board, now, width), *(line([_BAR, *row], width) for row in rows)])

    def tick(self, queue: QuestionQueue, board: BoardState, now: float, width: int) -> None:
        """Draw the time that is left again, and nothing else."""
        if queue.current is not None and self.strips:
            self.strips[0] = self._head(queue.current, queue, board, now, width)
            self.refresh(Region(0, 0, width, 1))

    def hint_at(self, x: int, y: int, width: int) -> str | None:
        """The key whose hint stands there."""
        rows = hint_rows(self._hints, max(width - _EDGE, 1))
        row = y - self._first_hint
        at = _EDGE
        for index, (text, style) in enumerate(rows[row] if 0 <= row < len(rows) else []):
            at += len(text)
            if x < at:
                return text if style else rows[row][index - 1][0]
        return None

    def _head(self, question: PanelQuestion, queue: QuestionQueue, board: BoardState, now: float, width: int) -> Strip:
        who, right = head_row(question, board, queue.state(), now)
        return line([_BAR, *who], width, right=right)


def _notes(queue: QuestionQueue, now: float) -> Sequence[tuple[str, str]]:
    missing = "the rest of it is being read; it can be denied, and allowed when all of it is here"
    return [
        (queue.farewell(now), "dim"),
        (missing if queue.misses_text() else "", "bold yellow"),
        (queue.note, "bold"),
    ]


def _cut(rows: list[Row], most: int, *, can_open: bool) -> list[Row]:
    """The first rows that fit, with a last row that counts the others."""
    if len(rows) <= most:
        return rows
    more = len(rows) - most + 1
    sign = f"… {more:,} more rows{', d shows them all' if can_open else ''}"
    return [*rows[: most - 1], [(sign, "bold yellow")]]
