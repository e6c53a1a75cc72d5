"""The worktrees of a session's conversations: made before one is opened, committed after its tasks, gone when it is."""

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
    """Those of one session. Its process holds the session's lock as long as it may have one."""

    def __init__(
        self,
        session_id: SessionId,
        environment: Environment,
        bus: EventBus,
        conversations: Callable[[], Iterable[ConversationState]],
        *,
        masked: Sequence[str],
    ) -> None:
        """`masked`: paths that commands do not see."""
        self._session_id = session_id
        self._bus = bus
        self._conversations = conversations
        self.folder = WorktreeFolder(environment.home)
        self._variables = environment.variables
        self._life = WorktreeLife(self.folder, self._variables, masked=masked)
        self._lock: int | None = None
        self._pending: dict[TaskId | None, list[OwnWorktree]] = {}
        """Made by a task for conversations that are not open yet."""
        self._busy: dict[str, asyncio.Future[None]] = {}
        """Worktrees that git works in just now, by their conversation: others may share one."""

    async def make(
        self,
        conversation_id: ConversationId,
        cwd: str,
        caller: OwnWorktree | None,
        task_id: TaskId | None = None,
    ) -> OwnWorktree:
        """One for a conversation that is about to be opened.

        `task_id`: the task that asks for it; what it does not open is gone with its end. GitError where there can be
        none, and then there is nothing of it.
        """
        await self._begin()
        made = await self._life.make(self._session_id, conversation_id, cwd, caller)
        self._pending.setdefault(task_id, []).append(made.worktree)
        self._name_left_out(made)
        return made.worktree

    async def discard(self, worktree: OwnWorktree) -> None:
        """The conversation that it was made for is not opened."""
        self._settle(worktree)
        await self._life.remove(worktree)

    def adopt(self, worktree: OwnWorktree) -> None:
        """The conversation that it was made for is open."""
        self._settle(worktree)

    async def drop_unopened(self, task_id: TaskId | None) -> None:
        """The task is over: what it had made for conversations that are not open is taken away."""
        opened = {conversation.id for conversation in self._conversations()}
        for worktree in self._pending.pop(task_id, []):
            if worktree.conversation_id not in opened:
                await self._life.remove(worktree)

    async def ready(self, conversation: ConversationState) -> None:
        """Before a task: it is there, also after the session was resumed. GitError where it cannot be had again."""
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
        """After a task: what it changed is committed. What it had made for conversations that it never opened goes."""
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
        """A conversation is closed: its worktree goes, unless another one works there or something is not committed.

        The path of one that stays for the second reason.
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
        """The session is closed: so are all its conversations. The next session takes away what is left."""
        try:
            await self._remove_all()
        finally:
            # Also when it is cancelled: what is held stays, for all other sessions, as long as this process lives.
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
        """Hold the session, and once look after what processes have left that were killed."""
        async with self.alone(_BEGINNING):
            if self._lock is not None:
                return
            for _ in range(_HOLD_ATTEMPTS):
                self._lock = self.folder.hold(self._session_id)
                if self._lock is not None:
                    break
                # A process that looks after what others left has it for a moment.
                await asyncio.sleep(_HOLD_PAUSE_S)
            else:
                raise GitError("another process has this session, and its worktrees")
            for record in await run_in_thread(lambda: list(self.folder.records())):
                if record.session_id != self._session_id:
                    await self._sweep(record)
                elif all(record.worktree.conversation_id != conversation.id for conversation in self._conversations()):
                    # It was made for a conversation that was never opened, or is closed.
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
            # No command has worked in it, or it was being removed.
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
        """One git at a time writes a worktree's index, and one merge a workspace."""
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
    """Refuse, without running anything, a directory in which there can be no worktree. GitError says why."""
    from tertulia.context.git_repository import find_repository

    found = find_repository(cwd)
    if found is None:
        raise GitError(
            f'workspace = "worktree" needs a git repository, and {cwd!r:.200} is in none; use the shared workspace, or '
            "`git init` there first"
        )
    return Path(found)
