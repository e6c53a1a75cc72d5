"""The answers of the operations that concern agents: their canvases, and the calls they make back."""

from __future__ import annotations

from typing import Any

from tertulia.context.canvas import Canvas
from tertulia.protocol.ids import ConversationId
from tertulia.session.answers import Answer


class CanvasAnswer(Answer, frozen=True):
    """The answer to `canvas/get`: one canvas."""

    html: str
    title: str | None
    updated_at: str
    revision: int


class CanvasInfo(Answer, frozen=True):
    """One line of `canvas/list`: without the page."""

    conversation_id: ConversationId
    title: str | None
    updated_at: str
    revision: int
    bytes: int


class CanvasList(Answer, frozen=True):
    """`canvas/list`: those that show something."""

    canvases: list[CanvasInfo]


class CanvasClearAnswer(Answer, frozen=True):
    """`canvas/clear`: whether there was anything to take away."""

    cleared: bool


class TokenOwner(Answer, frozen=True):
    """`internal/validate_token`: the agent that a token belongs to."""

    agent_name: str
    session_id: str
    pid: int | None


class InternalCallAnswer(Answer, frozen=True):
    """`internal/call`: whatever the tool answered, as plain data."""

    result: Any


def canvas_info(conversation: str, shown: Canvas) -> CanvasInfo:
    """One line of `canvas/list`: what `canvas/get` says, without the page."""
    size = len(shown.html.encode())
    return CanvasInfo(ConversationId(conversation), shown.title, shown.updated_at, shown.revision, size)
