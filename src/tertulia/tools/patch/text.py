"""Parses the text of a patch into hunks. Reads no files: `plan` computes what the hunks change.

Markers and headers may have blanks around them, a patch may be wrapped in a heredoc, and its lines may end in CRLF.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from tertulia.errors import InvalidParamsError, LimitError
from tertulia.policy.commands.command_analysis import SCRIPT_FLAGS, SHELLS, read_script

MAX_CHARACTERS = 8 * 1024 * 1024
MAX_HUNKS = 1_000
"""How many files one patch may change."""
MAX_CHUNKS = 20_000
"""How many chunks one patch may have."""
MAX_LINES = 100_000
"""A patch is parsed on the event loop's thread: this many lines take some hundredths of a second."""
MAX_PATH_BYTES = 1_024
MAX_NAME_BYTES = 255

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE, _ENVIRONMENT = "*** Move to: ", "*** End of File", "*** Environment ID: "
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_LINE_NUMBERS = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_UNSPEAKABLE = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f]")

Mark = Literal[" ", "-", "+"]


class Chunk(msgspec.Struct, frozen=True):
    """One changed place of a file, with its context lines."""

    headers: tuple[str, ...]
    """Lines of the file that come before the place, in order."""
    lines: tuple[tuple[Mark, str], ...]
    """Context lines (blank), removed lines (minus) and added lines (plus), without line ends."""
    at_end: bool
    """Whether the place is the end of the file."""
    line_number: int
    """The line of the patch at which the chunk begins, counted from 1."""


class AddFile(msgspec.Struct, frozen=True):
    """Write a file; one that is there already is replaced."""

    path: str
    content: str
    line_number: int


class DeleteFile(msgspec.Struct, frozen=True):
    """Remove a file that must be there."""

    path: str
    line_number: int


class UpdateFile(msgspec.Struct, frozen=True):
    """Change a file that must be there, or move it, or both."""

    path: str
    move_to: str | None
    chunks: tuple[Chunk, ...]
    line_number: int


Hunk = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Hunk, ...]:
    """All hunks, in order; none where the patch is empty. InvalidParams names the line, LimitError the limit."""
    if len(text) > MAX_CHARACTERS:
        raise LimitError(f"invalid patch: it has {len(text):,} characters, and at most {MAX_CHARACTERS:,} are read")
    if text.count("\n") > MAX_LINES:
        raise LimitError(f"invalid patch: it has more than {MAX_LINES:,} lines; split it")
    if _UNSPEAKABLE.search(text):
        raise InvalidParamsError("invalid patch: it holds a NUL or half a character")
    return tuple(_Reader(_unwrapped(text)).hunks())


def _unwrapped(text: str) -> list[str]:
    """The lines from the first marker to the last one."""
    # Not splitlines, which would also split at a form feed or U+2028 within a line of the file.
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if len(lines) >= 4 and lines[0].strip() in _HEREDOCS and lines[-1].strip() == "EOF":
        lines = lines[1:-1]
    if lines[0].strip() != BEGIN:
        raise InvalidParamsError(f"invalid patch: the first line of the patch must be '{BEGIN}'")
    if len(lines) < 2 or lines[-1].strip() != END:
        raise InvalidParamsError(f"invalid patch: the last line of the patch must be '{END}'")
    return lines


class _Reader:
    """Parses the lines between the markers, in one pass."""

    __slots__ = ("_at", "_chunks", "_end", "_lines")

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 2 if lines[1].strip().startswith(_ENVIRONMENT) else 1
        self._end = len(lines) - 1
        self._chunks = 0

    def hunks(self) -> list[Hunk]:
        hunks: list[Hunk] = []
        while (line := self._peek()) is not None:
            if not line.strip():
                self._at += 1
                continue
            if len(hunks) == MAX_HUNKS:
                raise LimitError(f"invalid patch: it changes more than {MAX_HUNKS:,} files; split it")
            hunks.append(self._hunk(line.strip()))
        return hunks

    def _hunk(self, header: str) -> Hunk:
        number = self._at + 1
        self._at += 1
        if header.startswith(_ADD):
            return AddFile(self._path(header, _ADD, number), self._added(), number)
        if header.startswith(_DELETE):
            return DeleteFile(self._path(header, _DELETE, number), number)
        if header.startswith(_UPDATE):
            return self._update(self._path(header, _UPDATE, number), number)
        raise _invalid(
            number,
            f"'{header[:200]}' is not a valid hunk header. Valid hunk headers: '{_ADD}{{path}}', '{_DELETE}{{path}}', "
            f"'{_UPDATE}{{path}}'",
        )

    def _added(self) -> str:
        begin = self._at
        while (line := self._peek()) is not None and line.startswith("+"):
            self._at += 1
        return "".join(f"{line[1:]}\n" for line in self._lines[begin : self._at])

    def _update(self, path: str, number: int) -> UpdateFile:
        move_to: str | None = None
        line = self._peek()
        if line is not None and line.strip().startswith(_MOVE):
            self._at += 1
            move_to = self._path(line.strip(), _MOVE, self._at)
        chunks: list[Chunk] = []
        while (line := self._peek()) is not None and not line.startswith("***"):
            if chunks and not line.strip():
                self._at += 1
                continue
            self._chunks += 1
            if self._chunks > MAX_CHUNKS:
                raise LimitError(f"invalid patch: it changes more than {MAX_CHUNKS:,} places; split it")
            chunks.append(self._chunk(first=not chunks))
        if not chunks and move_to is None:
            raise _invalid(number, f"Update file hunk for path '{path}' is empty")
        return UpdateFile(path, move_to, tuple(chunks), number)

    def _chunk(self, *, first: bool) -> Chunk:
        number = self._at + 1
        headers = self._headers()
        if self._at + 1 == number and not first:
            raise _invalid(
                number,
                f"Expected update hunk to start with a @@ context marker, got: '{self._lines[self._at][:200]}'",
            )
        lines: list[tuple[Mark, str]] = []
        while (line := self._peek()) is not None and (marked := _marked(line)) is not None:
            lines.append(marked)
            self._at += 1
        if not lines:
            raise _invalid(self._at + 1, _no_lines(line))
        at_end = line is not None and line.rstrip() == _END_OF_FILE
        self._at += at_end
        return Chunk(headers, tuple(lines), at_end, number)

    def _headers(self) -> tuple[str, ...]:
        """The context lines after `@@`. `@@` alone has none; line numbers, as in a unified diff, are ignored."""
        headers: list[str] = []
        while (line := self._peek()) is not None:
            if line.startswith("@@ ") and line.strip() != "@@":
                headers += [] if _LINE_NUMBERS.fullmatch(line) else [line[3:]]
            elif line.rstrip() != "@@":
                break
            self._at += 1
        return tuple(headers)

    def _peek(self) -> str | None:
        return self._lines[self._at] if self._at < self._end else None

    def _path(self, header: str, marker: str, number: int) -> str:
        return checked_path(header.removeprefix(marker).strip(), number)


def _marked(line: str) -> tuple[Mark, str] | None:
    """(mark, text) of a line of a chunk; None for any other. An empty line is context: models omit its blank."""
    match line[:1]:
        case "":
            return " ", ""
        case " " | "-" | "+" as mark:
            return mark, line[1:]
        case _:
            return None


def _no_lines(line: str | None) -> str:
    if line is None or line.startswith("***"):
        return "Update hunk does not contain any lines"
    return (
        f"Unexpected line found in update hunk: '{line[:200]}'. Every line should start with ' ' (context line), "
        "'+' (added line), or '-' (removed line)"
    )


def checked_path(path: str, number: int) -> str:
    """The normalised path, relative and below the working directory; InvalidParams for any other."""
    fault = path_fault(path)
    if fault is not None:
        raise _invalid(number, fault)
    return normal_path(path)


def normal_path(path: str) -> str:
    """The one spelling of a relative path."""
    return "/".join(_parts(path))


def path_fault(path: str) -> str | None:
    """Why a model may not change a file of this path; None where it may."""
    parts = _parts(path)
    if not path or path.endswith("/"):
        return f"the path '{path[:200]}' names no file"
    # A directory may be called `~`, but an approver would take it for the home directory.
    if path.startswith("/") or parts[:1] == ["~"]:
        return f"the path '{path[:200]}' must be relative to the working directory"
    if _CONTROL.search(path):
        return f"the path {path[:200]!r} holds a control character"
    if ".." in parts or not parts:
        return f"the path '{path[:200]}' leaves the working directory, or is it"
    encoded = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    if sum(encoded) + len(parts) - 1 > MAX_PATH_BYTES or max(encoded) > MAX_NAME_BYTES:
        return f"the path '{path[:200]}…' is too long"
    return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _invalid(number: int, what: str) -> InvalidParamsError:
    return InvalidParamsError(f"invalid hunk at line {number}, {what}", line=number)


_NAMES = ("apply_patch", "applypatch")
_HEREDOC = re.compile(
    r"\s*+(?:(?P<before>cd [^\n<&]++)&&\s*+)?(?:apply_patch|applypatch)[ \t]*+"
    r"<<(?P<quote>['\"]?)(?P<word>\w++)(?P=quote)[ \t]*+\n(?P<text>.*\n)(?P=word)\s*+",
    re.DOTALL,
)


class PatchCommand(msgspec.Struct, frozen=True, gc=False):
    """A patch in a shell command, and the directory that its paths are relative to."""

    text: str
    workdir: str | None
    """The argument of the script's `cd`, relative to the directory of the command; None without a `cd`."""


def patch_in_command(argv: Sequence[str]) -> PatchCommand | None:
    """`apply_patch TEXT`, or a script that is `apply_patch` with a heredoc, after at most one `cd`; else None."""
    match list(argv):
        case [name, text] if name in _NAMES:
            return PatchCommand(text, None)
        case [shell, flag, script] if shell in SHELLS and flag in SCRIPT_FLAGS:
            return _in_script(script)
        case _:
            return None


def _in_script(script: str) -> PatchCommand | None:
    match = _HEREDOC.fullmatch(script)
    if match is None:
        return None
    if match["before"] is None:
        return PatchCommand(match["text"], None)
    before = read_script(match["before"])
    match before.commands if before is not None else ():
        case (("cd", workdir),) if not workdir.startswith("-"):
            return PatchCommand(match["text"], workdir)
        case _:
            return None
