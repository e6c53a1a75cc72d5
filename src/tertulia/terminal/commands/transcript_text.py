"""A transcript as plain text, for a file or the scrollback: no marks of the screen, nothing cut."""

from __future__ import annotations

from collections.abc import Iterator

from tertulia.policy.display_text import printable
from tertulia.view import cells as c
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import headline


def transcript_text(view: ConversationView) -> str:
    """All that a conversation holds, one paragraph a cell."""
    return "\n\n".join(printable(text) for cell in view.cells for text in _texts(cell) if text.strip())


def _texts(cell: c.Cell) -> Iterator[str]:
    match cell:
        case c.UserCell():
            yield "\n".join(f"> {line}" for line in cell.text.split("\n"))
        case c.AssistantCell() | c.ReasoningCell() | c.NoticeCell():
            yield cell.text
        case c.ToolCallCell() | c.CommandCell() | c.PatchCell() | c.HandoffCell():
            yield headline(cell)
            yield "\n".join(f"    {line}" for line in cell.text.split("\n")) if cell.text else ""
        case c.PlanCell():
            yield "\n".join(f"- [{'x' if step.status == 'completed' else ' '}] {step.step}" for step in cell.steps)
        case c.ApprovalCell():
            answer = "no answer yet" if cell.answer is None else cell.answer.decision
            yield f"{cell.request.title}: {answer}\n{cell.request.detail}"
        case c.ElicitationCell():
            yield f"{cell.request.message}: {cell.action or 'no answer yet'}"
        case c.TaskEndCell():
            yield "" if cell.status == "completed" else f"({cell.status})"
        case c.GapCell():
            yield f"(events {cell.from_seq} to {cell.to_seq} were missed)"
