"""What a user of a session holds of its checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from tertulia.protocol.ids import ConversationId
from tertulia.session.checkpoints.answers import CheckpointDiff, CheckpointInfo, RestoreAnswer
from tertulia.session.checkpoints.inputs import DiffCheckpoint, ListCheckpoints, RestoreCheckpoint
from tertulia.session.inputs import parse
from tertulia.session.parts import SessionParts


class Checkpoints:
    """The recorded states of a session's workspaces. Keeps nothing itself."""

    __slots__ = ("_parts",)

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    async def list(self, conversation: str | None = None, limit: int = 100) -> list[CheckpointInfo]:
        """The checkpoints, the newest first.

        Args:
            conversation: Only those of this conversation, by its id, and of others that worked for it.
            limit: At most so many.

        Returns:
            One for each task that may have written, and for each restore.

        Raises:
            GitError: Checkpoints are switched off, or there is no git.
            InvalidParamsError: The limit is no such number.
        """
        params = parse(ListCheckpoints, {"conversation_id": conversation, "limit": limit})
        return (await self._parts.checkpoints.requests.list(params)).checkpoints

    async def diff(
        self, id: str | None = None, *, conversation: str | None = None, to_now: bool = False
    ) -> CheckpointDiff:
        """What was changed since a checkpoint.

        Args:
            id: The checkpoint; None: that before the last message of the conversation that changed something.
            conversation: The id of the conversation; None: the root.
            to_now: Compare with the files as they are now, not with those at the end of the task.

        Returns:
            The files and the difference as text.

        Raises:
            NotFoundError: There is no such checkpoint, or nothing was changed.
            StoragePolicyViolationError: The storage policy allows no checkpoints.
            GitError: Checkpoints are switched off, or git failed.
        """
        params = {"id": id, "conversation_id": conversation, "to_now": to_now}
        return await self._parts.checkpoints.requests.diff(parse(DiffCheckpoint, params))

    async def restore(
        self,
        id: str | None = None,
        *,
        since: datetime | None = None,
        conversation: str | None = None,
        paths: Sequence[str] | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> RestoreAnswer:
        """Bring files back into the state of a checkpoint: all of them or none, and it can be undone.

        Args:
            id: The checkpoint; None: that before the last message of the conversation that changed something.
            since: Instead: before the first task of the conversation after this moment, which has a time zone.
            conversation: The conversation whose changes are undone, by its id; None: that of the checkpoint.
            paths: Only these files, and those below these directories.
            dry_run: Only say what would be done.
            force: Restore files, too, that others have changed since, or at the same time.

        Returns:
            The files that were restored, those that were left and why, and the checkpoint that takes it back.

        Raises:
            NotFoundError: There is no such checkpoint, or nothing to undo.
            BusyError: The conversation works now.
            MergeConflictError: A file changes at this moment; nothing was restored.
            SandboxError: The session may write no file.
            StoragePolicyViolationError: The storage policy allows no checkpoints.
            InvalidParamsError: A path lies outside the workspace, or is in neither state.
            LimitError: There is too much for one restore.
            GitError: Checkpoints are switched off, or git failed.
        """
        named = None if paths is None else list(paths)
        about = {"id": id, "since": since, "conversation_id": conversation}
        params = {**about, "paths": named, "dry_run": dry_run, "force": force}
        return await self._parts.checkpoints.requests.restore(parse(RestoreCheckpoint, params))


class UndoableChanges:
    """What a conversation did to files can be taken back."""

    __slots__ = ("_parts", "id")
    _parts: SessionParts
    id: ConversationId

    async def undo(
        self, to: str | None = None, *, paths: Sequence[str] | None = None, dry_run: bool = False, force: bool = False
    ) -> RestoreAnswer:
        """Take back what the last message of this conversation did to the files of the workspace.

        Args:
            to: A checkpoint to go back to instead; `Session.checkpoints.list` has them.
            paths: Only these files, and those below these directories.
            dry_run: Only say what would be done.
            force: Restore files, too, that others have changed since, or at the same time.

        Returns:
            The files that were restored, those that were left and why, and the checkpoint that takes it back.

        Raises:
            TertuliaError: Nothing was changed; `Checkpoints.restore` has each.
        """
        checkpoints = Checkpoints(self._parts)
        return await checkpoints.restore(to, conversation=self.id, paths=paths, dry_run=dry_run, force=force)


class RecordedWorkspace(ABC):
    """What a session recorded of its workspace."""

    @property
    @abstractmethod
    def parts(self) -> SessionParts:
        """The parts of the session."""

    @property
    def checkpoints(self) -> Checkpoints:
        """The recorded states of the workspace: `await session.checkpoints.list()`, `.diff()`, `.restore()`."""
        return Checkpoints(self.parts)
