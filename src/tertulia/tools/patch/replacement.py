"""Exact replacement in a file's text, and whole files: what the tools `edit` and `write` ask the engine for.

What is not replaced keeps every byte. Line ends, the encoding, a mark at the beginning and the end of the last line are
the file's own, whatever the model wrote. Reads and writes no file.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.tools.patch.match import WorkBudget

MAX_EDITS = 200
"""How many edits one call may have."""
_SHOWN_PLACES = 5
_WIDE = (
    # First: their marks begin with those of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK = "\ufeff"
_LINE_END = re.compile("\r\n")
_FIRST_LINE = re.compile(r"[^\n]*[^\s][^\n]*")


class Replacement(msgspec.Struct, frozen=True):
    """A text that must stand in the file exactly once, and what takes its place."""

    old: str
    new: str


class ReplaceText(msgspec.Struct, frozen=True):
    """Replace texts of a file that must be there; each replacement sees the result of those before it."""

    path: str
    replacements: tuple[Replacement, ...]


class WriteFile(msgspec.Struct, frozen=True):
    """Write a file; one that is there already is replaced."""

    path: str
    content: str


class InsertText(msgspec.Struct, frozen=True):
    """Put whole lines after a line of a file that must be there; 0 is before the first."""

    path: str
    after_line: int
    text: str


class FileText(msgspec.Struct, frozen=True):
    """The text of a file, and how it was encoded. Bytes that are not UTF-8 are preserved."""

    text: str
    encoding: str = "utf-8"

    @classmethod
    def decode(cls, content: bytes) -> FileText | None:
        """None for a binary file."""
        if b"\0" not in content:
            return cls(content.decode("utf-8", "surrogateescape"))
        for mark, encoding in _WIDE:
            if content.startswith(mark):
                try:
                    return cls(content.decode(encoding), encoding)
                except UnicodeDecodeError:
                    return None
        return None

    def encode(self, text: str) -> bytes:
        """Another text for the same file."""
        return text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "strict")

    @property
    def line_end(self) -> str:
        """The line end that new lines get where no neighbour says it."""
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"


def replaced(change: ReplaceText, content: bytes, effort: WorkBudget) -> bytes:
    """The new content; InvalidParams names the file, and the replacement that does not fit."""
    file = _text_of(change.path, content)
    text = file.text
    for number, replacement in enumerate(change.replacements, 1):
        effort.check()
        where = f"{change.path}: edit {number} of {len(change.replacements)}"
        text = _replace_once(where, text, replacement, file.line_end)
    return file.encode(text)


def inserted(change: InsertText, content: bytes) -> bytes:
    """The new content; InvalidParams where the file has no such line."""
    file = _text_of(change.path, content)
    lines = file.text.split("\n")
    count = len(lines) - (not lines[-1])
    if change.after_line > count:
        raise InvalidParamsError(f"{change.path} has {count:,} lines, there is no line {change.after_line:,}")
    end = "\r" if file.line_end == "\r\n" else ""
    new = [f"{line}{end}" for line in change.text.replace("\r\n", "\n").removesuffix("\n").split("\n")]
    if change.after_line == len(lines):
        # The last line has no end: it gets one, and the new last line has none.
        lines[-1] += end
        new[-1] = new[-1].removesuffix("\r")
    return file.encode("\n".join([*lines[: change.after_line], *new, *lines[change.after_line :]]))


def written(change: WriteFile, old: bytes | None) -> bytes:
    """The new content, in the form of the file that it replaces."""
    file = None if not old else FileText.decode(old)
    if file is None:
        return change.content.encode()
    text = change.content
    if file.line_end == "\r\n" and "\r" not in text:
        text = text.replace("\n", "\r\n")
    if file.text.endswith("\n") and text and not text.endswith("\n"):
        text += file.line_end
    if file.text.startswith(_MARK):
        text = _MARK + text.removeprefix(_MARK)
    return file.encode(text)


def _text_of(path: str, content: bytes) -> FileText:
    file = FileText.decode(content)
    if file is None:
        raise InvalidParamsError(f"{path} is a binary file; nothing was changed")
    return file


def _replace_once(where: str, text: str, wanted: Replacement, usual_end: str) -> str:
    if "\r\n" not in text:
        start = _only_place(where, text, wanted.old)
        return f"{text[:start]}{wanted.new}{text[start + len(wanted.old) :]}"
    # Models write plain line ends whatever a file has: the text is searched without the others, which stay in it.
    flat, old, new = (part.replace("\r\n", "\n") for part in (text, wanted.old, wanted.new))
    start = _only_place(where, flat, old)
    same = _common_start(old, new)
    tail = _common_start(old[same:][::-1], new[same:][::-1])
    returns = [found.start() - number for number, found in enumerate(_LINE_END.finditer(text))]
    begin, end = (at + bisect_left(returns, at) for at in (start + same, start + len(old) - tail))
    first = text.find("\n", begin)
    crlf = text[first - 1] == "\r" if first > 0 else usual_end == "\r\n"
    middle = new[same : len(new) - tail]
    return text[:begin] + (middle.replace("\n", "\r\n") if crlf else middle) + text[end:]


def _only_place(where: str, text: str, old: str) -> int:
    start = text.find(old)
    if start < 0:
        raise InvalidParamsError(f"{where}: its old text is not in the file{_near(text, old)}; nothing was changed")
    if text.find(old, start + 1) >= 0:
        raise InvalidParamsError(
            f"{where}: its old text is in the file more than once ({_lines_of(text, old)}); give more lines around it, "
            "so that it fits one place; nothing was changed"
        )
    return start


def _lines_of(text: str, old: str) -> str:
    """The lines at which a text begins, the first few."""
    numbers: list[int] = []
    at = text.find(old)
    while at >= 0 and len(numbers) <= _SHOWN_PLACES:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + 1)
    shown = ", ".join(f"{number:,}" for number in numbers[:_SHOWN_PLACES])
    return f"lines {shown}{' and more' if len(numbers) > _SHOWN_PLACES else ''}"


def _near(text: str, old: str) -> str:
    """Where its first line stands, with other white space or another end: often all that a model needs to know."""
    first = _FIRST_LINE.search(old)
    wanted = first[0].strip() if first else ""
    at = text.find(wanted) if wanted else -1
    if at < 0:
        return "; view it again"
    number = text.count("\n", 0, at) + 1
    return f"; line {number:,} has its first line, and what follows or the white space differs: view it again"


def _common_start(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[:middle]):
            low = middle
        else:
            high = middle - 1
    return low
