"""`read_file`: the model reads a text file as it is in the user's editor, with no more rights than its commands have.

Only where there is an editor: without one a command does as well.
"""

from __future__ import annotations

from typing import Any

from tertulia.errors import NotFoundError
from tertulia.policy.plain_file import decode_text
from tertulia.tools.editor import EditorView
from tertulia.tools.files.specs import DEFAULT_LINES, LINES_OF_A_FILE
from tertulia.tools.tool import CallContext, Outcome, ReadingTool, Result, define_tool

_SPEC = define_tool(
    "read_file",
    "Shows you a text file of the working directory as it is in the user's editor, with changes that are not saved "
    "yet. Commands see only what is saved: prefer this for files that you want to change.",
    LINES_OF_A_FILE,
    ["path"],
)


class ReadFile(ReadingTool):
    """What the editor shows, or what is saved where it shows nothing."""

    __slots__ = ("_editor",)
    spec = _SPEC

    def __init__(self, editor: EditorView) -> None:
        self._editor = editor

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a path that the call may not read."""
        self._editor.locate(arguments["path"], call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Read it, and say which lines these are."""
        path = arguments["path"]
        file = (await self._editor.look([path], call)).get(path)
        if file is None:
            raise NotFoundError(f"there is no file {path!r:.200}")
        text = file.shown
        if text is None:
            text = decode_text(file.saved, f"{path!r:.200}", "; use a command")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        first = arguments.get("line") or 1
        some = lines[first - 1 :][: arguments.get("limit") or DEFAULT_LINES]
        where = f"lines {first:,} to {first + len(some) - 1:,} of {len(lines):,}" if some else f"{len(lines):,} lines"
        state = "saved" if file.unsaved() is None else "in the editor, with changes that are not saved"
        return Result("\n".join([f"{path}, as {state}: {where}", *some]))
