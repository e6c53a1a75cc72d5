"""What is recorded about the states of a workspace: for each writing task and each restore one window, with the tree
before it and the tree after it.

A file of ours beside the objects, shared by all sessions that work in the workspace. It holds no contents and no texts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from tertulia.errors import NotFoundError
from tertulia.policy.private_file import PrivateFile, VersionedContent

MAX_WINDOWS = 2_000
"""Of one workspace; the oldest are dropped."""
AFTER = ":after"


class Window(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The time in which a task, or a restore, may have written to the workspace."""

    id: str
    """The id of the checkpoint at its beginning; with `:after`, of that at its end."""
    cause: Literal["task", "restore"]
    session_id: str
    conversation_id: str
    task_id: str | None = None
    trace_id: str | None = None
    """The chain that the task belongs to."""
    callers: tuple[str, ...] = ()
    """The conversations on whose behalf the task ran."""
    began: float
    before: str
    """The tree at its beginning."""
    ended: float | None = None
    after: str | None = None
    cut: bool = False
    """Whether its process was killed, so that its end is when the next one looked."""
    expires: float | None = None
    files: int = 0
    added: int = 0
    removed: int = 0
    undoes: tuple[str, ...] = ()
    """The windows that a restore has undone."""
    back_to: float = 0.0
    """The time of the state that a restore has brought back."""
    undone: bool = False

    @property
    def changed(self) -> bool:
        """Whether anything is different after it."""
        return self.after is not None and self.after != self.before

    def belongs_to(self, conversation_id: str) -> bool:
        """Whether the conversation did it, or another on its behalf."""
        return conversation_id == self.conversation_id or conversation_id in self.callers

    def is_of_chain(self, other: Window) -> bool:
        """Whether both are of one message, or the same one."""
        same = self.trace_id is not None and (self.trace_id, self.session_id) == (other.trace_id, other.session_id)
        return same or self.id == other.id


class _Content(VersionedContent, frozen=True, kw_only=True):
    """What the file on disk holds."""

    workspace: str = ""
    prefix: str | None = None
    tree: str | None = None
    used: float = 0.0
    expires: float | None = None
    windows: tuple[Window, ...] = ()
    modes: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])


class Manifest:
    """The windows of one workspace as they were read, and written back by `write`."""

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path, _Content)
        self.workspace = ""
        self.prefix: str | None = None
        """Where the workspace lies in the repository around it."""
        self.tree: str | None = None
        """The last one that was recorded: what the index has."""
        self.used = 0.0
        """When something was recorded last."""
        self.expires: float | None = None
        """When the last recorded state may not be kept any more, for a policy that says so."""
        self.windows: list[Window] = []
        self.modes: dict[str, int] = {}
        """Unusual permissions of files, by their paths."""

    def load(self, workspace: str = "") -> None:
        """Read what is there. A file that cannot be used counts as none."""
        try:
            content = self._file.load()
        except (OSError, ValueError):
            content = _Content(workspace=workspace)
        self.workspace, self.prefix, self.tree = content.workspace or workspace, content.prefix, content.tree
        self.used, self.expires = content.used, content.expires
        self.windows, self.modes = list(content.windows), dict(content.modes)

    def write(self) -> None:
        """Replace the file. Names that are not UTF-8 are not remembered."""
        modes = {path: mode for path, mode in self.modes.items() if path.isprintable()}
        content = _Content(
            workspace=os.fsencode(self.workspace).decode("utf-8", "replace"),
            prefix=None if self.prefix is None else os.fsencode(self.prefix).decode("utf-8", "replace"),
            tree=self.tree,
            used=self.used,
            expires=self.expires,
            windows=tuple(self.windows[-MAX_WINDOWS:]),
            modes=modes,
        )
        with self._file.locked():
            self._file.write(content)

    def find(self, checkpoint_id: str) -> tuple[Window, str] | None:
        """The window of a checkpoint, and the tree that it names; None where there is none."""
        id = checkpoint_id.removesuffix(AFTER)
        for window in self.windows:
            if window.id == id:
                tree = window.after if checkpoint_id.endswith(AFTER) else window.before
                return None if tree is None else (window, tree)
        return None

    def require(self, checkpoint_id: str) -> tuple[Window, str]:
        """The same; NotFoundError where there is none."""
        found = self.find(checkpoint_id)
        if found is None:
            raise NotFoundError(
                f"there is no checkpoint {checkpoint_id[:64]!r}; `tertulia checkpoints` and checkpoint/list have them"
            )
        return found

    def last_message(self, conversation_id: str) -> list[Window]:
        """The windows of the last message of a conversation that changed something and is not undone.

        NotFoundError where there is none.
        """
        windows = [window for window in self.windows if window.belongs_to(conversation_id)]
        candidates = [w for w in windows if w.cause == "task" and not w.undone and (w.changed or w.after is None)]
        if not candidates:
            raise NotFoundError(
                "there is nothing to undo: no message of this conversation has changed a recorded file of the "
                "workspace, or all of it is undone"
            )
        last = max(candidates, key=lambda window: window.began)
        return sorted((w for w in windows if w.is_of_chain(last)), key=lambda window: window.began)

    def first_since(self, conversation_id: str, moment: float) -> Window:
        """The window of the first task of a conversation that may have written after a moment.

        NotFoundError where there is none.
        """
        windows = [window for window in self.windows if window.cause == "task" and window.began >= moment]
        own = [window for window in windows if window.belongs_to(conversation_id)]
        if not own:
            raise NotFoundError(
                "there is nothing to undo: no task of this conversation has changed a recorded file of the workspace "
                "since then"
            )
        return min(own, key=lambda window: window.began)

    def end_of(self, window: Window) -> str | None:
        """The tree at the end of the message that a window belongs to; None: it is not over."""
        same = [other for other in self.windows if other.is_of_chain(window)]
        return max(same, key=lambda other: float("inf") if other.ended is None else other.ended).after

    def replace(self, window: Window) -> None:
        """Put a window in the place of the one with its id."""
        self.windows = [window if other.id == window.id else other for other in self.windows]
