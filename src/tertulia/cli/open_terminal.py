"""Opens the terminal for a new or a stored session: the screen, or appended lines where there is none to draw on."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from tertulia.cli.global_flags import GlobalFlags

INSTALL = "the full-screen terminal is not installed: pip install 'tertulia[tui]'; this goes on line by line"


def at_terminal() -> bool:
    """Whether a person sits here: standard input and output are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def draws_screen(flags: GlobalFlags) -> bool:
    """Whether the session is shown on a screen; where only the program for it is missing, standard error says so."""
    # The screen is drawn on standard error.
    if flags.plain or not at_terminal() or not sys.stderr.isatty():
        return False
    if find_spec("textual") is None:
        print(f"note: {INSTALL}", file=sys.stderr)
        return False
    return True


def open_new(flags: GlobalFlags, instructions: str | None) -> int:
    """A new session, until the person leaves; returns the exit code.

    `instructions`: the base instructions of its root, or None.
    """
    if draws_screen(flags):
        # Imported here, and the session after the first frame: what stands first is what a person waits for.
        from tertulia.terminal.start import run_terminal

        return run_terminal(flags.load, instructions=instructions)
    from tertulia.cli.chat import start_chat

    return start_chat(flags.load(), instructions)
