"""Watches one running session of this process, and reports when its card changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from tertulia.errors import TertuliaError
from tertulia.protocol.items import UserMessage
from tertulia.rollout.sqlite.session_index import SessionEntry
from tertulia.session.host_feed.cards import SessionCard
from tertulia.session.session import Session

EVERY_S = 0.25
"""The shortest time between two reports about a session."""
_PREVIEW = 200
_LIMIT = 100
_TYPES = frozenset({
    "conversation_opened", "conversation_closed", "conversation_context_changed", "task_started", "task_continued",
    "task_complete", "turn_aborted", "user_message", "token_count", "approval_request", "approval_resolved",
    "elicitation_request", "elicitation_resolved",
})  # fmt: skip
"""Events after which a card may be another."""


class _Past(msgspec.Struct, frozen=True):
    """What a session was before the events that its bus still has."""

    started_at: str
    tokens: int = 0
    cost_usd: float | None = None


class SessionWatch:
    """Notices every change from its creation on. Nothing runs while nothing happens."""

    def __init__(self, session: Session, read_entry: Callable[[str], Awaitable[SessionEntry]]) -> None:
        self._session = session
        self._read_entry = read_entry
        # No client reads: the session may be closed when it is idle.
        self._events = session.parts.bus.subscribe(background=True, passing=False, types=_TYPES, limit=_LIMIT)
        self._past = _Past(session.parts.timestamps())
        self._preview: str | None = None
        self.prepared = asyncio.Event()
        """Set when cards can be made, or no more."""
        self.is_running = False
        self.last: SessionCard | None = None
        """The card that was made last."""

    async def _read_past(self) -> _Past:
        parts = self._session.parts
        first, events = parts.bus.recent_events(0)
        if parts.epoch == 0 and first == 1 and events:
            return _Past(events[0].ts)
        # Of a session that is not stored only what the bus has is known.
        with suppress(TertuliaError):
            entry = await self._read_entry(parts.session_id)
            now = self._session.activity.totals
            cost = None if entry.cost_usd is None else max(0.0, entry.cost_usd - (now.cost_usd or 0.0))
            tokens = max(0, entry.tokens - now.usage.total_tokens)
            return _Past(parts.timestamps.at(entry.created), tokens, cost)
        return self._past

    def card(self) -> SessionCard:
        """The session as it is now."""
        parts, activity = self._session.parts, self._session.activity
        root, totals = parts.conversations.root, activity.totals
        past = self._past
        costs = [cost for cost in (past.cost_usd, totals.cost_usd) if cost is not None]
        running, questions = activity.running, activity.questions
        last_active = max(conversation.last_active for conversation in parts.conversations)
        self.last = SessionCard(
            session_id=parts.session_id,
            where="here",
            title=None if root.title is None else parts.redactor.without_tokens(root.title),
            preview=self._find_preview(),
            cwd=self._session.root.details.cwd,
            model=root.terms.wire.name,
            state="asking" if questions else "running" if running else "idle",
            running=running,
            questions=questions,
            conversations=activity.conversations,
            tokens=past.tokens + totals.usage.total_tokens,
            cost_usd=sum(costs) if costs else None,
            started_at=past.started_at,
            last_active_at=parts.timestamps.at(last_active),
        )
        return self.last

    async def run(self, changed: Callable[[SessionCard], None]) -> None:
        """Call `changed` with each card that differs from the one before, until the session is closed."""
        before: SessionCard | None = None
        try:
            self._past = await self._read_past()
            self.is_running = True
            self.prepared.set()
            while await self._events.wait():
                while self._events.next_nowait() is not None:
                    pass
                if not self._session.closed and (card := self.card()) != before:
                    before = card
                    changed(card)
                    # What happens meanwhile waits in the queue: the last of it is told, too.
                    await asyncio.sleep(EVERY_S)
        finally:
            self.is_running = False
            self.prepared.set()
            self._events.close()

    def _find_preview(self) -> str | None:
        if self._preview is None:
            parts = self._session.parts
            history = parts.conversations.root.history.snapshot()
            text = next((item.text for item in history if isinstance(item, UserMessage) and not item.injected), None)
            if text is not None:
                self._preview = parts.redactor.without_tokens(" ".join(text[: 4 * _PREVIEW].split())[:_PREVIEW])
        return self._preview
