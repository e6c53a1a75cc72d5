"""The worktrees of a session's conversations: made before a conversation opens, committed after its tasks, removed when
it closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tertulia.conversation.state import ConversationState
from tertulia.errors import GitError, TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.protocol.events import WarningEvent
from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.protocol.worktree import OwnWorktree, WorktreeReport
from tertulia.session.settings.environment import Environment
from tertulia.session.worktrees.lifecycle import MadeWorktree, WorktreeFolder, WorktreeLife, WorktreeRecord, make_folder
from tertulia.session.worktrees.worktree import Worktree, snapshot
from tertulia.tools.threads import run_in_thread

_log = logging.getLogger(__name__)
KEPT = "worktree_kept"
NOT_COMMITTED = "worktree_not_committed"
LEFT_OUT = "worktree_left_out"
_MOST_NAMED = 10
_AT_ONCE = 4
_BEGINNING = ""
_HOLD_ATTEMPTS = 100
_HOLD_PAUSE_S = 0.05


class ConversationWorktrees:
    """The worktrees of one session. The process holds the session's lock from the first worktree until the session is
    closed.
    """

    def __init__(
        self,
        session_id: SessionId,
        environment: Environment,
        bus: EventBus,
        conversations: Callable[[], Iterable[ConversationState]],
        *,
        masked: Sequence[str],
    ) -> None:
        """`masked`: paths that commands must not see."""
        self._session_id = session_id
        self._bus = bus
        self._conversations = conversations
        self.folder = WorktreeFolder(environment.home)
        self._variables = environment.variables
        self._life = WorktreeLife(self.folder, self._variables, masked=masked)
        self._lock: int | None = None
        self._pending: dict[TaskId | None, list[OwnWorktree]] = {}
        """Worktrees by the task that made them, for conversations that are not open yet."""
        self._busy: dict[str, asyncio.Future[None]] = {}
        """Worktrees in which git runs now, by the conversation that owns them; several conversations may share one
        worktree.
        """

    async def make(
        self,
        conversation_id: ConversationId,
        cwd: str,
        caller: OwnWorktree | None,
        task_id: TaskId | None = None,
    ) -> OwnWorktree:
        """Make the worktree of a conversation that is about to be opened.

        `task_id`: the task that asks for it; when that task ends, worktrees whose conversations were never opened are
        removed. Raises GitError where no worktree can be made; nothing is left behind then.
        """
        await self._begin()
        made = await self._life.make(self._session_id, conversation_id, cwd, caller)
        self._pending.setdefault(task_id, []).append(made.worktree)
        self._name_left_out(made)
        return made.worktree

    async def discard(self, worktree: OwnWorktree) -> None:
        """Remove a worktree whose conversation will not be opened."""
        self._settle(worktree)
        await self._life.remove(worktree)

    def adopt(self, worktree: OwnWorktree) -> None:
        """Keep a worktree, because its conversation has been opened."""
        self._settle(worktree)

    async def drop_unopened(self, task_id: TaskId | None) -> None:
        """At the end of a task, remove the worktrees it made for conversations that were never opened."""
        opened = {conversation.id for conversation in self._conversations()}
        for worktree in self._pending.pop(task_id, []):
            if worktree.conversation_id not in opened:
                await self._life.remove(worktree)

    async def ready(self, conversation: ConversationState) -> None:
        """Before a task: make sure that the worktree exists, also in a resumed session. GitError where it cannot be
        restored.
        """
        worktree = conversation.terms.worktree
        if worktree is None:
            return
        await self._begin()
        async with self.alone(worktree.conversation_id):
            try:
                await self._life.restore(self._session_id, worktree)
            except (TertuliaError, OSError) as error:
                raise GitError(
                    f"the worktree of this conversation ({worktree.branch}) is gone and cannot be had again: "
                    f"{_words(error)}; open another conversation"
                ) from None
        await run_in_thread(make_folder, worktree.path, conversation.terms.cwd)

    async def report(self, conversation: ConversationState, task_id: TaskId) -> WorktreeReport | None:
        """After a task: commit its changes, and remove worktrees it made for conversations that were never opened."""
        await self.drop_unopened(task_id)
        worktree = conversation.terms.worktree
        if worktree is None:
            return None
        scope = EventScope("", conversation.id)
        if not Worktree.of(worktree).is_there:
            text = f"{worktree.path} is gone: what was done there since the last commit of {worktree.branch} is lost"
            self._bus.publish(WarningEvent(text, NOT_COMMITTED), scope)
            return None
        try:
            async with self.alone(worktree.conversation_id):
                state = await snapshot(Worktree.of(worktree), self._variables)
        except (TertuliaError, OSError) as error:
            text = f"the work in {worktree.path} was not committed: {_words(error)}"
            self._bus.publish(WarningEvent(text, NOT_COMMITTED), scope)
            return None
        left_out = [str(entry) for entry in state.left_out]
        return WorktreeReport(state.branch, state.commit, state.diffstat, tuple(left_out[:_MOST_NAMED]))

    async def release(self, conversation: ConversationState) -> str | None:
        """Remove the worktree of a closed conversation, unless another conversation uses it or it has uncommitted
        changes.

        Returns the path of a worktree that was kept because of uncommitted changes or an error, else None.
        """
        worktree = conversation.terms.worktree
        if worktree is None or any(
            other.terms.worktree is not None and other.terms.worktree.path == worktree.path
            for other in self._conversations()
            if other.id != conversation.id and not other.closed
        ):
            return None
        async with self.alone(worktree.conversation_id):
            return await self._remove_if_clean(worktree, EventScope("", conversation.id))

    async def close(self) -> None:
        """At the end of the session, remove its clean worktrees and release its lock. A later session removes what is
        left.
        """
        try:
            await self._remove_all()
        finally:
            # Also after a cancellation: an unreleased lock bars others from these worktrees while this process lives.
            if self._lock is not None:
                self.folder.release(self._session_id, self._lock)
                self._lock = None

    async def _remove_all(self) -> None:
        owned = {c.terms.worktree.path: c.terms.worktree for c in self._conversations() if c.terms.worktree is not None}
        for task_id in list(self._pending):
            await self.drop_unopened(task_id)
        worktrees = list(owned.values())
        for number in range(0, len(worktrees), _AT_ONCE):
            together = worktrees[number : number + _AT_ONCE]
            await asyncio.gather(
                *(self._remove_if_clean(worktree, EventScope("", worktree.conversation_id)) for worktree in together)
            )

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin(self) -> None:
        """Take the session's lock and, once, remove what killed processes left behind."""
        async with self.alone(_BEGINNING):
            if self._lock is not None:
                return
            for _ in range(_HOLD_ATTEMPTS):
                self._lock = self.folder.hold(self._session_id)
                if self._lock is not None:
                    break
                # Another process that cleans up after killed ones may hold the lock for a moment.
                await asyncio.sleep(_HOLD_PAUSE_S)
            else:
                raise GitError("another process has this session, and its worktrees")
            for record in await run_in_thread(lambda: list(self.folder.records())):
                if record.session_id != self._session_id:
                    await self._sweep(record)
                elif all(record.worktree.conversation_id != conversation.id for conversation in self._conversations()):
                    # Its conversation was never opened, or is closed.
                    await self._take_away(record)

    async def _sweep(self, record: WorktreeRecord) -> None:
        lock = await run_in_thread(self.folder.hold, record.session_id)
        if lock is None:
            return
        try:
            await self._take_away(record)
        finally:
            self.folder.release(record.session_id, lock)

    async def _take_away(self, record: WorktreeRecord) -> None:
        if record.ready:
            await self._remove_if_clean(record.worktree, EventScope(""))
            return
        try:
            # No command has worked in this worktree, or its removal was interrupted.
            await self._life.remove(record.worktree)
        except TertuliaError as error:
            _log.warning("the worktree %s was not removed: %s", record.worktree.path, error.message)

    async def _remove_if_clean(self, worktree: OwnWorktree, scope: EventScope) -> str | None:
        try:
            clean = await self._life.is_clean(worktree)
            why = "something in it is not committed, or cannot be read"
            if clean:
                await self._life.remove(worktree)
        except (TertuliaError, OSError) as error:
            clean, why = False, _words(error)
        if clean:
            return None
        text = (
            f"the worktree {worktree.path} (branch {worktree.branch}) stays: {why}. Look at it with "
            f"`git -C {worktree.path} status`, and remove it with `git worktree remove --force {worktree.path}`"
        )
        self._bus.publish(WarningEvent(text, KEPT), scope)
        return worktree.path

    def _name_left_out(self, made: MadeWorktree) -> None:
        if not made.left_out:
            return
        named = ", ".join(str(entry) for entry in made.left_out[:_MOST_NAMED])
        more = f" and {len(made.left_out) - _MOST_NAMED:,} more" if len(made.left_out) > _MOST_NAMED else ""
        text = f"the worktree {made.worktree.branch} begins without these uncommitted changes: {named}{more}"
        self._bus.publish(WarningEvent(text, LEFT_OUT), EventScope(""))

    def _settle(self, worktree: OwnWorktree) -> None:
        for task_id, made in list(self._pending.items()):
            self._pending[task_id] = [other for other in made if other.path != worktree.path]
            if not self._pending[task_id]:
                del self._pending[task_id]

    @asynccontextmanager
    async def alone(self, owner: str) -> AsyncGenerator[None, None]:
        """Let one caller at a time work for this owner: one git per worktree index, one merge per workspace."""
        while (before := self._busy.get(owner)) is not None:
            await asyncio.wait([before])
        mine = self._busy[owner] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._busy[owner]
            mine.set_result(None)


def _words(error: TertuliaError | OSError) -> str:
    return error.message if isinstance(error, TertuliaError) else error.strerror or str(error)


def repository_around(cwd: str) -> Path:
    """The repository around a directory, found without running git. GitError where there is none and so can be no
    worktree.
    """
    from tertulia.context.git_repository import find_repository

    found = find_repository(cwd)
    if found is None:
        raise GitError(
            f'workspace = "worktree" needs a git repository, and {cwd!r:.200} is in none; use the shared workspace, or '
            "`git init` there first"
        )
    return Path(found)
