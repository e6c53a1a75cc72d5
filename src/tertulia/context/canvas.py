"""The canvases of a session: one page of HTML for each conversation that may have one.

A page is never parsed: only tokens are removed from it. A client that shows a page must isolate it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tertulia.context.definitions import Handler, InternalCaller, may_use
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.protocol.inputs import check_text
from tertulia.protocol.tool_events import CanvasUpdated

MAX_BYTES = 512 * 1024
"""The most bytes of a page, in UTF-8."""
MAX_TITLE = 200


class Canvas(msgspec.Struct, frozen=True):
    """The page of one conversation, with its revision."""

    html: str
    title: str | None
    updated_at: str
    """Time of the last update, RFC 3339 in UTC."""
    revision: int
    """Grows with every change of this conversation's canvas, also when it is cleared."""


class _CanvasSlot:
    """The canvas of a conversation; the revision is kept when the page is cleared."""

    __slots__ = ("archetype", "canvas", "revision")

    def __init__(self, archetype: str) -> None:
        self.archetype = archetype
        self.canvas: Canvas | None = None
        self.revision = 0


class CanvasStore:
    """Pages by conversation. NotFoundError for a conversation that was not opened here or has no page.

    `publish` is called with the conversation's id and the event, for every change.
    """

    def __init__(
        self,
        publish: Callable[[str, CanvasUpdated], object] | None = None,
        clock: Clock | None = None,
        clean: Callable[[str], str] | None = None,
    ) -> None:
        """`clean` removes tokens from a page."""
        self._publish = publish
        self._clean = clean or str
        self._now = Timestamps(clock or SystemClock())
        self._slots: dict[str, _CanvasSlot] = {}

    def open(self, conversation_id: str, archetype: str, canvas: Canvas | None = None, revision: int = 0) -> None:
        """Open the canvas of an agent's conversation; a resumed one with the page and revision that it had."""
        slot = self._slots[conversation_id] = _CanvasSlot(archetype)
        slot.revision = revision if canvas is None else canvas.revision
        if canvas is not None:
            slot.canvas = canvas if may_use(archetype, "service") else None

    def close(self, conversation_id: str) -> None:
        """Drop the canvas of a conversation that has ended. Idempotent."""
        self._slots.pop(conversation_id, None)

    def update(self, conversation_id: str, html: object, title: object = None) -> Canvas:
        """Replace the page. If this raises, nothing has changed."""
        slot = self._slot(conversation_id)
        if not may_use(slot.archetype, "service"):
            raise InvalidParamsError(f"an agent of the archetype {slot.archetype!r:.40} has no canvas")
        page, headline = _check_html(html), _check_title(title)
        slot.revision += 1
        shown = None if headline is None else self._clean(headline)
        slot.canvas = canvas = Canvas(self._clean(page), shown, self._now(), slot.revision)
        self._tell(conversation_id, slot)
        return canvas

    def clear(self, conversation_id: str) -> bool:
        """Remove the page; returns whether there was one."""
        slot = self._slot(conversation_id)
        if slot.canvas is None:
            return False
        slot.canvas = None
        slot.revision += 1
        self._tell(conversation_id, slot)
        return True

    def get(self, conversation_id: str) -> Canvas:
        """The page of a conversation; NotFoundError where there is none."""
        canvas = self._slot(conversation_id).canvas
        if canvas is None:
            raise NotFoundError(f"conversation {conversation_id!r:.80} shows nothing on its canvas")
        return canvas

    def peek(self, conversation_id: str) -> Canvas | None:
        """The page of a conversation, or None."""
        slot = self._slots.get(conversation_id)
        return None if slot is None else slot.canvas

    def list(self) -> dict[str, Canvas]:
        """Every page by conversation, in the order in which the conversations were opened."""
        return {key: slot.canvas for key, slot in self._slots.items() if slot.canvas is not None}

    def handlers(self) -> dict[str, Handler]:
        """The handlers of `canvas.update` and `canvas.clear`; the caller's token decides which canvas they change."""

        async def update(call: InternalCaller, arguments: dict[str, Any]) -> dict[str, Any]:
            canvas = self.update(call.session_id, arguments.get("html"), arguments.get("title"))
            return {"ok": True, "revision": canvas.revision}

        async def clear(call: InternalCaller, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"ok": True, "cleared": self.clear(call.session_id)}

        return {"canvas.update": update, "canvas.clear": clear}

    def _slot(self, conversation_id: str) -> _CanvasSlot:
        slot = self._slots.get(conversation_id)
        if slot is None:
            raise NotFoundError(f"conversation {conversation_id!r:.80} has no agent with a canvas")
        return slot

    def _tell(self, conversation_id: str, slot: _CanvasSlot) -> None:
        if self._publish is not None:
            canvas = slot.canvas
            title, size = (None, 0) if canvas is None else (canvas.title, len(canvas.html.encode()))
            self._publish(conversation_id, CanvasUpdated(slot.revision, title, size))


def _check_html(html: object) -> str:
    if not isinstance(html, str):
        raise InvalidParamsError(f"html must be a text, not {type(html).__name__}")
    size = len(check_text(html, "html").encode())
    if size > MAX_BYTES:
        raise InvalidParamsError(f"html is {size:,} bytes long; the limit is {MAX_BYTES:,}")
    return html


def _check_title(title: object) -> str | None:
    if title is None:
        return None
    if not isinstance(title, str) or len(title) > MAX_TITLE:
        raise InvalidParamsError(f"title must be a text of at most {MAX_TITLE} characters")
    return check_text(title, "title")
