"""A plain composer, which stands here until the real one is in its folder."""

from __future__ import annotations

from textual.message import Message
from textual.widgets import Input


class PlainComposer(Input):
    """One line that is sent with Enter."""

    class Sent(Message):
        """A person has written a message."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text, self.how = text, "message"
            self.attachments: list[object] = []

    class CommandEntered(Message):
        """A person has written a command."""

        def __init__(self, name: str, rest: str) -> None:
            super().__init__()
            self.name, self.rest = name, rest

    @property
    def text(self) -> str:
        """What is written and not sent."""
        return self.value

    async def action_submit(self) -> None:
        """Post what was written, and begin anew."""
        text, self.value = self.value, ""
        if text.startswith("/"):
            name, _, rest = text[1:].partition(" ")
            self.post_message(self.CommandEntered(name, rest))
        elif text.strip():
            self.post_message(self.Sent(text))
