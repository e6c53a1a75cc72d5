"""Long messages over HTTP: the SDK is given a ticket in place of the content, and we take the ticket out again.

It would build, check and print all of it in one step of the loop.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import msgspec

from tertulia.mcp.client.long_message import Envelope, MessageProblem

KEPT_S = 30.0
"""How long something is kept for a message that the SDK may have let go of."""
_TICKET = "tertulia/ticket"
_MOST_WORDS = 10_000


class Tickets:
    """What is kept for the messages of one connection. No server knows a ticket: they never leave this process."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def written(self, message: Envelope) -> bytes:
        """The message with a ticket in it."""
        fields: dict[str, Any] = {"jsonrpc": "2.0"}
        if message.id is not msgspec.UNSET:
            fields["id"] = message.id
        if isinstance(message.method, str):
            fields |= {"method": message.method, "params": self._ticket(message.params or {})}
        elif isinstance(message.result, dict):
            fields["result"] = self._ticket(message.result)
        elif isinstance(message.error, MessageProblem):
            # Nobody wants a long one.
            fields["error"] = {"code": message.error.code, "message": message.error.message[:_MOST_WORDS]}
        return msgspec.json.encode(fields)

    def content(self, given: dict[str, Any]) -> dict[str, Any]:
        """What belongs to the ticket in this, once; else the same."""
        ticket = given.get(_TICKET)
        return self._kept.pop(ticket, given) if isinstance(ticket, str) else given

    def clear(self) -> None:
        """Nobody will ask any more."""
        self._kept.clear()

    def _ticket(self, content: dict[str, Any]) -> dict[str, Any]:
        ticket = secrets.token_hex(16)
        self._kept[ticket] = content
        asyncio.get_running_loop().call_later(KEPT_S, self._kept.pop, ticket, None)
        return {_TICKET: ticket}
