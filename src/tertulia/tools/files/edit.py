"""`edit` and `write`: the model changes a file by exact replacement, or writes one whole.

Both go the way of a patch: the same rights, approvals, protected names and events.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.tools.files.specs import EDIT, WRITE
from tertulia.tools.patch.engine import Patch, PatchTool, check_unprotected
from tertulia.tools.patch.replacement import MAX_EDITS, Replacement, ReplaceText, WriteFile
from tertulia.tools.patch.text import normal_path, path_fault
from tertulia.tools.tool import CallContext, Outcome

_UNSPEAKABLE = re.compile("[\0\ud800-\udfff]")


class Edit(PatchTool):
    """Exact replacement in one file."""

    spec = EDIT

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a path that may not be changed, and replacements that could not be made; reads no file."""
        replacement_of(arguments["path"], arguments["edits"], call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Make all replacements. On an error or a cancellation the file is left as it was."""
        change = replacement_of(arguments["path"], arguments["edits"], call)
        return await self._engine.apply(Patch((change,), call))


class Write(PatchTool):
    """Writes one file as a whole."""

    spec = WRITE

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a path that may not be changed; reads no file."""
        file_of(arguments["path"], arguments["content"], call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Write it. On an error or a cancellation the file is left as it was."""
        change = file_of(arguments["path"], arguments["content"], call)
        return await self._engine.apply(Patch((change,), call))


def replacement_of(path: str, edits: Sequence[Mapping[str, str]], call: CallContext) -> ReplaceText:
    """The change that these edits are; InvalidParams says which of them cannot be made."""
    if len(edits) > MAX_EDITS:
        raise LimitError(f"{len(edits):,} edits are too many for one call; at most {MAX_EDITS} are made")
    for number, edit in enumerate(edits, 1):
        check_text(edit["new"], f"the new text of edit {number}")
        if not edit["old"]:
            raise InvalidParamsError(f"the old text of edit {number} is empty; write makes a new file")
        if edit["old"] == edit["new"]:
            raise InvalidParamsError(f"the old and the new text of edit {number} are the same")
    replacements = tuple(Replacement(edit["old"], edit["new"]) for edit in edits)
    return ReplaceText(changeable_path(path, call), replacements)


def file_of(path: str, content: str, call: CallContext) -> WriteFile:
    """The change that writes this file."""
    check_text(content, "the content")
    return WriteFile(changeable_path(path, call), content)


def changeable_path(path: str, call: CallContext) -> str:
    """The path relative to the working directory; InvalidParams for one that lies elsewhere or is protected."""
    here = os.path.realpath(call.cwd)
    for start in dict.fromkeys((here, call.cwd)):
        # Models that view absolute paths name them again.
        path = path.removeprefix(f"{start.rstrip('/')}/") if path.startswith("/") else path
    if (fault := path_fault(path)) is not None:
        raise InvalidParamsError(fault)
    relative = normal_path(path)
    if call.rights.sandbox != "danger_full_access":
        check_unprotected((relative,))
    return relative


def check_text(text: str, what: str) -> None:
    """Refuse what cannot be written to a text file."""
    if _UNSPEAKABLE.search(text):
        raise InvalidParamsError(f"{what} has a NUL or half a character")
