"""The git worktree that a conversation works in instead of the session's own directory, as data."""

from __future__ import annotations

import os.path
from typing import Literal

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import StoragePolicy

WorkspaceKind = Literal["shared", "worktree"]
"""Where a conversation works: `shared`, in the same place as its caller, or in a `worktree` of its own."""


class OwnWorktree(msgspec.Struct, frozen=True):
    """The worktree of one conversation; conversations that it opens may share it. All paths are canonical."""

    conversation_id: ConversationId
    """The conversation that the worktree was made for."""
    original: str
    """The top of the working tree of the session's directory: paths in it are mapped to paths in the worktree."""
    repository: str
    """The top of the working tree that this one was made from: `original`, or the worktree of the caller."""
    common: str
    """The common git directory of the repository, which all its worktrees share."""
    path: str
    """The top of the worktree itself, in a folder of ours."""
    branch: str
    start: str
    """The commit that the branch starts at."""
    began: str = ""
    """A description of that commit, for people."""

    @classmethod
    def unknown(cls, conversation_id: ConversationId) -> OwnWorktree:
        """A placeholder for a worktree that was not stored and no longer exists; its paths do not exist."""
        return cls(conversation_id, *[f"/nonexistent/{conversation_id}"] * 4, branch="not stored", start="")

    def beginning(self, conversation_id: ConversationId) -> WorktreeReport | None:
        """The report for the answer when the conversation is opened; None if it only shares the worktree."""
        if conversation_id != self.conversation_id:
            return None
        return WorktreeReport(self.branch, self.start, began=self.began)

    def place_of(self, path: str) -> str:
        """The corresponding path in the worktree, for a path of the working tree that it replaces.

        A path above the original tree becomes the top of the worktree; any other path is returned unchanged.
        """
        if _lies_in(path, self.path):
            return path
        for top in (self.repository, self.original):
            if _lies_in(path, top):
                return os.path.normpath(os.path.join(self.path, os.path.relpath(path, top)))
        return self.path if _lies_in(self.original, path) else path


class WorktreeChild(msgspec.Struct, frozen=True):
    """What a caller keeps of a conversation with its own worktree, so that it can be merged after it was closed."""

    worktree: OwnWorktree
    title: str | None
    storage: StoragePolicy


class WorktreeReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a worktree's branch: part of every answer of a conversation that has a worktree of its own."""

    branch: str
    commit: str
    """The last commit of the branch: it has all changes, except those of the files in `left_out`."""
    diffstat: str = ""
    """The difference to the commit that the branch starts at, as `git diff --stat` prints it; empty if none."""
    left_out: tuple[str, ...] = ()
    """Files that are in no commit, each with the reason."""
    began: str = ""
    """A description of the commit that the branch starts at, for people; only in the first answer."""


def _lies_in(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above.rstrip('/')}/")
