"""A plain transcript and a plain composer, which stand here until the real ones are in their folders."""

from __future__ import annotations

from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from tertulia.terminal.panels.lines import clean, line
from tertulia.view import cells as c
from tertulia.view.conversation_view import ConversationView


class PlainTranscript(Widget, can_focus=True):
    """The last lines of a conversation, a line a cell."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._view: ConversationView | None = None

    def show(self, view: ConversationView) -> None:
        """Show this conversation from its end."""
        self._view = view
        self.refresh()

    def changed(self) -> None:
        """Draw again what has changed."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the panel, by its number from the top."""
        cells = [] if self._view is None else self._view.cells[-self.size.height :]
        return line([(_text(cells[y]), "")] if y < len(cells) else [], self.size.width)


def _text(cell: c.Cell) -> str:
    match cell:
        case c.UserCell():
            return f"▌ {clean(cell.text)}"
        case c.AssistantCell() | c.NoticeCell():
            return f"  {clean(cell.text)}"
        case _:
            return f"  {type(cell).__name__}"


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
