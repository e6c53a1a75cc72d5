"""What clients ask about checkpoints: listed, compared, restored. No tool reaches this: only clients restore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tertulia.conversation.state import ConversationState
from tertulia.conversation.user_message import additions_message
from tertulia.errors import BusyError, InvalidParamsError, SandboxError
from tertulia.events.bus import EventBus, EventScope
from tertulia.policy.display_text import visible
from tertulia.protocol.events import CheckpointEvent
from tertulia.protocol.ids import ConversationId
from tertulia.session.answers import LeftOutFile, MergedFile
from tertulia.session.checkpoints.answers import CheckpointDiff, CheckpointInfo, CheckpointList, RestoreAnswer
from tertulia.session.checkpoints.inputs import DiffCheckpoint, ListCheckpoints, RestoreCheckpoint
from tertulia.session.checkpoints.session_workspaces import CheckpointParts, SessionWorkspaces
from tertulia.session.checkpoints.windows import AFTER, Window
from tertulia.session.conversations import Conversations
from tertulia.session.worktrees.tree_files import LeftOut

if TYPE_CHECKING:
    from tertulia.session.checkpoints.workspace import RestoreOutcome
    from tertulia.session.merging.tree_merge import FileDiff

_NOT_CAPTURED = (
    "Not captured: {ignored}files above 10 MB, nested repositories, protected files such as .git and .vscode, anything "
    "outside the workspace, and effects on the network."
)
_RESTORED = (
    "The user has restored files of the workspace to an earlier state. What you know of these files from before is out "
    "of date: read them again before you use or change them."
)
_VERBS = {"added": "brought back", "deleted": "removed"}
_MOST_NAMED = 50
_MOST_LEFT_OUT = 20
_MAX_DIFF = 1_000_000


class CheckpointRequests:
    """The three operations on the checkpoints of one session."""

    def __init__(
        self, parts: CheckpointParts, bus: EventBus, conversations: Conversations, workspaces: SessionWorkspaces
    ) -> None:
        self._parts = parts
        self._bus = bus
        self._conversations = conversations
        self._workspaces = workspaces
        ignored = "" if workspaces.options.ignored else "files that git ignores, "
        self._not_captured = _NOT_CAPTURED.format(ignored=ignored)

    async def list(self, params: ListCheckpoints) -> CheckpointList:
        """The checkpoints, the newest first."""
        of = None if params.conversation_id is None else self._conversations.find(params.conversation_id).id
        found: list[tuple[Window, str]] = []
        for place in self._workspaces.all():
            found += [(window, place.shadow.workspace) for window in await place.list()]
        infos = [
            _info(window, workspace, self._parts.timestamps.at(window.began))
            for window, workspace in sorted(found, key=lambda pair: -pair[0].began)
            if of is None or window.belongs_to(of)
        ]
        return CheckpointList(checkpoints=infos[: params.limit], not_captured=self._not_captured)

    async def diff(self, params: DiffCheckpoint) -> CheckpointDiff:
        """What was changed since a checkpoint."""
        conversation = self._conversations.find(params.conversation_id or "root")
        place = await self._workspaces.holding(params.id, conversation)
        found = await place.diff(params.id, conversation.id, to_now=params.to_now)
        return CheckpointDiff(
            id=found.id,
            files=_listed(found.files),
            diff=found.diff[:_MAX_DIFF],
            truncated=len(found.diff) > _MAX_DIFF,
            left_out=_left(found.left_out),
            not_captured=self._not_captured,
        )

    async def restore(self, params: RestoreCheckpoint) -> RestoreAnswer:
        """Bring files back, or say what that would do.

        Raises:
            NotFoundError: There is no such checkpoint, or nothing to undo.
            BusyError: The conversation works at this moment.
            InvalidParamsError: Both a checkpoint and a moment are named.
            SandboxError: The session may write no file.
            StoragePolicyViolationError: The storage policy allows no checkpoints.
        """
        if params.id is not None and params.since is not None:
            raise InvalidParamsError("checkpoint/restore goes back to a checkpoint or to a moment: give id or since")
        named = params.conversation_id
        conversation = self._conversations.find(named or "root")
        self._check_writable(conversation, params)
        place = await self._workspaces.holding(params.id, conversation)
        outcome = await place.restore(
            params.id,
            None if named is None else conversation.id,
            paths=params.paths or (),
            force=params.force,
            dry_run=params.dry_run,
            default=conversation.id,
            expires=self._workspaces.expires(conversation.storage),
            since=None if params.since is None else params.since.timestamp(),
        )
        if outcome.window is not None:
            self._tell(outcome, outcome.window)
            await self._bus.flush()
        return RestoreAnswer(
            id=outcome.id,
            restored=outcome.window is not None,
            dry_run=params.dry_run,
            files=_listed(outcome.plan.files),
            left=_left(outcome.plan.left),
            undo_id=None if outcome.window is None else outcome.window.id,
            left_out=_left(outcome.left_out),
            not_captured=self._not_captured,
        )

    def _check_writable(self, conversation: ConversationState, params: RestoreCheckpoint) -> None:
        if self._parts.settings.rights.sandbox == "read_only":
            raise SandboxError("this session may write no file (sandbox read-only), and a restore writes files")
        if conversation.status in ("running", "waiting") and not params.dry_run:
            raise BusyError("this conversation works now; undo when it is done, or interrupt it", retry_after_s=1)

    def _tell(self, outcome: RestoreOutcome, window: Window) -> None:
        """Say in the history of the conversation, and to clients, what was restored."""
        conversation = self._conversations.peek(ConversationId(outcome.conversation_id))
        if conversation is None:
            self._bus.publish(checkpoint_event(window, outcome.left_out, is_after=True), EventScope(""))
            return
        scope = EventScope("", conversation.id)
        event = checkpoint_event(window, outcome.left_out, is_after=True)
        self._bus.publish(event, scope, conversation.storage)
        files = outcome.plan.files
        lines = [f"- {visible(file.path)}: {_VERBS.get(file.status, 'changed back')}" for file in files[:_MOST_NAMED]]
        more = [f"- and {len(files) - _MOST_NAMED:,} more"] if len(files) > _MOST_NAMED else []
        conversation.instruct([additions_message(["\n".join([_RESTORED, *lines, *more])], "files_restored")])


def checkpoint_event(window: Window, left_out: Sequence[LeftOut], *, is_after: bool) -> CheckpointEvent:
    """The event of the beginning or the end of a window."""
    text = f"{window.files} files changed, {window.added} insertions(+), {window.removed} deletions(-)"
    return CheckpointEvent(
        checkpoint_id=f"{window.id}{AFTER}" if is_after else window.id,
        moment="after" if is_after else "before",
        cause=window.cause,
        files=window.files,
        diffstat=text if is_after else "",
        not_captured=[str(left) for left in left_out[:_MOST_LEFT_OUT]],
    )


def _info(window: Window, workspace: str, at: str) -> CheckpointInfo:
    return CheckpointInfo(
        id=window.id,
        after_id=None if window.after is None else f"{window.id}{AFTER}",
        cause=window.cause,
        conversation_id=window.conversation_id,
        task_id=window.task_id,
        session_id=window.session_id,
        at=at,
        workspace=workspace,
        files=window.files,
        added=window.added,
        removed=window.removed,
        undone=window.undone,
        cut=window.cut,
    )


def _listed(files: Sequence[FileDiff]) -> list[MergedFile]:
    return [MergedFile(file.path, file.status, file.added, file.removed, file.renamed_from) for file in files]


def _left(entries: Sequence[LeftOut]) -> list[LeftOutFile]:
    return [LeftOutFile(left.path, left.reason) for left in entries]
