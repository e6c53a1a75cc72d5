"""`--instructions FILE|TEXT`: the base instructions of a conversation, from a file or as they are."""

from __future__ import annotations

import os
import re

from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import check_text
from tertulia.session.settings.agent_table import read_instructions

_FLAG = "--instructions"
_PATH = re.compile(r"(?:~?/|\.{1,2}/)\S*|\S*/\S*|\S+\.[A-Za-z0-9]{1,8}")
"""Has no blank, and a slash or the ending of a file name."""


def resolve_instructions(value: str) -> str:
    """The text of the file of that name, or the value itself where it does not look like the name of a file.

    Raises:
        InvalidParamsError: It looks like a file's name and there is no such file, or the file cannot be used.
    """
    if not value.strip():
        raise InvalidParamsError(f"{_FLAG} is empty: give a file, or the text itself")
    path = os.path.expanduser(value)
    if "\0" not in path and len(path) < 4_096 and os.path.lexists(path):
        return read_instructions(os.path.abspath(path), _FLAG)
    if _PATH.fullmatch(value):
        raise InvalidParamsError(
            f"{_FLAG}: there is no file {value!r:.200}; a text that looks like a file's name needs a blank in it"
        )
    return check_text(value, _FLAG)
