"""The one list of slash commands: the palette, `/help`, completion and the docs are made from it."""

from __future__ import annotations

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import word_hint


class TerminalCommand(msgspec.Struct, frozen=True, gc=False):
    """One command, as a person types it."""

    name: str
    """As it is typed, without the slash."""
    takes: str
    """What may follow; empty: nothing."""
    help: str
    """What it does, in a line."""


COMMANDS: tuple[TerminalCommand, ...] = (
    TerminalCommand("new", "[NAME]", "open a conversation below the seen one and show it"),
    TerminalCommand(
        "conv", "WHAT …", "do what the conversation tools do: ls, create, send, history, destroy, merge, call"
    ),
    TerminalCommand("go", "NAME", "show another conversation"),
    TerminalCommand("resume", "[ID]", "go on with a stored session"),
    TerminalCommand("fork", "", "go on from here in a copy of the seen conversation"),
    TerminalCommand("replay", "[ID]", "go through a stored session from its beginning"),
    TerminalCommand("compact", "", "have older items of the seen conversation replaced by a summary"),
    TerminalCommand("model", "[NAME]", "show the model of the seen conversation, or let another one answer"),
    TerminalCommand("mcp", "[refresh]", "show the MCP servers and their tools, or have them listed again"),
    TerminalCommand("tools", "", "show the tools that the seen conversation has"),
    TerminalCommand("approvals", "", "show what you have allowed for longer, and take it back"),
    TerminalCommand("why", "[COMMAND]", "show what the seen conversation may do, or what would happen to a command"),
    TerminalCommand("sandbox", "[MODE]", "show how commands are confined, or confine them more here"),
    TerminalCommand("status", "", "show the session: its ids, model, rights, tokens and cost"),
    TerminalCommand("prompt", "[N]", "show what the model was sent last, or N requests ago"),
    TerminalCommand("undo", "[yes] [to ID]", "show what would take back what the last message did to files, and do it"),
    TerminalCommand(
        "diff", "[ID|prompt]", "show what the last message did to files, or how the last two requests differ"
    ),
    TerminalCommand("canvas", "", "list the canvases of the session's conversations; the dashboard shows them"),
    TerminalCommand("export", "[FILE]", "write the seen transcript to a file"),
    TerminalCommand("copy", "[all]", "copy the last answer, or print the whole transcript to the scrollback"),
    TerminalCommand("theme", "[NAME]", "show the themes, or use one"),
    TerminalCommand("keys", "", "show all keys"),
    TerminalCommand("doctor", "", "show each setting, where it comes from, and what is wrong"),
    TerminalCommand("help", "", "show all commands and the most important keys"),
    TerminalCommand("quit", "", "close the session and leave"),
)
"""In the order in which they are shown."""

BY_NAME = {command.name: command for command in COMMANDS}


def find_command(name: str) -> TerminalCommand:
    """The command of that name.

    Raises:
        InvalidParamsError: There is none; it says which one may have been meant.
    """
    command = BY_NAME.get(name.removeprefix("/"))
    if command is None:
        hint = word_hint(name, BY_NAME)
        raise InvalidParamsError(f"there is no command /{name[:40]}{hint}; /help lists them, // sends a line with a /")
    return command


def help_table() -> str:
    """All commands as a table of Markdown, for the docs."""
    rows = [f"| `/{command.name}{' ' * bool(command.takes)}{command.takes}` | {command.help} |" for command in COMMANDS]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])
