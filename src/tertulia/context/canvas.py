"""The canvases of a session: one page of HTML for each conversation that may have one.

Kept as it came and never looked into. Whoever shows it must do so in isolation.
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
"""Of a page, as UTF-8."""
MAX_TITLE = 200


class Canvas(msgspec.Struct, frozen=True):
    """What a canvas shows."""

    html: str
    title: str | None
    updated_at: str
    """RFC 3339, UTC."""
    revision: int
    """Grows with every change of this conversation's canvas, also when it is cleared."""


class _CanvasSlot:
    """A place for a canvas; its revision outlives the page."""

    __slots__ = ("archetype", "canvas", "revision")

    def __init__(self, archetype: str) -> None:
        self.archetype = archetype
        self.canvas: Canvas | None = None
        self.revision = 0


class CanvasStore:
    """Pages by conversation. One that was never opened here is not found, as is a page that was never drawn.

    `publish` is told of every change, with the conversation that it happened in.
    """

    def __init__(
        self,
        publish: Callable[[str, CanvasUpdated], object] | None = None,
        clock: Clock | None = None,
        clean: Callable[[str], str] | None = None,
    ) -> None:
        """`clean` takes out of a page what nobody may see."""
        self._publish = publish
        self._clean = clean or str
        self._now = Timestamps(clock or SystemClock())
        self._easels: dict[str, _CanvasSlot] = {}

    def open(self, conversation_id: str, archetype: str, canvas: Canvas | None = None, revision: int = 0) -> None:
        """A conversation with an agent has begun, or goes on with the canvas and the revision that it had."""
        easel = self._easels[conversation_id] = _CanvasSlot(archetype)
        easel.revision = revision if canvas is None else canvas.revision
        if canvas is not None:
            easel.canvas = canvas if may_use(archetype, "service") else None

    def close(self, conversation_id: str) -> None:
        """The conversation has ended, and its canvas with it. Idempotent."""
        self._easels.pop(conversation_id, None)

    def update(self, conversation_id: str, html: object, title: object = None) -> Canvas:
        """Show this page instead of the one before. A refusal changes nothing."""
        easel = self._easel(conversation_id)
        if not may_use(easel.archetype, "service"):
            raise InvalidParamsError(f"an agent of the archetype {easel.archetype!r:.40} has no canvas")
        page, headline = _check_html(html), _check_title(title)
        easel.revision += 1
        shown = None if headline is None else self._clean(headline)
        easel.canvas = canvas = Canvas(self._clean(page), shown, self._now(), easel.revision)
        self._tell(conversation_id, easel)
        return canvas

    def clear(self, conversation_id: str) -> bool:
        """Take the page away; whether there was one."""
        easel = self._easel(conversation_id)
        if easel.canvas is None:
            return False
        easel.canvas = None
        easel.revision += 1
        self._tell(conversation_id, easel)
        return True

    def get(self, conversation_id: str) -> Canvas:
        """What a canvas shows."""
        canvas = self._easel(conversation_id).canvas
        if canvas is None:
            raise NotFoundError(f"conversation {conversation_id!r:.80} shows nothing on its canvas")
        return canvas

    def peek(self, conversation_id: str) -> Canvas | None:
        """What a canvas shows, if there is one and it shows anything."""
        easel = self._easels.get(conversation_id)
        return None if easel is None else easel.canvas

    def list(self) -> dict[str, Canvas]:
        """Every canvas that shows something, by conversation, in the order in which these were opened."""
        return {key: easel.canvas for key, easel in self._easels.items() if easel.canvas is not None}

    def handlers(self) -> dict[str, Handler]:
        """The answers to `canvas.update` and `canvas.clear`; which canvas it is comes from the caller's token."""

        async def update(call: InternalCaller, arguments: dict[str, Any]) -> dict[str, Any]:
            canvas = self.update(call.session_id, arguments.get("html"), arguments.get("title"))
            return {"ok": True, "revision": canvas.revision}

        async def clear(call: InternalCaller, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"ok": True, "cleared": self.clear(call.session_id)}

        return {"canvas.update": update, "canvas.clear": clear}

    def _easel(self, conversation_id: str) -> _CanvasSlot:
        easel = self._easels.get(conversation_id)
        if easel is None:
            raise NotFoundError(f"conversation {conversation_id!r:.80} has no agent with a canvas")
        return easel

    def _tell(self, conversation_id: str, easel: _CanvasSlot) -> None:
        if self._publish is not None:
            canvas = easel.canvas
            title, size = (None, 0) if canvas is None else (canvas.title, len(canvas.html.encode()))
            self._publish(conversation_id, CanvasUpdated(easel.revision, title, size))


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
