"""Closes a conversation or the whole session, in order and in time. Closing twice does no harm."""

from __future__ import annotations

import asyncio
import logging

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_handle import TaskHandle
from tertulia.errors import InvalidParamsError, StorageError, TertuliaError
from tertulia.models.wire import Wire
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import CloseSession
from tertulia.session.answers import CloseAnswer
from tertulia.session.inputs import parse
from tertulia.session.parts import SessionParts
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.values import MAX_CLOSE_TIMEOUT_S

_log = logging.getLogger(__name__)
SERVERS_GRACE_S = 8.0
"""Seconds that MCP servers have to end by themselves."""
_LAST_GRACE_S = 0.5
"""Seconds for background work that is left when everything else has stopped."""
_FOLLOWERS_GRACE_S = 5.0
"""Seconds that programs outside have to take the last spans and notifications."""
_MOST_GRACES = 20
"""How often the wait for a journal is extended while its store makes progress."""
_ALREADY = CloseAnswer(closed=True, already_closed=True, forced=False)


async def close_conversation(parts: SessionParts, conversation_id: str, timeout: float | None) -> CloseAnswer:
    """Stop its task within the timeout, or abandon it and say so; then let the conversation go."""
    seconds = close_seconds(parts.settings, timeout)
    conversations = parts.conversations
    if conversations.closed or conversation_id in conversations.gone:
        return _ALREADY
    under_way = parts.closing.get(ConversationId(conversation_id))
    if under_way is not None:
        await asyncio.wait((under_way,))
        return _ALREADY
    conversation = conversations.find(conversation_id)
    if conversation is conversations.root:
        raise InvalidParamsError("the root conversation cannot be closed alone; close the session")
    closing = start_closing(parts, conversation, seconds)
    await asyncio.wait((closing,))
    return _ALREADY if closing.cancelled() else closing.result()


def start_closing(parts: SessionParts, conversation: ConversationState, seconds: float) -> asyncio.Task[CloseAnswer]:
    """Close the conversation for every client from now on, and ask what runs there to stop.

    Its own task may ask for that; every other caller waits for what comes back.
    """
    conversation.closed = True
    last = parts.scheduler.release(conversation, seconds)
    # A coroutine of its own: a caller that gives up waiting must not leave a conversation half closed.
    closing = parts.closing[conversation.id] = parts.nursery.start(
        _close(parts, conversation, last), f"close {conversation.id}"
    )
    return closing


async def _close(parts: SessionParts, conversation: ConversationState, last: list[TaskHandle]) -> CloseAnswer:
    remaining: str | None = None
    try:
        for handle in last:
            await handle.ended.wait()
        if (servers := parts.made.servers) is not None:
            await servers.forget(conversation.id)
        if (services := parts.made.command_services) is not None:
            await services.forget(conversation.id)
        if conversation.terms.worktree is not None:
            remaining = await parts.worktrees.release(conversation)
    finally:
        forced = any(handle.abandoned for handle in last)
        # The scheduler does it by itself too, but a conversation must not be gone before its calls are answered.
        parts.scheduler.forsake(conversation)
        parts.conversations.forget(conversation, forced=forced)
        del parts.closing[conversation.id]
    await parts.bus.flush()
    return CloseAnswer(closed=True, already_closed=False, forced=forced, kept_worktree=remaining)


def stop_accepting(parts: SessionParts) -> None:
    """Close the session for every client from now on: it accepts nothing that its end would only interrupt."""
    parts.conversations.closed = True
    parts.scheduler.closing = True
    while parts.at_close:
        parts.at_close.pop()()


async def close_session(parts: SessionParts | None, seconds: float) -> bool:
    """Stop everything in order, within the timeout and a little; whether something had to be abandoned.

    A session that was never entered has no parts.
    """
    if parts is None:
        return False
    until = parts.clock.monotonic() + seconds
    stop_accepting(parts)
    if (services := parts.made.command_services) is not None:
        services.approvals.close()
    try:
        async with asyncio.timeout(seconds + _LAST_GRACE_S):
            try:
                forced = await parts.scheduler.close(seconds)
            finally:
                # It may have been made while the last tasks ended.
                if (services := parts.made.command_services) is not None:
                    await services.close()
                if parts.made.checkpoints is not None:
                    parts.made.checkpoints.close()
                if parts.made.worktrees is not None or any(c.terms.worktree is not None for c in parts.conversations):
                    await parts.worktrees.close()
            await parts.bus.flush()
    except (TertuliaError, TimeoutError):
        # The journal could not keep the last events, or does not answer. Closing goes on all the same.
        forced = True
    left = max(_LAST_GRACE_S, min(_FOLLOWERS_GRACE_S, until - parts.clock.monotonic()))
    await asyncio.gather(*(follower.close(left) for follower in parts.followers))
    # Servers end by themselves within what is left of the time, and are killed after it.
    left = max(0.0, min(SERVERS_GRACE_S, until - parts.clock.monotonic()))
    await _close_servers(parts, left)
    closed = parts.nursery.start(_close_journal(parts), "close the journal")
    await _wait_in_line(parts, closed)
    forced = forced or not (closed.done() and closed.result())
    used = (conversation.terms.wire for conversation in parts.conversations)
    wires = {id(wire): wire for wire in (*used, *parts.wires.made())}.values()
    # As tasks, so that one that fails or hangs does not keep the others open.
    await asyncio.wait(
        [parts.nursery.start(_close_wire(wire), "close a wire") for wire in wires], timeout=_LAST_GRACE_S
    )
    left = await parts.nursery.close(_LAST_GRACE_S)
    parts.bus.close()
    return forced or left > 0


async def _close_servers(parts: SessionParts, seconds: float) -> None:
    """Make the tokens of agents invalid, and end the MCP servers that no other session uses."""
    made = parts.made
    if made.agent_registry is not None:
        made.agent_registry.close()
    if made.servers is not None:
        await made.servers.close(seconds)
    if made.mcp_host is not None and parts.host is None:
        await made.mcp_host.close(seconds)


async def _wait_in_line(parts: SessionParts, closed: asyncio.Task[bool]) -> None:
    """Wait for the journal as long as its store makes progress, up to a limit: closing sessions share one disk."""
    # Loaded with the first session: the name of a class should not bring in the store.
    from tertulia.session.resume.store_choice import progress_of

    progress = -1
    for _ in range(_MOST_GRACES):
        before, progress = progress, progress_of(parts.journal)
        if closed.done() or progress == before:
            return
        await asyncio.wait([closed], timeout=_LAST_GRACE_S)


async def _close_journal(parts: SessionParts) -> bool:
    """Whether all that was acknowledged is really stored (R1)."""
    try:
        await parts.journal.close()
    except StorageError as error:
        _log.error("the session was not closed properly: %s", error.message)
        return False
    return True


async def _close_wire(wire: Wire) -> None:
    # Called in here, so that a wire that breaks its contract breaks nothing else.
    await wire.close()


def close_seconds(settings: Settings, timeout: float | None) -> float:
    """How long a close may take; InvalidParams for what is no such time."""
    timeout_s = parse(CloseSession, {"timeout_s": timeout}).timeout_s
    seconds = settings.close_timeout_s if timeout_s is None else timeout_s
    if not 0 <= seconds <= MAX_CLOSE_TIMEOUT_S:
        raise InvalidParamsError(f"timeout must be between 0 and {MAX_CLOSE_TIMEOUT_S:,} seconds, not {seconds}")
    return seconds
