"""The git worktree that a conversation works in instead of the session's own directory, as data."""

from __future__ import annotations

import os.path
from typing import Literal

import msgspec

from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import StoragePolicy

WorkspaceKind = Literal["shared", "worktree"]
"""Where a conversation works: where its caller does, or in a worktree of its own."""


class OwnWorktree(msgspec.Struct, frozen=True):
    """The worktree of one conversation, which those that it opens may share. All paths are canonical."""

    conversation_id: ConversationId
    """The conversation that it was made for."""
    original: str
    """The top of the tree that the session's directory lies in: paths there are mapped to those in the worktree."""
    repository: str
    """The top of the tree that it was made from: `original`, or the worktree of its caller."""
    common: str
    """The git directory that all of them share."""
    path: str
    """Its own top, in a folder of ours."""
    branch: str
    start: str
    """The commit it began at."""
    began: str = ""
    """What that commit is, for people."""

    @classmethod
    def unknown(cls, conversation_id: ConversationId) -> OwnWorktree:
        """One that was not stored, and that is gone: it is nowhere."""
        return cls(conversation_id, *[f"/nonexistent/{conversation_id}"] * 4, branch="not stored", start="")

    def beginning(self, conversation_id: ConversationId) -> WorktreeReport | None:
        """What is said of it when the conversation is opened; None to one that only shares it."""
        if conversation_id != self.conversation_id:
            return None
        return WorktreeReport(self.branch, self.start, began=self.began)

    def place_of(self, path: str) -> str:
        """The same place in the worktree, for a path of the tree it stands for, or of one around it."""
        if _lies_in(path, self.path):
            return path
        for top in (self.repository, self.original):
            if _lies_in(path, top):
                return os.path.normpath(os.path.join(self.path, os.path.relpath(path, top)))
        return self.path if _lies_in(self.original, path) else path


class WorktreeChild(msgspec.Struct, frozen=True):
    """A conversation with a worktree of its own, as its caller knows it: also when it is closed, it can be merged."""

    worktree: OwnWorktree
    title: str | None
    storage: StoragePolicy


class WorktreeReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the work in a worktree has come to: part of every answer that a conversation gives that has one."""

    branch: str
    commit: str
    """The last on the branch: everything that was done is in it, but for what was left out."""
    diffstat: str = ""
    """What differs from where it began, as `git diff --stat` says it; empty where nothing does."""
    left_out: tuple[str, ...] = ()
    """Files that are in no commit, each with the reason."""
    began: str = ""
    """Where it began, for people; only in the first answer."""


def _lies_in(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above.rstrip('/')}/")
