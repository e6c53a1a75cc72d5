"""Which definitions of MCP tools a conversation was shown: digests, written down for a later life of the session.

What was read and allowed were those. A server that defines them otherwise when it runs again has to be looked at anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tertulia.conversation.state import ConversationState
from tertulia.mcp.view import McpView
from tertulia.protocol.records import MCP_PINS, NoteRecord


def pins_record(conversation: ConversationState) -> NoteRecord:
    """The record of what is pinned now."""
    return NoteRecord(conversation.id, MCP_PINS, dict(conversation.terms.context.mcp_view.pins))


class RecordedPins:
    """What conversations had pinned. Those that had the same share it, and what is made of it later."""

    def __init__(self) -> None:
        self._views: dict[frozenset[tuple[str, str]], McpView] = {}

    def view(self, noted: NoteRecord | None) -> McpView:
        """A view that has these pins and no tools yet. What is no digest pins its name all the same."""
        value = None if noted is None else noted.value
        pins = {name: str(digest) for name, digest in cast("Mapping[str, Any]", value or {}).items()}
        return self._views.setdefault(frozenset(pins.items()), McpView(pins=pins))
