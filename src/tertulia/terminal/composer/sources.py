"""What the composer can complete, and how a sent text is read: as a message, a slash command or a shell command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.message import Message

from tertulia.terminal.composer.completion import MOST_SHOWN, CompletionChoice, Token, rank
from tertulia.terminal.composer.fork_draft import ForkDraft
from tertulia.terminal.composer.history import InputHistory
from tertulia.terminal.composer.messages import CommandEntered, SendHow, ShellEntered, Submitted
from tertulia.terminal.composer.pictures import Picture

_COMMAND = re.compile(r"/([a-z][a-z_-]*)(?:\s+(.*))?", re.DOTALL)
"""A message that begins with a path has a second slash, and is no command."""


class Sources:
    """What may be completed: commands, files, conversations. The application fills it in."""

    def __init__(self) -> None:
        self.commands: Sequence[tuple[str, str]] = ()
        """Names without the slash, each with a line of help."""
        self.files: Sequence[str] | None = None
        """Paths for completion; None: they have not been listed yet."""
        self.conversations: Sequence[str] = ()
        self.history = InputHistory()

    def candidates(self, token: Token) -> list[CompletionChoice]:
        """The best completions for the text before the cursor."""
        match token.kind:
            case "command":
                helps = dict(self.commands)
                return [CompletionChoice(f"/{name} ", helps[name]) for name in rank(token.query, list(helps))]
            case "mention":
                names = rank(token.query, self.conversations)
                files = rank(token.query, self.files or ())
                mentions = [CompletionChoice(f"@{name} ", "conversation") for name in names]
                return [*mentions, *(CompletionChoice(f"@{path} ", "file") for path in files)][:MOST_SHOWN]
            case "history":
                return [CompletionChoice(entry, "") for entry in self.history.search(token.query, MOST_SHOWN)]

    def target_of(self, text: str) -> tuple[str | None, str]:
        """The conversation that a message begins with, and the message without it."""
        for name in sorted(self.conversations, key=len, reverse=True):
            if text.startswith(f"@{name} "):
                return name, text[len(name) + 2 :].strip()
        return None, text

    def message_for(self, text: str, how: SendHow, pictures: Sequence[Picture], fork: ForkDraft | None) -> Message:
        """What is posted for a text that is sent."""
        if fork is not None:
            return Submitted(text, "fork", tuple(pictures), fork_at=fork.key, restores=fork.restores)
        if not pictures:
            if found := _COMMAND.fullmatch(text):
                return CommandEntered(found[1], found[2] or "")
            if text.startswith("!") and text[1:].strip():
                return ShellEntered(text[1:].strip())
        target, rest = self.target_of(text)
        return Submitted(rest, how, tuple(pictures), target=target)
