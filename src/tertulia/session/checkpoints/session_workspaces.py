"""Which directories of a session are recorded, and where: by workspaces and storage policies of its conversations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tertulia.conversation.state import ConversationState
from tertulia.errors import BusyError, StoragePolicyViolationError
from tertulia.events.clock import Clock, Timestamps
from tertulia.protocol.ids import SessionId
from tertulia.protocol.storage import Full, StoragePolicy, Ttl, storage_to_wire
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.session.checkpoints.places import drop_memory, hold_memory, memory_folder, stored_folder
from tertulia.session.checkpoints.shadow import ShadowRepository
from tertulia.session.checkpoints.windows import AFTER
from tertulia.session.checkpoints.workspace import WorkspaceCheckpoints
from tertulia.session.conversations import Conversations
from tertulia.session.resume.retention_sweep import retention_of
from tertulia.session.settings.checkpoint_table import CheckpointOptions, checkpoints_from_wire
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.workspace import guarded_paths_of, workspace_of


class CheckpointParts(Protocol):
    """The parts of a session that checkpoints are made from."""

    @property
    def session_id(self) -> SessionId: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def environment(self) -> Environment: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def timestamps(self) -> Timestamps: ...


class SessionWorkspaces:
    """The recorded workspaces of one session, each made when it is first used."""

    def __init__(self, parts: CheckpointParts, conversations: Conversations) -> None:
        self._parts = parts
        self._conversations = conversations
        self.options: CheckpointOptions = checkpoints_from_wire(parts.settings.checkpoints)
        self.limits = retention_of(parts.settings).checkpoints
        guarded = guarded_paths_of(parts.settings, parts.environment)
        self._masked = [mask.path for mask in guarded.masks]
        self._root = workspace_of(parts.settings)
        self._made: dict[tuple[str, bool], WorkspaceCheckpoints] = {}
        """By directory, and whether it is in memory."""
        self._memory: tuple[Path, int] | None = None

    def made(self) -> list[WorkspaceCheckpoints]:
        """Those that were used so far."""
        return list(self._made.values())

    def directory_of(self, conversation: ConversationState) -> str:
        """The directory that is recorded for a conversation: its worktree, the session's own, or where it works."""
        worktree, cwd = conversation.terms.worktree, os.path.realpath(conversation.terms.cwd)
        if worktree is not None:
            return os.path.realpath(worktree.path)
        return self._root if is_inside(cwd, self._root) else cwd

    def allows(self, storage: StoragePolicy) -> bool:
        """Whether a policy lets files be recorded."""
        return isinstance(storage, Full | Ttl) or self.options.in_memory

    def expires(self, storage: StoragePolicy) -> float | None:
        """When what is recorded now has to be gone; None: as the settings say."""
        return self._parts.clock.now() + storage.seconds if isinstance(storage, Ttl) else None

    def of(self, conversation: ConversationState, storage: StoragePolicy) -> WorkspaceCheckpoints:
        """The checkpoints of a conversation's workspace. StoragePolicyViolationError where its policy allows none."""
        if not self.allows(storage):
            raise StoragePolicyViolationError(
                f"storage_policy {storage_to_wire(storage)!r} keeps no checkpoints, so there is nothing to undo; "
                "checkpoints.in_memory = true holds them in memory until the session is closed"
            )
        in_memory = not isinstance(storage, Full | Ttl)
        key = (self.directory_of(conversation), in_memory)
        if key not in self._made:
            self._made[key] = self._make(key[0], *(self._in_memory() if in_memory else self._stored()))
        return self._made[key]

    def stored(self, conversation: ConversationState) -> WorkspaceCheckpoints:
        """Those that are stored of a conversation's workspace, whatever its policy is now."""
        directory = self.directory_of(conversation)
        return self._made.get((directory, False)) or self._make(directory, *self._stored())

    def beside(self, conversation: ConversationState) -> list[WorkspaceCheckpoints]:
        """All that record the workspace of a conversation."""
        directory = self.directory_of(conversation)
        return [place for (path, _), place in self._made.items() if path == directory]

    def all(self) -> Sequence[WorkspaceCheckpoints]:
        """Those of all open conversations, and those that were used."""
        for conversation in self._conversations:
            if self.allows(conversation.storage):
                self.of(conversation, conversation.storage)
        return self.made()

    async def holding(self, checkpoint_id: str | None, conversation: ConversationState) -> WorkspaceCheckpoints:
        """The workspace that has a checkpoint; without one, that of the conversation."""
        own = self.of(conversation, conversation.storage)
        id = (checkpoint_id or "").removesuffix(AFTER)
        for place in (own, *self.all()) if id else ():
            if any(window.id == id for window in await place.list()):
                return place
        return own

    def close(self) -> None:
        """The session is closed: what is in memory goes."""
        for place in self._made.values():
            place.close()
        if self._memory is not None:
            drop_memory(*self._memory)
            self._memory = None

    def _stored(self) -> tuple[Path, Path]:
        return stored_folder(self._parts.environment.home), self._parts.environment.merges

    def _in_memory(self) -> tuple[Path, Path]:
        if self._memory is None:
            folder = memory_folder(self._parts.session_id)
            number = hold_memory(folder)
            if number is None:
                raise BusyError("another process has this session", retry_after_s=1)
            folder.mkdir(mode=0o700, exist_ok=True)
            self._memory = (folder, number)
        return self._memory[0], self._memory[0] / "journals"

    def _make(self, workspace: str, folder: Path, journals: Path) -> WorkspaceCheckpoints:
        variables, now = self._parts.environment.variables, self._parts.clock.now
        shadow = ShadowRepository(
            folder,
            workspace,
            variables,
            masked=self._masked,
            include_ignored=self.options.ignored,
            max_bytes=self.limits.max_bytes,
        )
        return WorkspaceCheckpoints(shadow, self._parts.session_id, journals, variables, now)
