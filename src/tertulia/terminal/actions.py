"""What the messages of widgets do: each is one or two operations of the port."""

from __future__ import annotations

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.port import Port


class Actions:
    """Calls the port for the person at the screen. What is sent before the session stands waits for it."""

    def __init__(self) -> None:
        self._port: Port | None = None
        self._waiting: list[str] = []

    @property
    def port(self) -> Port | None:
        """The session that the screen shows; None while it starts."""
        return self._port

    async def attach(self, port: Port) -> None:
        """Use this port from now on."""
        self._port = port

    async def send_waiting(self, conversation_id: ConversationId) -> None:
        """Send what was written before the session stood."""
        waiting, self._waiting = self._waiting, []
        for text in waiting:
            await self.send(conversation_id, text)

    async def send(self, conversation_id: ConversationId | None, text: str) -> None:
        """Send a message to a conversation."""
        if self._port is None or conversation_id is None:
            self._waiting.append(text)
            return
        await self._port.call("conversation/message", conversation_id=conversation_id, text=text, detach=True)
