"""Reading a plain file that a user or a project names: bounded, and never waiting for a pipe.

What a path names may change while we look, so only what was opened counts. Not here: files that only we write
(`private_file.py`), and files below a folder that a conversation must not leave (`tools/workspace_file.py`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tertulia.errors import InvalidParamsError


class NotPlainFileError(ValueError):
    """A directory, a pipe, a socket or a device."""


def read_plain_file(path: str | Path, max_bytes: int) -> bytes:
    """The content, and one byte more where it is longer. NotPlainFileError, OSError; ValueError where it is no path."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise NotPlainFileError("no plain file")
        with open(number, "rb", closefd=False) as file:
            return file.read(max_bytes + 1)
    finally:
        os.close(number)


def read_whole_file(path: str | Path, max_bytes: int) -> bytes:
    """The content; ValueError where it is longer."""
    content = read_plain_file(path, max_bytes)
    if len(content) > max_bytes:
        raise ValueError("too long to be read")
    return content


def read_named_file(path: str | Path, max_bytes: int, label: str) -> bytes:
    """The content; InvalidParamsError says what is wrong with it, after `label`."""
    try:
        content = read_plain_file(path, max_bytes)
    except (OSError, ValueError) as error:
        raise _read_refusal(error, label) from None
    return _bounded(content, max_bytes, label)


def read_optional_file(path: str | Path, max_bytes: int, label: str) -> bytes | None:
    """The same; None where there is no such file."""
    try:
        content = read_plain_file(path, max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _read_refusal(error, label) from None
    return _bounded(content, max_bytes, label)


def _read_refusal(error: OSError | ValueError, label: str) -> InvalidParamsError:
    if isinstance(error, OSError):
        return InvalidParamsError(f"{label} cannot be read: {error.strerror}")
    return InvalidParamsError(f"{label} is not a {'file' if isinstance(error, NotPlainFileError) else 'path'}")


def _bounded(content: bytes, max_bytes: int, label: str) -> bytes:
    if len(content) > max_bytes:
        raise InvalidParamsError(f"{label} is larger than {max_bytes:,} bytes")
    return content


def decode_text(content: bytes, label: str, advice: str = "") -> str:
    """The content as a text; InvalidParamsError where it is none."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidParamsError(f"{label} is not a text in UTF-8{advice}") from None
    if "\0" in text:
        raise InvalidParamsError(f"{label} is not a text: it has a zero byte{advice}")
    return text
