"""Sends the messages of a stored session to another model, in a copy of the files that the session began with.

The other settings are those of now. Commands are confined as always, with at most the rights that the session had and
never more than to write the copy; no question is asked: what would need an approval is refused. The directory of the
session itself is masked, so that the model finds neither what the session has made of it nor can change it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tertulia.errors import TertuliaError
from tertulia.evals.recorded.stored_session import RepeatableSession, StoredMessage
from tertulia.policy.host_rules import NetworkOrder
from tertulia.policy.orders import SANDBOX_ORDER
from tertulia.protocol.storage import strictest
from tertulia.sandbox.masks.guarded_paths import is_inside
from tertulia.session.inputs import MessageContent
from tertulia.session.rights.hidden_places import hide_places
from tertulia.session.session import Session
from tertulia.session.settings.settings import Settings
from tertulia.view.board import Board

STOPPED = "stopped"
"""The failure of one that the user has ended."""


class Rerun(msgspec.Struct, frozen=True):
    """What the other model did with the messages."""

    session_id: str
    root_id: str
    board: Board
    answered: int
    """How many messages were answered."""
    failure: str | None = None
    """Why the messages after those were not sent."""


def rerun_settings(session: RepeatableSession, settings: Settings, copy: Path, masked: Sequence[str]) -> Settings:
    """The settings for a copy of the files; `masked`: what `places_apart` names."""
    return replace(
        settings,
        cwd=str(copy),
        sandbox=SANDBOX_ORDER.meet(settings.rights.sandbox, session.sandbox),
        network=NetworkOrder().meet(settings.rights.network, session.network),
        # The copy alone.
        writable_roots=None,
        storage_policy=strictest(settings.rights.storage_policy, session.storage),
        masks={**settings.masks, "add": (*settings.masks.get("add", ()), *masked)},
        checkpoints=False,
        unattended=True,
        session_sockets=False,
        notify=(),
    )


def places_apart(original: str, copy: Path) -> list[str]:
    """The directory of the session, to be masked; not where it and the copy lie in one another."""
    apart = bool(original) and not is_inside(str(copy), original) and not is_inside(original, str(copy))
    return [original] if apart else []


async def rerun(
    session: RepeatableSession,
    settings: Settings,
    hidden: Sequence[str],
    stopped: asyncio.Event,
    asking: Callable[[int], None] = lambda number: None,
) -> Rerun:
    """Send the messages one after the other, each after the answer to the one before.

    Args:
        session: Whose messages.
        settings: As `rerun_settings` made them.
        hidden: What programs outside the sandbox do not see either.
        stopped: Ends it, with what there is until then.
        asking: Called before each message, with its number.

    Raises:
        TertuliaError: No session could be begun.
    """
    board = Board()
    async with Session(settings) as other, asyncio.TaskGroup() as group:
        group.create_task(_follow(other, board))
        try:
            await hide_places(other, hidden)
            answered, failure = await _send(other, session.messages, stopped, asking)
        finally:
            # Closed here, so that the events end and with them the group.
            await other.close()
    return Rerun(str(other.id), str(other.root.id), board, answered, failure)


async def _follow(session: Session, board: Board) -> None:
    async for event in session.events(after=0):
        board.take(event)


async def _send(
    session: Session, messages: tuple[StoredMessage, ...], stopped: asyncio.Event, asking: Callable[[int], None]
) -> tuple[int, str | None]:
    """(how many were answered, why no more)."""
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(stopped.wait())
        try:
            for number, message in enumerate(messages):
                asking(number + 1)
                answering = group.create_task(_ask(session, message))
                await asyncio.wait([answering, stopping], return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    # Giving up the wait is what stops the task.
                    answering.cancel()
                    return number, STOPPED
                if (failure := answering.result()) is not None:
                    return number, failure
        finally:
            stopping.cancel()
    return len(messages), None


async def _ask(session: Session, message: StoredMessage) -> str | None:
    """Why it was not answered."""
    try:
        reply = await session.root.message(_content(message))
    except TertuliaError as error:
        return error.message
    if reply.error is not None:
        return reply.error.message
    return None if reply.status == "completed" else f"its task was {reply.status}"


def _content(message: StoredMessage) -> MessageContent:
    return message.text if not message.pictures else [msgspec.to_builtins(part) for part in message.parts]
