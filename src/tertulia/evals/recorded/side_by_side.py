"""Two transcripts of the same messages, message by message, and what each has cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from tertulia.evals.recorded.first_files import FileChange
from tertulia.view.board import Board
from tertulia.view.cells import (
    AssistantCell,
    BaseCallCell,
    Cell,
    CommandCell,
    HandoffCell,
    NoticeCell,
    PatchCell,
    TaskEndCell,
    ToolCallCell,
    UserCell,
)
from tertulia.view.lanes import seconds
from tertulia.view.text import end_text, headline

LineKind = Literal["answer", "call", "failed", "note", "end"]


class TranscriptLine(msgspec.Struct, frozen=True):
    """Something that was said or done: an answer, a call in one line, one that failed, a notice, a bad end."""

    kind: LineKind
    text: str


class SpentTotals(msgspec.Struct, frozen=True):
    """What a side has used."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: float | None
    """None where the price is not known."""
    calls: int
    failed_calls: int
    duration_s: float
    """How long its tasks took together."""


class Side(msgspec.Struct, frozen=True):
    """One of the two sessions, as it is shown."""

    title: str
    session_id: str
    answers: tuple[tuple[TranscriptLine, ...], ...]
    """For each message what came of it; of messages that were not sent there is nothing."""
    spent: SpentTotals
    changes: tuple[FileChange, ...] = ()
    note: str = ""
    """Why it ended early, or what cannot be said of it."""


class SideBySide(msgspec.Struct, frozen=True):
    """The messages, and what both models made of them."""

    messages: tuple[str, ...]
    left: Side
    right: Side


def answers_of(board: Board, root_id: str, count: int) -> tuple[tuple[TranscriptLine, ...], ...]:
    """What came of each of so many messages to the root."""
    found: list[list[TranscriptLine]] = []
    for cell in _root_cells(board, root_id):
        if isinstance(cell, UserCell) and not cell.delegated:
            found.append([])
        elif found and (line := _line(cell)) is not None:
            found[-1].append(line)
    # The oldest cells of a very long session are not kept.
    missing = [list[TranscriptLine]() for _ in range(max(count - len(found), 0))] if _is_cut(board, root_id) else []
    return tuple(map(tuple, [*missing, *found][:count]))


def spent_of(board: Board, root_id: str) -> SpentTotals:
    """What all conversations of a session have used."""
    calls = [cell for view in board.conversations.values() for cell in view.cells if isinstance(cell, BaseCallCell)]
    used, began = 0.0, None
    for cell in _root_cells(board, root_id):
        if isinstance(cell, UserCell) and began is None:
            began = cell.ts
        elif isinstance(cell, TaskEndCell) and began is not None:
            used, began = used + seconds(cell.ts) - seconds(began), None
    return SpentTotals(
        input_tokens=board.input_tokens,
        cached_input_tokens=board.cached_input_tokens,
        output_tokens=board.output_tokens,
        cost_usd=board.cost_usd,
        calls=len(calls),
        failed_calls=sum(cell.success is False for cell in calls),
        duration_s=round(max(used, 0.0), 3),
    )


def _root_cells(board: Board, root_id: str) -> Sequence[Cell]:
    for view in board.conversations.values():
        if view.id == root_id:
            return view.cells
    return ()


def _is_cut(board: Board, root_id: str) -> bool:
    return any(view.dropped for view in board.conversations.values() if view.id == root_id)


def _line(cell: Cell) -> TranscriptLine | None:
    match cell:
        case AssistantCell():
            return TranscriptLine("answer", cell.text)
        case ToolCallCell() | CommandCell() | PatchCell() | HandoffCell():
            return TranscriptLine("failed" if cell.success is False or cell.lost else "call", headline(cell))
        case NoticeCell(level="warning" | "error"):
            return TranscriptLine("note", cell.text)
        case TaskEndCell() if cell.status != "completed":
            return TranscriptLine("end", end_text(cell))
        case _:
            return None
