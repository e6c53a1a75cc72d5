"""`/undo` and `/diff`: what tasks did to files, shown and taken back. For the screen and for `--plain`.

An undo is shown first and done when the person says yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tertulia.errors import (
    BusyError,
    GitError,
    InvalidParamsError,
    NotFoundError,
    SandboxError,
    StoragePolicyViolationError,
    TertuliaError,
)
from tertulia.policy.display_text import visible
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.port import Port

USAGE = "/undo [yes] [force] [to ID] [PATH …]"
_VERBS = {"added": "comes back", "deleted": "goes", "modified": "changes back"}
_DONE = {"added": "came back", "deleted": "is gone", "modified": "changed back"}
_MOST_FILES = 40
_NO_OFFER = {kind.code for kind in (BusyError, GitError, NotFoundError, SandboxError, StoragePolicyViolationError)}
"""Why nothing is offered: nothing was changed, nothing is recorded, or it works at this moment."""


class UndoWords(msgspec.Struct, frozen=True):
    """What was typed behind `/undo`."""

    yes: bool = False
    force: bool = False
    to: str | None = None
    paths: tuple[str, ...] = ()

    def params(self) -> dict[str, Any]:
        """The parameters of the operation."""
        paths = {"paths": list(self.paths)} if self.paths else {}
        return {"id": self.to, "force": self.force, "dry_run": not self.yes, **paths}


def read_undo(rest: str) -> UndoWords:
    """Parse it. InvalidParamsError where `to` names no checkpoint."""
    words = rest.split()
    switches: dict[str, Any] = {}
    while words and words[0] in ("yes", "force", "to"):
        word = words.pop(0)
        if word == "to" and not words:
            raise InvalidParamsError(f"to which checkpoint? {USAGE}; `tertulia checkpoints` lists them")
        switches[word] = words.pop(0) if word == "to" else True
    return UndoWords(**switches, paths=tuple(words))


async def run_undo(port: Port, conversation_id: ConversationId, rest: str) -> list[str]:
    """Show what an undo would do; with `yes` do it."""
    words = read_undo(rest)
    answer = await port.call("checkpoint/restore", conversation_id=conversation_id, **words.params())
    lines = restore_lines(answer)
    if answer["files"] and not words.yes:
        lines.append(f"/undo yes{f' {rest}' if rest else ''} does it")
    if answer.get("undo_id"):
        lines.append(f"/undo yes to {answer['undo_id']} takes this back")
    return lines


class FilesSince(msgspec.Struct, frozen=True):
    """The files that could come back as they were at a moment."""

    checkpoint_id: str
    files: Sequence[str]


async def files_since(port: Port, conversation_id: ConversationId, moment: str) -> FilesSince | None:
    """What a conversation has changed since a moment; None where it is nothing, or that cannot be had."""
    try:
        answer = await port.call("checkpoint/restore", conversation_id=conversation_id, since=moment, dry_run=True)
    except TertuliaError as error:
        if error.code not in _NO_OFFER:
            raise
        return None
    return FilesSince(answer["id"], [file["path"] for file in answer["files"]]) if answer["files"] else None


async def bring_back(port: Port, conversation_id: ConversationId, moment: str, name: str) -> str:
    """Bring the files back as they were at a moment; a sentence about it. `name`: of the conversation."""
    answer = await port.call("checkpoint/restore", conversation_id=conversation_id, since=moment)
    left = "".join(f"; left: {visible(entry['path'])}: {entry['reason']}" for entry in answer["left"][:3])
    if answer["undo_id"] is None:
        return f"no file had to be brought back{left}"
    count = len(answer["files"])
    files = "1 file came" if count == 1 else f"{count:,} files came"
    return f"{files} back; in {name}, /undo yes to {answer['undo_id']} takes that back{left}"


def restore_lines(answer: Mapping[str, Any]) -> list[str]:
    """An answer of `checkpoint/restore`, as lines for people."""
    files, left, done = answer["files"], answer["left"], answer["restored"]
    verbs = _DONE if done else _VERBS
    lines = [f"{visible(file['path'])} {verbs[file['status']]}" for file in files[:_MOST_FILES]]
    if len(files) > _MOST_FILES:
        lines.append(f"and {len(files) - _MOST_FILES:,} more")
    if not files:
        lines.append("no file has to be changed")
    lines += [f"left: {visible(entry['path'])}: {entry['reason']}" for entry in left]
    if left:
        lines.append("force restores what others have changed, too")
    return [*lines, *not_captured_lines(answer)]


def not_captured_lines(answer: Mapping[str, Any]) -> list[str]:
    """What the checkpoints do not have."""
    named = [f"not captured: {visible(entry['path'])} ({entry['reason']})" for entry in answer["left_out"][:10]]
    return [*named, str(answer["not_captured"])]


async def run_diff(port: Port, conversation_id: ConversationId, rest: str) -> list[str]:
    """What the last message did to files, or what was done since a checkpoint; `now`: compared with the present."""
    words: Sequence[str] = rest.split()
    named = [word for word in words if word != "now"]
    if len(named) > 1:
        raise InvalidParamsError("/diff [now] [ID]")
    params = {"id": named[0] if named else None, "to_now": "now" in words}
    answer = await port.call("checkpoint/diff", conversation_id=conversation_id, **params)
    cut = ["… the rest is left out"] if answer["truncated"] else []
    text = str(answer["diff"]).splitlines() or ["nothing was changed"]
    return [*text, *cut, *not_captured_lines(answer)]
