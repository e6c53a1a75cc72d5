"""Reads standard input for `exec`: as the prompt itself, or as data for a prompt."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from typing import Literal

import click

from tertulia.protocol.inputs import DATA_TAG, MAX_TEXT_BYTES

GRACE_S = 1.0
"""How long a pipe may be silent before the run goes on without it, or a person is told what it waits for."""
_PIECE = 1 << 20
_MAX_COUNTED = 1 << 28
"""Bytes that are read only to say how many there are: a pipe may never end."""
_LEAVE_OUT = "--no-stdin leaves it out"
_SHORTER = "put it into a file of the workspace, and let the PROMPT name that file"

StdinChoice = Literal["auto", "wait", "never"]


def read_prompt() -> str:
    """All of standard input as the prompt; UsageError where it is closed, too long or no text."""
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    return _decoded(_read_all(_SHORTER), "the PROMPT must be text").removesuffix("\n")


def read_data(choice: StdinChoice, tell: Callable[[str], None]) -> str | None:
    """What a pipe or a file brings; None where there is nothing.

    Args:
        choice: `auto` gives up on a silent pipe after a second where no person watches; `wait` waits for its end.
        tell: Says what it waits for, or that it went on without.
    """
    number = None if choice == "never" else _readable_number()
    if number is None:
        return None
    if not _has_something(number):
        if choice == "auto" and not _has_person():
            tell("standard input is open and silent, so the run goes on without it; --stdin waits for its end")
            return None
        if choice == "auto":
            tell("waiting for the end of standard input; Ctrl-D ends it there, --no-stdin never reads it")
    text = _decoded(_read_all(_LEAVE_OUT), _LEAVE_OUT)
    return text if text.strip() else None


def with_data(prompt: str, data: str | None) -> str:
    """The prompt, with the data behind it and marked as such."""
    if data is None:
        return prompt
    # The data must not contain the end mark.
    inert = data.replace(f"</{DATA_TAG}", f"<\\/{DATA_TAG}")
    return f"{prompt}\n\n<{DATA_TAG}>\n{inert.removesuffix(chr(10))}\n</{DATA_TAG}>"


def _readable_number() -> int | None:
    """The descriptor of standard input where it is a pipe, a socket or a file; a terminal and /dev/null are neither."""
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (AttributeError, OSError, ValueError):
        # Closed, or no stream of the system's.
        return None
    return number if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode) else None


def _has_something(number: int) -> bool:
    """Whether data, or the end, comes within the grace."""
    return bool(select.select([number], [], [], GRACE_S)[0])


def _has_person() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _read_all(advice: str) -> bytes:
    """Everything that comes; of what is too long no more than a piece is kept, and all of it counted.

    Args:
        advice: What to do about too much, as the end of the refusal.
    """
    pieces: list[bytes] = []
    size = 0
    while size <= _MAX_COUNTED and (piece := sys.stdin.buffer.read(_PIECE)):
        size += len(piece)
        if size <= MAX_TEXT_BYTES:
            pieces.append(piece)
    if size > MAX_TEXT_BYTES:
        many = f"{size:,}" if size <= _MAX_COUNTED else f"more than {_MAX_COUNTED:,}"
        raise click.UsageError(f"standard input has {many} bytes, and a message at most {MAX_TEXT_BYTES:,}; {advice}")
    return b"".join(pieces)


def _decoded(content: bytes, advice: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not UTF-8 (at byte {error.start}); {advice}") from None
