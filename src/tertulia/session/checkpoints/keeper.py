"""The checkpoints of a session: made around the tasks that write. One that cannot be made is a warning, and stops no
task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import TertuliaError
from tertulia.events.bus import EventBus, EventScope
from tertulia.protocol.events import WarningEvent
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.storage import Full, Ttl
from tertulia.session.checkpoints.client_requests import CheckpointRequests, checkpoint_event
from tertulia.session.checkpoints.places import drop_memory, hold_memory, memory_folders, stored_folder
from tertulia.session.checkpoints.retention import next_expiry, sweep_shadow, sweep_shadows
from tertulia.session.checkpoints.session_workspaces import CheckpointParts, SessionWorkspaces
from tertulia.session.checkpoints.windows import Window
from tertulia.session.checkpoints.workspace import WorkspaceCheckpoints, new_checkpoint_id
from tertulia.session.conversations import Conversations
from tertulia.tools.dispatch import CheckedCall

FAILED = "checkpoint_failed"
_SHORTEST_S = 0.1
_AGAIN_S = 60.0
"""After a sweep that failed."""
_MUCH = 1 / 8
"""Of the size that a workspace may have: after so much the sweeper looks."""


class CheckpointKeeper:
    """Records the workspaces of one session."""

    def __init__(
        self,
        parts: CheckpointParts,
        bus: EventBus,
        conversations: Conversations,
        recover: Callable[[Path], Awaitable[object]],
    ) -> None:
        """`recover`: undoes or finishes the restores whose journals lie in a folder."""
        self._parts = parts
        self._bus = bus
        self._conversations = conversations
        self._recover = recover
        self._workspaces = SessionWorkspaces(parts, conversations)
        self.requests = CheckpointRequests(parts, bus, conversations, self._workspaces)
        self._open: dict[str, tuple[WorkspaceCheckpoints, Window]] = {}
        """By task: the window that is open."""
        self._warned: set[str] = set()
        self._swept = asyncio.Event()
        """Whether what is expired was removed: a repository that has just been made looks like one of no use."""
        self._swept.set()
        self._news = asyncio.Event()

    def start(self, start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]) -> asyncio.Task[None]:
        """Begin to sweep, to record the first state, and to remove what expires, in the background."""
        self._swept.clear()
        return start(self._run(), "checkpoints")

    async def _run(self) -> None:
        parts, root = self._parts, self._conversations.root
        try:
            await self._drop_left_memory()
            folder, now = stored_folder(parts.environment.home), parts.clock.now()
            await sweep_shadows(folder, self._workspaces.limits, now, parts.environment.variables)
            self._swept.set()
            if root.terms.rights.sandbox != "read_only" and self._workspaces.allows(root.storage):
                await self._workspaces.of(root, root.storage).prepare(self._workspaces.expires(root.storage))
        except (TertuliaError, OSError) as error:
            self._warn(error, root.id)
        finally:
            self._swept.set()
        shortest_s = _SHORTEST_S
        while True:
            await self._rest(shortest_s)
            swept = [await self._sweep(place) for place in self._workspaces.made()]
            shortest_s = _SHORTEST_S if all(swept) else _AGAIN_S

    async def _sweep(self, place: WorkspaceCheckpoints) -> bool:
        """Remove of one workspace what is due. What fails is a warning, and False: it is tried again later."""
        place.shadow.new_bytes = 0
        try:
            async with place.shadow.held():
                await sweep_shadow(place.shadow, self._workspaces.limits, self._parts.clock.now())
        except (TertuliaError, OSError) as error:
            self._warn(error, self._conversations.root.id)
            return False
        return True

    async def _rest(self, shortest_s: float) -> None:
        """Wait until something expires; where nothing does, until a policy says that something will."""
        self._news.clear()
        age = self._workspaces.limits.max_age_s
        times = [next_expiry(place.shadow.manifest, age) for place in self._workspaces.made()]
        left = [time - self._parts.clock.now() for time in times if time is not None]
        with suppress(TimeoutError):
            async with asyncio.timeout(max(shortest_s, min(left)) if left else None):
                await self._news.wait()

    async def _drop_left_memory(self) -> None:
        """Remove what killed sessions have left in memory, after restores that they had begun are undone."""
        for folder in memory_folders():
            if (number := hold_memory(folder)) is not None:
                await self._recover(folder / "journals")
                drop_memory(folder, number)

    async def before_change(self, scope: TaskScope, calls: Sequence[CheckedCall]) -> None:
        """Before calls run: record the workspace, if one of them may write and none of the task has before."""
        if scope.task_id not in self._open:
            # Loaded with the first call: few messages are answered without one, and those need it not at all.
            from tertulia.session.checkpoints.writing_calls import may_write

            rights, cwd = scope.rights(), scope.conversation.terms.cwd
            if any(may_write(call, rights, cwd) for call in calls):
                await self.before_task(scope)

    async def before_task(self, scope: TaskScope) -> None:
        """Record the workspace before a task that may write."""
        conversation, storage = scope.conversation, scope.storage()
        window = Window(
            id=new_checkpoint_id(),
            cause="task",
            session_id=self._parts.session_id,
            conversation_id=conversation.id,
            task_id=scope.task_id,
            trace_id=scope.scope.trace_id,
            callers=tuple(scope.chain().callers),
            began=self._parts.clock.now(),
            before="",
            expires=self._workspaces.expires(storage),
        )
        if not self._workspaces.allows(storage):
            self._note_unrecorded(conversation, window)
            return
        try:
            await self._swept.wait()
            place = self._workspaces.of(conversation, storage)
            window, captured = await place.begin(window)
        except (TertuliaError, OSError) as error:
            self._warn(error, conversation.id)
            return
        self._open[scope.task_id] = (place, window)
        self._note_news(place, window)
        scope.publish(checkpoint_event(window, captured.left_out, is_after=False))

    async def at_end(self, scope: TaskScope) -> None:
        """At the end of a task: record the workspace, if it was recorded before it."""
        for place in self._workspaces.made():
            place.unrecorded = [_ended(window, self._parts.clock.now(), scope.task_id) for window in place.unrecorded]
        if (opened := self._open.pop(scope.task_id, None)) is None:
            return
        place, window = opened
        try:
            ended = await place.end(window)
        except (TertuliaError, OSError) as error:
            self._warn(error, scope.conversation.id)
            return
        if ended is not None:
            self._note_news(place, ended[0])
            scope.publish(checkpoint_event(ended[0], ended[1].left_out, is_after=True))

    def _note_news(self, place: WorkspaceCheckpoints, window: Window) -> None:
        """Wake the sweeper where something will expire, or where much was recorded since it last looked."""
        most = self._workspaces.limits.max_bytes
        is_much = most is not None and place.shadow.new_bytes > most * _MUCH
        if is_much or window.expires is not None:
            self._news.set()

    def _note_unrecorded(self, conversation: ConversationState, window: Window) -> None:
        """Remember, while the session runs, that a task wrote of which nothing may be stored."""
        for place in self._workspaces.beside(conversation):
            if all(other.task_id != window.task_id for other in place.unrecorded):
                place.unrecorded.append(window)

    async def forget(self, conversation: ConversationState) -> None:
        """A conversation has a stricter storage policy: remove what it may not keep any more."""
        policy, now = conversation.storage, self._parts.clock.now()

        def is_over(window: Window) -> bool:
            if window.conversation_id != conversation.id or isinstance(policy, Full):
                return False
            return not isinstance(policy, Ttl) or window.began + policy.seconds <= now

        place = self._workspaces.stored(conversation)
        if not place.shadow.folder.is_dir():
            return
        async with place.shadow.held():
            if isinstance(policy, Ttl):
                manifest = place.shadow.manifest
                manifest.windows = [_shortened(window, conversation.id, policy.seconds) for window in manifest.windows]
                manifest.write()
                self._news.set()
            await sweep_shadow(place.shadow, self._workspaces.limits, now, is_over)

    def close(self) -> None:
        """The session is closed: what is in memory goes."""
        self._workspaces.close()

    def _warn(self, error: TertuliaError | OSError, conversation: ConversationId) -> None:
        """Say once what keeps checkpoints from being made."""
        reason = error.message if isinstance(error, TertuliaError) else error.strerror or str(error)
        if reason not in self._warned:
            self._warned.add(reason)
            text = f"no checkpoint of the files was made, and what follows cannot be undone: {reason}"
            self._bus.publish(WarningEvent(text, FAILED), EventScope("", conversation))


def _ended(window: Window, now: float, task_id: str) -> Window:
    return replace(window, ended=now) if window.task_id == task_id and window.ended is None else window


def _shortened(window: Window, conversation_id: str, seconds: float) -> Window:
    if window.conversation_id != conversation_id:
        return window
    latest = window.began + seconds
    return replace(window, expires=latest if window.expires is None else min(window.expires, latest))
