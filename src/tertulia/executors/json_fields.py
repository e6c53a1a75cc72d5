"""Reading an agent's JSON without trusting its shape: a field is there in the right form, or it is not there."""

from __future__ import annotations

import re
import shlex
from typing import Any, cast

from tertulia.executors.result_text import plain_text

MAX_ID = 200
_MAX_SPLIT = 16 * 1024
# It will be an argument of a program: no option, and nothing that a screen would obey.
_NATIVE_ID = re.compile(r"[!-,.-~][!-~]{0,199}")


def read_table(value: object) -> dict[str, Any]:
    """The members of an object; none of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def read_tables(value: object) -> list[dict[str, Any]]:
    """The objects of a list, if it is one of objects only; else none."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return items if all(isinstance(item, dict) for item in items) else []


def read_text(value: object) -> str | None:
    """The value if it is a text, else None."""
    return value if isinstance(value, str) else None


def read_id(value: object) -> str | None:
    """An id of a message or a call, or None."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID else None


def read_native_id(*values: object) -> str | None:
    """The first that can be the id of a session, or None."""
    return next((value for value in values if isinstance(value, str) and _NATIVE_ID.fullmatch(value)), None)


def read_exit_code(value: object) -> int | None:
    """A program's exit code, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31 else None


def read_argv(command: object) -> tuple[str, ...] | None:
    """A command as words, whether it came as a text or as words; None where it is neither."""
    if isinstance(command, list):
        words = cast("list[object]", command)
        return cast("tuple[str, ...]", tuple(words)) if words and all(isinstance(word, str) for word in words) else None
    return _words(command) if isinstance(command, str) else None


def _words(command: str) -> tuple[str, ...]:
    # Splitting takes its time, and a text that is no shell's is one word.
    if len(command) > _MAX_SPLIT:
        return (command,)
    try:
        return tuple(shlex.split(command)) or (command,)
    except ValueError:
        return (command,)


def content_text(value: object) -> str:
    """The text of a tool's content: a text, or a list of parts."""
    return plain_text(value)


def joined_texts(value: object) -> str:
    """The texts of a list, one a line."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return "\n".join(item for item in items if isinstance(item, str) and item)
