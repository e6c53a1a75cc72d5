"""The answers of the operations `checkpoint/*`."""

from __future__ import annotations

from typing import Literal

from tertulia.session.answers import Answer, LeftOutFile, MergedFile


class CheckpointInfo(Answer, frozen=True, kw_only=True):
    """One checkpoint: the state before a task that wrote, or before a restore."""

    id: str
    after_id: str | None
    """The checkpoint at the end of it; null: it is not over."""
    cause: Literal["task", "restore"]
    conversation_id: str
    task_id: str | None
    session_id: str
    at: str
    """The time as RFC 3339, in UTC."""
    workspace: str
    files: int
    """How many files it changed."""
    added: int
    removed: int
    undone: bool
    cut: bool
    """Whether its process was killed: changes made until the next session began are counted with it."""


class CheckpointList(Answer, frozen=True, kw_only=True):
    """`checkpoint/list`: the checkpoints, the newest first."""

    checkpoints: list[CheckpointInfo]
    not_captured: str
    """What no checkpoint has, as a sentence for people."""


class CheckpointDiff(Answer, frozen=True, kw_only=True):
    """`checkpoint/diff`: from the state of a checkpoint to a later one."""

    id: str
    files: list[MergedFile]
    diff: str
    truncated: bool
    left_out: list[LeftOutFile]
    not_captured: str


class RestoreAnswer(Answer, frozen=True, kw_only=True):
    """`checkpoint/restore`: what was done, or would be."""

    id: str
    """The checkpoint that was restored."""
    restored: bool
    """Whether files were changed; false in a dry run, and where there was nothing to do."""
    dry_run: bool
    files: list[MergedFile]
    """What happens to each file: `added` comes back, `deleted` goes, `modified` has its former content again."""
    left: list[LeftOutFile]
    """Files that were left as they are, and why."""
    undo_id: str | None
    """The checkpoint of the state before this restore, which takes it back."""
    left_out: list[LeftOutFile]
    """Files of the workspace that are not recorded, and why."""
    not_captured: str
