"""A provider's own text editor: one tool with the acts view, create, str_replace and insert, of the Messages API.

The API knows its arguments by its type, so a model is not sent them.
"""

from __future__ import annotations

from typing import Any

from tertulia.errors import InvalidParamsError
from tertulia.tools.files.edit import changeable_path, check_text, file_of, replacement_of
from tertulia.tools.files.specs import DEFAULT_LINES, PROVIDER_EDITOR
from tertulia.tools.files.view import FileView
from tertulia.tools.patch.engine import Patch, PatchEngine
from tertulia.tools.patch.plan import FileChange
from tertulia.tools.patch.replacement import InsertText
from tertulia.tools.tool import CallContext, ChangingTool, Outcome


class ProviderEditor(ChangingTool):
    """Each act does what one of our own tools does."""

    __slots__ = ("_engine", "_files")
    spec = PROVIDER_EDITOR

    def __init__(self, files: FileView, engine: PatchEngine) -> None:
        self._files = files
        self._engine = engine

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse an act that there is not, and what it may not be done to; reads no file."""
        if arguments["command"] == "view":
            _lines(arguments)
            self._files.check(arguments["path"], call)
        else:
            _change(arguments, call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """View it, or change it."""
        if arguments["command"] == "view":
            first, limit = _lines(arguments)
            return await self._files.show(arguments["path"], first, limit, call)
        return await self._engine.apply(Patch((_change(arguments, call),), call))


def _lines(arguments: Any) -> tuple[int, int]:
    """(the first line that is to be shown, how many); the end may be -1, the end of the file."""
    first, last = arguments.get("view_range") or (1, -1)
    if first < 1 or (last != -1 and last < first):
        raise InvalidParamsError(f"view_range must be two lines, the first not after the last, not {[first, last]}")
    return int(first), DEFAULT_LINES if last == -1 else int(last - first + 1)


def _change(arguments: Any, call: CallContext) -> FileChange:
    path = arguments["path"]
    match arguments["command"]:
        case "create":
            return file_of(path, _needed(arguments, "file_text"), call)
        case "str_replace":
            # An absent new text removes the old one.
            edit = {"old": _needed(arguments, "old_str"), "new": arguments.get("new_str") or ""}
            return replacement_of(path, (edit,), call)
        case "insert":
            # It was called new_str in an earlier version of the tool.
            text = arguments.get("insert_text")
            text = _needed(arguments, "new_str") if text is None else text
            check_text(text, "the text")
            return InsertText(changeable_path(path, call), int(_needed(arguments, "insert_line")), text)
        case other:
            raise InvalidParamsError(f"there is no command {other!r:.80}, only view, create, str_replace and insert")


def _needed(arguments: Any, name: str) -> Any:
    value = arguments.get(name)
    if value is None:
        raise InvalidParamsError(f"{name} is missing, which {arguments['command']} needs")
    return value
