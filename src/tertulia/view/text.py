"""The words and marks of screens: one wording for terminal, page, plain output and notifications."""

from __future__ import annotations

import shlex
from typing import Any, cast

from tertulia.view import cells as c
from tertulia.view.conversation_view import ConversationState, ConversationView

STATE_MARKS: dict[ConversationState, str] = {
    "idle": "○",
    "running": "●",
    "waiting": "◐",
    "asking": "?",
    "failed": "✗",
    "closed": "·",
}
ASCII_MARKS: dict[ConversationState, str] = {
    "idle": "o",
    "running": "*",
    "waiting": "~",
    "asking": "?",
    "failed": "x",
    "closed": ".",
}
STATE_WORDS: dict[ConversationState, str] = {
    "idle": "ready",
    "running": "works",
    "waiting": "waits for an answer",
    "asking": "asks you",
    "failed": "failed",
    "closed": "closed",
}
_SHORT_ID = 8
_MAX_HEADLINE = 200


def name_of(view: ConversationView, root_id: str | None = None) -> str:
    """What a conversation is called."""
    if view.title:
        return view.title
    return "root" if view.id == root_id else str(view.id)[:_SHORT_ID]


def headline(call: c.Call) -> str:
    """A call in one line: the command, the files, the conversation or the tool."""
    match call:
        case c.CommandCell():
            text = f"$ {shlex.join(call.command)}"
        case c.PatchCell():
            names = [change.get("path", "?") for change in call.changes]
            text = f"changes {names[0]}" if len(names) == 1 else f"changes {len(names)} files"
        case c.HandoffCell(title=title, target_id=target):
            target_name = f"“{title}”" if title else str(target or "")[:_SHORT_ID]
            text = f"asks a new conversation {target_name}" if call.name == "conv_create" else f"asks {target_name}"
        case c.ToolCallCell(server=server):
            text = f"{call.name}{_arguments(call.arguments)}" if server is None else f"{server}: {call.name}"
    text = " ".join(text.split())
    return text if len(text) <= _MAX_HEADLINE else text[: _MAX_HEADLINE - 1] + "…"


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict) or not arguments:
        return ""
    values = [value for value in cast("dict[str, object]", arguments).values() if isinstance(value, str | int | float)]
    return f" {values[0]!s:.80}" if values else ""


def duration(seconds: float) -> str:
    """A time for people: `0.8 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
