"""What tasks call at their steps: checkpoints are made, from the first tool call of a session, before a task first
writes, and at its end; and the user's hooks are asked.

Light: what makes them is loaded with the first one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.terms import NATIVE
from tertulia.protocol.events import WarningEvent
from tertulia.session.parts import SessionParts
from tertulia.tools.dispatch import CheckedCall
from tertulia.tools.tool import CallHooks

if TYPE_CHECKING:
    from tertulia.session.checkpoints.keeper import CheckpointKeeper

UNAVAILABLE = "checkpoints_unavailable"
BeforeChange = Callable[[TaskScope, Sequence[CheckedCall]], Awaitable[object]]
AtEnd = Callable[[TaskScope, str], Awaitable[object]]


def has_checkpoints(parts: SessionParts) -> bool:
    """Whether files are recorded in this session, where a storage policy allows it."""
    return bool(parts.settings.checkpoints) and not parts.settings.is_broker and parts.no_checkpoints is None


def report_missing(parts: SessionParts) -> None:
    """Say once why files are not recorded, where they should be and git is the reason."""
    if parts.no_checkpoints is not None and "git" in parts.no_checkpoints:
        text = f"what tasks do to files cannot be undone: {parts.no_checkpoints}"
        parts.bus.publish(WarningEvent(text, UNAVAILABLE))


def _recording(parts: SessionParts) -> CheckpointKeeper:
    """The checkpoints of a session that uses tools. With its first call the files are recorded in the background.

    Not when the session opens: one that only talks would read the whole workspace and leave a copy of it behind.
    """
    if parts.made.checkpoints is None:
        parts.at_close.append(parts.checkpoints.start(parts.nursery.start).cancel)
    return parts.checkpoints


async def before_task(parts: SessionParts, scope: TaskScope) -> None:
    """Ask the user's hooks, and record the files before a task of another program, whose calls are not seen before
    they run.
    """
    if parts.hooks is not None:
        await parts.hooks.task_start(scope)
    if scope.conversation.terms.backend != NATIVE and has_checkpoints(parts):
        await _recording(parts).before_task(scope)


def task_hooks(parts: SessionParts) -> tuple[BeforeChange | None, AtEnd | None, CallHooks | None]:
    """What tasks call before calls run, at their ends, and around each call; None where there is nothing to do."""
    hooks = parts.hooks
    if not has_checkpoints(parts):
        return None, None if hooks is None else hooks.task_end, hooks

    async def before_change(scope: TaskScope, calls: Sequence[CheckedCall]) -> None:
        await _recording(parts).before_change(scope, calls)

    async def at_end(scope: TaskScope, status: str) -> None:
        if hooks is not None:
            await hooks.task_end(scope, status)
        if (checkpoints := parts.made.checkpoints) is not None:
            await checkpoints.at_end(scope)

    return before_change, at_end, hooks
