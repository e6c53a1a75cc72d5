"""What the composer tells the application."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from textual.message import Message

from tertulia.terminal.composer.modes import Mode
from tertulia.terminal.composer.pictures import Picture

SendHow = Literal["message", "steer", "queue", "fork"]


@dataclass
class Submitted(Message):
    """The person has written a message."""

    text: str
    how: SendHow
    attachments: tuple[Picture, ...] = ()
    _: KW_ONLY
    target: str | None = None
    """The name of the conversation that it is for; None: the one in view."""
    fork_at: str | None = None
    """The message that it replaces, in a fork."""
    restores: bool = False
    """Whether files come back as they were before that message."""


@dataclass
class CommandEntered(Message):
    """The person has written a slash command."""

    name: str
    rest: str


@dataclass
class ShellEntered(Message):
    """The person has written `!` and a command for the sandbox."""

    command: str


class TakeBackRequested(Message):
    """The newest queued message is to come back into the composer."""


@dataclass
class ModeCycled(Message):
    """The person has chosen another mode, and where it allows more has said yes to that."""

    mode: Mode


@dataclass
class EditorRequested(Message):
    """The text is to be edited in the person's own editor; `Composer.put` takes what comes of it."""

    text: str


class StopRequested(Message):
    """The person pressed Esc where it means: stop what runs."""


class EarlierRequested(Message):
    """The person pressed Esc twice on an empty composer: which earlier message is to be edited?"""


class TranscriptWanted(Message):
    """The person pressed Tab: keys are to go to the transcript."""


class FilesWanted(Message):
    """Names of files are to be completed; `Composer.set_files` takes them."""


class ClipboardRequested(Message):
    """The person pressed Ctrl+V: `Composer.add_picture` or `put` takes what the clipboard has."""
