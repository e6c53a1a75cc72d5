"""What the composer tells the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.message import Message

from tertulia.terminal.composer.modes import Mode
from tertulia.terminal.composer.pictures import Picture

SendHow = Literal["message", "steer", "queue", "fork"]


class Submitted(Message):
    """The person has written a message."""

    def __init__(
        self, text: str, how: SendHow, attachments: Sequence[Picture] = (), *, target: str | None = None,
        fork_at: str | None = None,
    ) -> None:  # fmt: skip
        """`target`: the name of the conversation that it is for; None: the one in view. `fork_at`: the message that
        it replaces, in a fork."""
        super().__init__()
        self.text = text
        self.how: SendHow = how
        self.attachments = tuple(attachments)
        self.target = target
        self.fork_at = fork_at


class CommandEntered(Message):
    """The person has written a slash command."""

    def __init__(self, name: str, rest: str) -> None:
        super().__init__()
        self.name = name
        self.rest = rest


class ShellEntered(Message):
    """The person has written `!` and a command for the sandbox."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command


class TakeBackRequested(Message):
    """The newest queued message is to come back into the composer."""


class ModeCycled(Message):
    """The person has chosen another mode, and where it allows more has said yes to that."""

    def __init__(self, mode: Mode) -> None:
        super().__init__()
        self.mode: Mode = mode


class EditorRequested(Message):
    """The text is to be edited in the person's own editor; `Composer.put` takes what comes of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class StopRequested(Message):
    """The person pressed Esc where it means: stop what runs."""


class EarlierRequested(Message):
    """The person pressed Esc twice on an empty composer: which earlier message is to be edited?"""


class FilesWanted(Message):
    """Names of files are to be completed; `Composer.set_files` takes them."""


class ClipboardRequested(Message):
    """The person pressed Ctrl+V: `Composer.add_picture` or `put` takes what the clipboard has."""
