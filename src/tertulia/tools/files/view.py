"""`view`: the model reads a file with its line numbers, or sees what a directory has."""

from __future__ import annotations

import base64
import os.path
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tertulia.errors import InvalidParamsError, SandboxError
from tertulia.policy.display_text import visible
from tertulia.tools.command_environment import CommandEnvironment
from tertulia.tools.confined_program import confined_program
from tertulia.tools.editor import EditorView
from tertulia.tools.files import view_program
from tertulia.tools.files.specs import DEFAULT_LINES, VIEW
from tertulia.tools.patch.disk_program import MAX_FILE_BYTES
from tertulia.tools.patch.read_files import ReadFiles
from tertulia.tools.patch.replacement import FileText
from tertulia.tools.threads import run_in_thread
from tertulia.tools.tool import CallContext, Outcome, ReadingTool, Result

MAX_LINE_CHARACTERS = 2_000
"""Of a line that is shown; what is longer is cut, and said to be."""
_MAX_ANSWER_BYTES = MAX_FILE_BYTES * 2
_COMMAND = confined_program(view_program.__file__)


class FileView:
    """Reads for `view` and for a provider's own editor, inside the sandbox: what is masked there is not there."""

    __slots__ = ("_editor", "_place", "_read_files")

    def __init__(self, place: CommandEnvironment, read_files: ReadFiles, editor: EditorView | None = None) -> None:
        """`editor`: the client's editor, whose unsaved text is shown; None: only the disk counts."""
        self._place = place
        self._read_files = read_files
        self._editor = editor

    def check(self, path: str, call: CallContext) -> None:
        """Refuse a path that the call may not read."""
        self._place.locate(path, call)

    async def show(self, path: str, first: int, limit: int, call: CallContext) -> Result:
        """The lines of a file from `first` on, or the entries of a directory."""
        root, relative = self._place.locate(path, call)
        request = {"path": relative, "first": first, "limit": limit, "whole_bytes": MAX_FILE_BYTES}
        there = msgspec.structs.replace(call, cwd=root)
        output = await self._place.confined(_COMMAND, msgspec.json.encode(request), _MAX_ANSWER_BYTES, there)
        try:
            answer = msgspec.json.decode(output, type=dict[str, Any])
        except msgspec.DecodeError:
            raise SandboxError(f"{path} could not be read: {output[-500:].decode('utf-8', 'replace')!r}") from None
        if not answer["ok"]:
            raise InvalidParamsError(f"{path} cannot be read: {answer['reason']}")
        absolute = _absolute(root, relative)
        if "entries" in answer:
            return self._listing(path, absolute, answer, call)
        # In a thread: a file may be large, and have a million lines.
        if "part" in answer:
            return await run_in_thread(_part, path, base64.b64decode(answer["part"]), answer["bytes"], first)
        content = await self._as_edited(path, base64.b64decode(answer["content"]), call)
        shown = await run_in_thread(_lines_shown, path, content, first, limit)
        await run_in_thread(self._read_files.note, call.conversation_id, absolute, content)
        return shown

    async def _as_edited(self, path: str, content: bytes, call: CallContext) -> bytes:
        """The text of the user's editor, where it has one that is not saved."""
        file = None if self._editor is None else (await self._editor.look([path], call)).get(path)
        unsaved = None if file is None else file.unsaved()
        return content if unsaved is None else unsaved

    def _listing(self, path: str, absolute: str, answer: dict[str, Any], call: CallContext) -> Result:
        free = call.rights.sandbox == "danger_full_access"
        masked = () if free else call.hidden(self._place.masked)
        lines = list(_entry_lines(absolute, answer["entries"], masked))
        more = [f"[only the first {len(lines):,} entries are shown]"] if answer["more"] else []
        return Result("\n".join([f"{path} is a directory:", *(lines or ["(nothing that is not hidden)"]), *more]))


class View(ReadingTool):
    """One file or directory a call."""

    __slots__ = ("_files",)
    spec = VIEW

    def __init__(self, files: FileView) -> None:
        self._files = files

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse a path that the call may not read."""
        self._files.check(arguments["path"], call)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Read it, and say which lines these are."""
        # A number like 1.0 is one that JSON takes for whole.
        first, limit = int(arguments.get("line") or 1), int(arguments.get("limit") or DEFAULT_LINES)
        return await self._files.show(arguments["path"], first, limit, call)


def _absolute(root: str, relative: str) -> str:
    return root if relative == "." else os.path.join(root, relative)


def _lines_shown(path: str, content: bytes, first: int, limit: int) -> Result:
    file = FileText.decode(content)
    if file is None:
        picture = ", or view_image if it is a picture" if len(content) else ""
        raise InvalidParamsError(f"{path} is a binary file of {len(content):,} bytes; use a command{picture}")
    lines = file.text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    some = lines[first - 1 :][:limit]
    if not some:
        what = "is empty" if not lines else f"has {len(lines):,} lines, there is no line {first:,}"
        return Result(f"{path} {what}")
    last = first + len(some) - 1
    note = [] if len(some) == len(lines) else [f"[lines {first:,} to {last:,} of {len(lines):,}]"]
    return Result("\n".join([*_numbered(some, first), *note]))


def _part(path: str, part: bytes, size: int, first: int) -> Result:
    """Lines of a file that is too large to be read whole."""
    if b"\0" in part:
        raise InvalidParamsError(f"{path} is a binary file of {size:,} bytes; use a command")
    if not part:
        return Result(f"{path} has {size:,} bytes, and no line {first:,}")
    lines = part.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    note = f"[lines {first:,} to {first + len(lines) - 1:,} of a file of {size:,} bytes, too large to be edited here]"
    return Result("\n".join([*_numbered(lines, first), note]))


def _numbered(lines: Sequence[str], first: int) -> Iterable[str]:
    for number, line in enumerate(lines, first):
        text = line.removesuffix("\r").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if len(text) > MAX_LINE_CHARACTERS:
            text = f"{text[:MAX_LINE_CHARACTERS]} [… {len(text):,} characters in all]"
        yield f"{number:>6}\t{text}"


def _entry_lines(directory: str, entries: Sequence[Sequence[Any]], masked: Sequence[str]) -> Iterable[str]:
    above = directory
    for encoded, depth, is_directory in entries:
        name = os.fsdecode(bytes.fromhex(encoded))
        place = os.path.join(directory if depth == 0 else above, name)
        above = place if depth == 0 else above
        if not any(place == mask or place.startswith(f"{mask}/") for mask in masked):
            yield f"{'  ' * (depth + 1)}{visible(name)}{'/' * bool(is_directory)}"
