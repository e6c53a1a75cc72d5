"""What was written of one conversation and can be referred to by later rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import ToolCall
from tertulia.protocol.storage import HeadersOnly
from tertulia.rollout.format.headers import is_plain
from tertulia.rollout.format.item_references import ItemRef, RecentItems


class ConversationRows:
    """The row that names it, and all that is named within it."""

    __slots__ = ("n", "names", "offered", "recent", "scopes", "tools")

    def __init__(self, n: int) -> None:
        self.n = n
        self.names: dict[tuple[Any, ...], int] = {}
        self.scopes: dict[tuple[str | None, ...], int] = {}
        self.tools: dict[str, tuple[int, float]] = {}
        """Which tool lists are stored, by digest: the row, and when."""
        self.offered = b""
        """The tools of the last request."""
        self.recent = RecentItems()

    def offers(self, name: str) -> bool:
        """Whether it is the name of a tool that the model was offered, and not a text of the model."""
        return bool(name) and is_plain(name) and b'"' + name.encode() + b'"' in self.offered

    def erased(self) -> ConversationRows:
        """What is left when texts, perhaps whole rows, are gone. Calls still find their outputs by their rows."""
        left = ConversationRows(self.n)
        left.offered, left.scopes = self.offered, self.scopes
        left.recent.calls = bare_calls({call_id: ref.n for call_id, ref in self.recent.calls.items()})
        left.recent.answered = bare_calls({call_id: ref.n for call_id, ref in self.recent.answered.items()})
        return left

    def forget(self, n: int) -> None:
        """Rows from this number on were never written."""
        self.recent.forget(n)
        self.names = {key: row for key, row in self.names.items() if row < n}
        self.scopes = {key: row for key, row in self.scopes.items() if row < n}
        self.tools = {key: stored for key, stored in self.tools.items() if stored[0] < n}


def bare_calls(rows: Mapping[CallId, int]) -> dict[CallId, ItemRef]:
    """Calls of which only the row is known."""
    return {call_id: ItemRef(n, HeadersOnly(), ToolCall(ItemId(""), call_id, "", "")) for call_id, n in rows.items()}
