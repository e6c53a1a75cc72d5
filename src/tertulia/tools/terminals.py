"""Commands that go on after the call that started them. Each belongs to a conversation, and ends with it at last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from tertulia.errors import LimitError, NotFoundError, SandboxError
from tertulia.protocol.events import EventData
from tertulia.protocol.ids import ConversationId
from tertulia.tools.live_command import LiveCommand

MAX_TERMINALS = 16
"""Of one conversation."""
MAX_TERMINALS_IN_ALL = 64
"""Of a session."""

Tell = Callable[[ConversationId, EventData], object]
"""Publish something that no task says."""


class Terminals:
    """Numbers them. A number is never used again, and means nothing in another conversation."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._numbers = count(1)
        self._live: dict[ConversationId, dict[int, LiveCommand]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._live.values()))

    def check_room(self, conversation: ConversationId) -> None:
        """Limit when no other command may go on."""
        own = self._live.get(conversation, {})
        if len(own) >= MAX_TERMINALS or len(self) >= MAX_TERMINALS_IN_ALL:
            numbers = ", ".join(map(str, own)) or "none of this conversation"
            raise LimitError(f"too many commands go on ({numbers}); end one with \\u0003 (Ctrl-C), or wait for its end")

    def keep(self, conversation: ConversationId, live: LiveCommand) -> int:
        """The number by which it can be found from now on."""
        number = next(self._numbers)
        self._live.setdefault(conversation, {})[number] = live
        return number

    def find(self, conversation: ConversationId, number: int) -> LiveCommand:
        """The command of that number; NotFound also where it is another conversation's."""
        live = self._live.get(conversation, {}).get(number)
        if live is None:
            raise NotFoundError(f"there is no command with session_id {number} here; it has ended, or never was")
        return live

    def drop(self, conversation: ConversationId, number: int) -> None:
        """Its end was seen."""
        own = self._live.get(conversation, {})
        own.pop(number, None)
        if not own:
            self._live.pop(conversation, None)

    async def forget(self, conversation: ConversationId) -> None:
        """The conversation is closed: kill what it left running, and say so."""
        gone = list(self._live.pop(conversation, {}).values())
        for live in gone:
            live.listen(lambda data: self._tell(conversation, data))
        ended = await asyncio.gather(*(live.kill() for live in gone), return_exceptions=True)
        failed = [error for error in ended if isinstance(error, BaseException)]
        if failed and not isinstance(failed[0], SandboxError):
            raise failed[0]

    async def close(self) -> None:
        """The session is closed: likewise for all."""
        await asyncio.gather(*map(self.forget, list(self._live)))
