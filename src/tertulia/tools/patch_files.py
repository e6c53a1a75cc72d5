"""The files of a patch as a person is asked about them: what becomes of each, and how many lines come and go."""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.protocol.tool_events import ApprovalFile
from tertulia.tools.patch_plan import Plan
from tertulia.tools.patch_text import AddFile, DeleteFile, Hunk, UpdateFile


def patch_files(hunks: Sequence[Hunk], plan: Plan) -> tuple[ApprovalFile, ...]:
    """One for each hunk, in the patch's order; `plan` knows what is there now."""
    there = {change.path: change.old for change in plan.changes}
    return tuple(_described(hunk, there.get(hunk.path)) for hunk in hunks)


def lines_of(content: bytes | None) -> int:
    """How many lines a file has; none where there is no file."""
    if not content:
        return 0
    return content.count(b"\n") + (not content.endswith(b"\n"))


def _described(hunk: Hunk, there: bytes | None) -> ApprovalFile:
    match hunk:
        case AddFile():
            return ApprovalFile(hunk.path, "add", lines_of(hunk.content.encode()), lines_of(there))
        case DeleteFile():
            return ApprovalFile(hunk.path, "delete", 0, lines_of(there))
        case UpdateFile():
            marks = [mark for chunk in hunk.chunks for mark, _ in chunk.lines]
            moved = f"{hunk.path} → {hunk.move_to}" if hunk.move_to else hunk.path
            kind = "move" if hunk.move_to else "update"
            return ApprovalFile(moved, kind, marks.count("+"), marks.count("-"))
