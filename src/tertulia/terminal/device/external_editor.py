"""Gives the terminal to another program for a while: the person's editor, or the scrollback. The session goes on."""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from tertulia.errors import InvalidParamsError

_PLACED = ("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "hx", "ne", "joe")
"""Editors that take the line number as `+12` before the file."""


async def open_in_editor(app: App[int], editor: str, path: str, line: int = 1) -> None:
    """Let the person edit a file, from this line on.

    Raises:
        InvalidParamsError: There is no such editor, or this terminal cannot be given away.
    """
    words = shlex.split(editor) or ["vi"]
    name = Path(words[0]).name
    place = [f"+{line}"] if line > 1 and name in _PLACED else []
    goto = ["--goto", f"{path}:{line}"] if name in ("code", "codium", "cursor", "zed") else [*place, path]
    try:
        with app.batch_update(), app.suspend():
            process = await asyncio.create_subprocess_exec(*words, *goto)
            await process.wait()
    except FileNotFoundError:
        raise InvalidParamsError(f"there is no program {words[0][:80]!r}; set EDITOR to one that there is") from None
    except SuspendNotSupported:
        raise InvalidParamsError("this terminal cannot be given to an editor") from None


async def edit_text(app: App[int], editor: str, text: str) -> str:
    """The text as the person has edited it."""
    with tempfile.TemporaryDirectory(prefix="tertulia-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8")
        await open_in_editor(app, editor, str(path))
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")


def print_to_scrollback(app: App[int], text: str) -> None:
    """Leave a text in the scrollback of the terminal, below what is there."""
    try:
        with app.suspend():
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
    except SuspendNotSupported:
        raise InvalidParamsError("this terminal has no scrollback to print to; /export FILE writes a file") from None
