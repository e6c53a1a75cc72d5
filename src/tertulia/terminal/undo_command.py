"""`/undo` and `/diff`: what tasks did to files, shown and taken back; and what a fork may bring back.

An undo is shown first and done when the person says yes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tertulia.errors import (
    BusyError,
    GitError,
    NotFoundError,
    SandboxError,
    StoragePolicyViolationError,
    TertuliaError,
)
from tertulia.policy.display_text import visible
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.port import Port
from tertulia.view.undo_text import diff_lines, read_diff, read_undo, undo_lines

_NO_OFFER = {kind.code for kind in (BusyError, GitError, NotFoundError, SandboxError, StoragePolicyViolationError)}
"""Why nothing is offered: nothing was changed, nothing is recorded, or it works at this moment."""


async def run_undo(port: Port, conversation_id: ConversationId, rest: str) -> list[str]:
    """Show what an undo would do; with `yes` do it."""
    words = read_undo(rest)
    answer = await port.call("checkpoint/restore", conversation_id=conversation_id, **words.params())
    return undo_lines(answer, words, rest)


async def run_diff(port: Port, conversation_id: ConversationId, rest: str) -> list[str]:
    """What the last message did to files, or what was done since a checkpoint; `now`: compared with the present."""
    return diff_lines(await port.call("checkpoint/diff", conversation_id=conversation_id, **read_diff(rest)))


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
