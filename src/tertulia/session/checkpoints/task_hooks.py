"""When checkpoints are made: from the start of a session, before the first call of a task that writes, at its end.

Light: what makes them is loaded with the first one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tertulia.conversation.task_scope import TaskScope
from tertulia.protocol.events import WarningEvent
from tertulia.session.parts import SessionParts
from tertulia.tools.dispatch import CheckedCall

UNAVAILABLE = "checkpoints_unavailable"
BeforeChange = Callable[[TaskScope, Sequence[CheckedCall]], Awaitable[object]]
AtEnd = Callable[[TaskScope], Awaitable[object]]


def has_checkpoints(parts: SessionParts) -> bool:
    """Whether files are recorded in this session, where a storage policy allows it."""
    return bool(parts.settings.checkpoints) and not parts.settings.is_broker and parts.no_checkpoints is None


def start_checkpoints(parts: SessionParts) -> None:
    """Begin to record the files in the background, or say once why not."""
    if has_checkpoints(parts):
        # A run that answers one message often changes nothing: there the first call begins it.
        if not parts.settings.unattended:
            _start_recording(parts)
    elif parts.no_checkpoints is not None and "git" in parts.no_checkpoints:
        text = f"what tasks do to files cannot be undone: {parts.no_checkpoints}"
        parts.bus.publish(WarningEvent(text, UNAVAILABLE))


def _start_recording(parts: SessionParts) -> None:
    parts.at_close.append(parts.nursery.start(_record(parts), "checkpoints").cancel)


async def _record(parts: SessionParts) -> None:
    await parts.checkpoints.run()


def checkpoint_hooks(parts: SessionParts) -> tuple[BeforeChange | None, AtEnd | None]:
    """What tasks call before calls run and at their ends; None where nothing is recorded."""
    if not has_checkpoints(parts):
        return None, None
    records = not parts.settings.unattended

    async def before_change(scope: TaskScope, calls: Sequence[CheckedCall]) -> None:
        nonlocal records
        if not records:
            records = True
            _start_recording(parts)
        await parts.checkpoints.before_change(scope, calls)

    async def at_end(scope: TaskScope) -> None:
        if (checkpoints := parts.made.checkpoints) is not None:
            await checkpoints.at_end(scope)

    return before_change, at_end
