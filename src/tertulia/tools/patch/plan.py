"""The plan of a patch: the old and new content of every file, computed before anything is written."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.tools.patch.match import WorkBudget, apply_chunks
from tertulia.tools.patch.replacement import InsertText, ReplaceText, WriteFile, inserted, replaced, written
from tertulia.tools.patch.text import AddFile, DeleteFile, Hunk, UpdateFile

FileChange = Hunk | ReplaceText | WriteFile | InsertText
"""A change of one file, whatever tool asks for it."""

MAX_WRITTEN = 64 * 1024 * 1024
"""Bytes of all new contents together."""

Read = Callable[[str], bytes | None]
"""The content of a file; None where there is none."""


class PlannedChange(msgspec.Struct, frozen=True):
    """A file that the patch changes: its old and new content."""

    path: str
    old: bytes | None
    """The content that the file must have when it is written; None: there must be no file."""
    new: bytes | None
    """None where the file is removed."""
    like: str | None = None
    """The file whose permissions a new one gets."""


class PatchPlan(msgspec.Struct, frozen=True):
    """All changes of a patch, to be made as a whole or not at all."""

    changes: tuple[PlannedChange, ...]
    summary: tuple[tuple[Literal["A", "M", "D"], str], ...]
    """What each hunk did, in the patch's order."""

    def for_disk(self) -> dict[str, Any]:
        """The request that `disk_program` carries out."""
        return {"verb": "apply", "changes": [_for_disk(change) for change in self.changes]}


def _for_disk(change: PlannedChange) -> dict[str, str | None]:
    return {
        "path": change.path,
        "old": None if change.old is None else hashlib.sha256(change.old).hexdigest(),
        "new": None if change.new is None else base64.b64encode(change.new).decode(),
        "like": change.like,
    }


def touched_paths(hunks: Iterable[FileChange]) -> list[str]:
    """Every path of a patch once, in order. Refuses two paths that some file systems treat as the same file."""
    paths: dict[str, None] = {}
    spelled: dict[str, str] = {}
    for hunk in hunks:
        paths[hunk.path] = None
        if isinstance(hunk, UpdateFile) and hunk.move_to is not None:
            paths[hunk.move_to] = None
    for path in paths:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            part = "/".join(parts[:count])
            other = spelled.setdefault(_same_on_some_disks(part), part)
            if other != part:
                raise InvalidParamsError(f"invalid patch: '{other}' and '{part}' are the same on some disks; use one")
    return list(paths)


def _same_on_some_disks(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def make_plan(hunks: Sequence[FileChange], read: Read, effort: WorkBudget | None = None) -> PatchPlan:
    """Apply the patch in memory. A file may be named by several hunks; each sees the result of those before it.

    `effort` bounds the work: LimitError as soon as it is spent or stopped.
    """
    effort = effort or WorkBudget()
    before = {path: read(path) for path in touched_paths(hunks)}
    after = dict(before)
    like: dict[str, str] = {}
    summary: list[tuple[Literal["A", "M", "D"], str]] = []
    for hunk in hunks:
        match hunk:
            case UpdateFile():
                new = _update(hunk, _existing(after, hunk, "update"), effort)
                target = hunk.move_to or hunk.path
                after[hunk.path] = None
                after[target] = new
                like[target] = like.get(hunk.path, hunk.path)
                summary.append(("M", target))
            case _:
                letter, after[hunk.path] = _content(hunk, after, effort)
                summary.append((letter, hunk.path))
    written = sum(len(content) for content in after.values() if content is not None)
    if written > MAX_WRITTEN:
        raise LimitError(f"the patch would write {written:,} bytes, and at most {MAX_WRITTEN:,} are written; split it")
    changes = [
        PlannedChange(path, old, after[path], like.get(path)) for path, old in before.items() if old != after[path]
    ]
    return PatchPlan(tuple(changes), tuple(summary))


def _content(
    change: AddFile | DeleteFile | ReplaceText | WriteFile | InsertText,
    files: dict[str, bytes | None],
    effort: WorkBudget,
) -> tuple[Literal["A", "M", "D"], bytes | None]:
    """(what is done to the file, its new content or None where it is removed)."""
    match change:
        case AddFile():
            return "A", change.content.encode()
        case DeleteFile():
            _existing(files, change, "delete")
            return "D", None
        case ReplaceText():
            return "M", replaced(change, _there(files, change.path), effort)
        case InsertText():
            return "M", inserted(change, _there(files, change.path))
        case WriteFile():
            old = files[change.path]
            return "A" if old is None else "M", written(change, old)


def _there(files: dict[str, bytes | None], path: str) -> bytes:
    content = files[path]
    if content is None:
        raise InvalidParamsError(f"there is no file {path}; nothing was changed")
    return content


def _existing(files: dict[str, bytes | None], hunk: DeleteFile | UpdateFile, act: str) -> bytes:
    content = files[hunk.path]
    if content is None:
        raise InvalidParamsError(
            f"Failed to read file to {act} {hunk.path}: there is none (line {hunk.line_number} of the patch)"
        )
    return content


def _update(hunk: UpdateFile, old: bytes, effort: WorkBudget) -> bytes:
    if not hunk.chunks:
        return old
    if b"\0" in old:
        raise InvalidParamsError(f"{hunk.path} is a binary file (line {hunk.line_number} of the patch)")
    # Bytes that are not UTF-8 are preserved; a patch itself cannot contain them.
    text = old.decode("utf-8", "surrogateescape")
    return apply_chunks(hunk.path, text, hunk.chunks, effort).encode("utf-8", "surrogateescape")


def count_lines(content: bytes | None) -> int:
    """How many lines a file has; 0 where there is no file."""
    if not content:
        return 0
    return content.count(b"\n") + (not content.endswith(b"\n"))
