"""What a person and an event are told of changes: the files, how many lines, and the whole of it as a patch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tertulia.protocol.tool_events import ApprovalFile, PatchChange
from tertulia.tools.patch.line_diff import DiffBlock, line_diff
from tertulia.tools.patch.plan import FileChange, PatchPlan, PlannedChange, count_lines
from tertulia.tools.patch.replacement import FileText, InsertText, ReplaceText, WriteFile
from tertulia.tools.patch.text import BEGIN, END, AddFile, DeleteFile, Hunk, UpdateFile

_CONTEXT = 3


def described_change(change: FileChange) -> PatchChange:
    """What the change itself says. The length of a deleted file is not known: no file has been read yet."""
    match change:
        case AddFile() | WriteFile():
            return {"kind": "add", "path": change.path, "added": count_lines(change.content.encode())}
        case DeleteFile():
            return {"kind": "delete", "path": change.path}
        case InsertText():
            return {"kind": "update", "path": change.path, "added": count_lines(change.text.encode()), "removed": 0}
        case ReplaceText():
            counts = [_changed_lines(one.old, one.new) for one in change.replacements]
            added, removed = (sum(column) for column in zip(*counts, strict=True))
            return {"kind": "update", "path": change.path, "added": added, "removed": removed}
        case UpdateFile():
            marks = [mark for chunk in change.chunks for mark, _ in chunk.lines]
            found: PatchChange = {"kind": "update", "path": change.path}
            if change.move_to:
                found["move_to"] = change.move_to
            return {**found, "added": marks.count("+"), "removed": marks.count("-")}


def _changed_lines(old: str, new: str) -> tuple[int, int]:
    """(lines that come, lines that go), without those that both begin and end with."""
    before, after = old.split("\n"), new.split("\n")
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(before), len(after)) if same is None else same
    left, come = before[same:], after[same:]
    while left and come and left[-1] == come[-1]:
        left.pop()
        come.pop()
    return len(come), len(left)


def approval_files(changes: Sequence[FileChange], plan: PatchPlan) -> tuple[ApprovalFile, ...]:
    """What an approver is shown of each hunk, in the patch's order; `plan` has the present contents."""
    there = {change.path: change.old for change in plan.changes}
    hunks = (change for change in changes if isinstance(change, Hunk))
    return tuple(_approval_file(hunk, there.get(hunk.path)) for hunk in hunks)


def _approval_file(hunk: Hunk, there: bytes | None) -> ApprovalFile:
    match hunk:
        case AddFile():
            return ApprovalFile(hunk.path, "add", count_lines(hunk.content.encode()), count_lines(there))
        case DeleteFile():
            return ApprovalFile(hunk.path, "delete", 0, count_lines(there))
        case UpdateFile():
            marks = [mark for chunk in hunk.chunks for mark, _ in chunk.lines]
            moved = f"{hunk.path} → {hunk.move_to}" if hunk.move_to else hunk.path
            kind = "move" if hunk.move_to else "update"
            return ApprovalFile(moved, kind, marks.count("+"), marks.count("-"))


def patch_text(plan: PatchPlan) -> tuple[str, tuple[ApprovalFile, ...]]:
    """(the plan as the text of a patch, what it does to each file). It is for reading: it is not applied again."""
    lines = [BEGIN]
    files: list[ApprovalFile] = []
    for change in plan.changes:
        before, after = _line_pair(change)
        if change.old is None:
            lines += [f"*** Add File: {change.path}", *(f"+{line}" for line in after)]
            files.append(ApprovalFile(change.path, "add", len(after), 0))
            continue
        blocks = line_diff(before, after)
        lines += [f"*** Update File: {change.path}", *_update_lines(before, after, blocks, change)]
        added, removed = (sum(end - begin for begin, end in spans) for spans in _spans(blocks))
        files.append(ApprovalFile(change.path, "update", added, removed))
    return "\n".join([*lines, END]), tuple(files)


def _spans(blocks: Sequence[DiffBlock]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return [(block[2], block[3]) for block in blocks], [(block[0], block[1]) for block in blocks]


def _update_lines(
    before: Sequence[str], after: Sequence[str], blocks: Sequence[DiffBlock], change: PlannedChange
) -> Iterator[str]:
    """The changed places with the lines around them."""
    if not blocks:
        yield "@@ only line ends or the end of the last line change"
    shown = 0
    for number, (begin, end, new_begin, new_end) in enumerate(blocks):
        start = max(begin - _CONTEXT, shown)
        if number == 0 or start > shown:
            yield f"@@ -{start + 1} +{new_begin - (begin - start) + 1} @@"
        yield from (f" {line}" for line in before[start:begin])
        yield from (f"-{line}" for line in before[begin:end])
        yield from (f"+{line}" for line in after[new_begin:new_end])
        following = blocks[number + 1][0] if number + 1 < len(blocks) else len(before)
        shown = min(end + _CONTEXT, following)
        yield from (f" {line}" for line in before[end:shown])
    if blocks and _has_end(change.old) != _has_end(change.new):
        yield f"@@ the last line {'gets' if _has_end(change.new) else 'loses'} its end"


def _has_end(content: bytes | None) -> bool:
    file = FileText.decode(content or b"")
    return file is None or not file.text or file.text.endswith("\n")


def _line_pair(change: PlannedChange) -> tuple[list[str], list[str]]:
    """The lines before and after; the carriage returns of a file that has them everywhere are left out."""
    before, after = _lines(change.old), _lines(change.new)
    if before and all(line.endswith("\r") for lines in (before, after) for line in lines[:-1]):
        before, after = ([line.removesuffix("\r") for line in lines] for lines in (before, after))
    return before, after


def _lines(content: bytes | None) -> list[str]:
    file = FileText.decode(content or b"")
    if file is None:
        return [f"[a binary file of {len(content or b''):,} bytes]"]
    # Bytes that are no text are told from each other, and from the sign that stands for them elsewhere.
    lines = file.text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").split("\n")
    return lines if lines[-1] else lines[:-1]
