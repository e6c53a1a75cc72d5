"""Draws a Markdown text that is still being streamed: blocks that cannot change any more are drawn once.

All blocks but the last are settled, and in an open code block all lines but the last. So a frame costs what its last
block costs, however long the text above it is. The complete text is drawn once more as a whole, by `markdown`.
"""

from __future__ import annotations

import re

from tertulia.policy.display_text import printable
from tertulia.terminal.drawing.code_colours import coloured_lines
from tertulia.terminal.drawing.markdown import (
    PROSE_WIDTH,
    MarkdownBlock,
    blocks_rows,
    code_line_rows,
    fence_rows,
    language_of,
    parse_blocks,
)
from tertulia.terminal.drawing.palette import Palette
from tertulia.terminal.drawing.rows import TextRow, plain_rows

MAX_TAIL = 16 * 1024
"""Characters of a last block that is still read as Markdown while it grows."""
UNFINISHED = "\r\u200d"
"""Characters at the end of a piece that may belong together with the beginning of the next one."""


class _OpenFence:
    """A code block that is not closed yet, and its lines that are whole."""

    __slots__ = ("_closing", "_indent", "language", "lines", "rows")

    def __init__(self, opening: str) -> None:
        """`opening`: the line that it begins with."""
        unmarked = opening.lstrip(" ")
        info = unmarked.lstrip(unmarked[0])
        indent, marker = opening[: -len(unmarked)], unmarked[: len(unmarked) - len(info)]
        self.language = language_of(info)
        self.lines: list[str] = []
        self.rows: list[TextRow] = []
        self._indent = len(indent)
        self._closing = re.compile(rf" {{0,3}}{marker[0]}{{{len(marker)},}}[ \t]*")

    def is_closed_by(self, line: str) -> bool:
        """Whether the code block ends with this line."""
        return self._closing.fullmatch(line) is not None

    def content(self, line: str) -> str:
        """The line without the indentation that the opening line has."""
        blank = len(line) - len(line.lstrip(" "))
        return line[min(blank, self._indent) :]


class GrowingMarkdown:
    """The rows of a text that grows, for one width."""

    __slots__ = ("_fence", "_palette", "_rows", "_start", "_width")

    def __init__(self, width: int, palette: Palette) -> None:
        self._width = width
        self._palette = palette
        self._rows: list[TextRow] = []
        """The rows of everything before `_start`."""
        self._start = 0
        self._fence: _OpenFence | None = None

    def draw(self, text: str) -> list[TextRow]:
        """The rows of the text, which begins with the text that was drawn before."""
        text = text.rstrip(UNFINISHED)
        while True:
            if self._fence is None:
                tail = self._draw_blocks(text)
                if tail is not None:
                    return self._with(tail)
            else:
                tail = self._draw_fence(text, self._fence)
                if tail is not None:
                    return self._with(tail)

    def _with(self, tail: list[TextRow]) -> list[TextRow]:
        if not tail:
            return list(self._rows)
        return [*self._rows, TextRow([]), *tail] if self._rows else tail

    def _draw_blocks(self, text: str) -> list[TextRow] | None:
        """Settle the blocks that are complete, and draw the rest; None where an open code block was found."""
        if len(text) - self._start > MAX_TAIL and (rows := self._draw_plain(text)):
            return rows
        tail = printable(text[self._start :])
        blocks = parse_blocks(tail)
        if not blocks:
            return []
        lines = tail.split("\n")
        # An incomplete line may turn out to belong to the block above it.
        rest = 1 if len(blocks) == 1 or blocks[-1].first_line < len(lines) - 1 else 2
        last = blocks[-rest]
        if rest == 1 and last.is_fence and last.first_line < len(lines) - 1:
            self._settle(self._draw_all(blocks[:-1]), text, last.first_line + 1)
            self._fence = _OpenFence(lines[last.first_line])
            return None
        if len(blocks) > rest:
            self._settle(self._draw_all(blocks[:-rest]), text, last.first_line)
        return self._draw_all(blocks[-rest:])

    def _draw_plain(self, text: str) -> list[TextRow]:
        """Settle complete lines as plain text; returns the rows of a last line that is too long for Markdown."""
        width, style = min(self._width, PROSE_WIDTH), self._palette["text"]
        end = text.rfind("\n", self._start)
        if end > self._start:
            self._rows = self._with(plain_rows(printable(text[self._start : end]), width, style))
            self._start = end + 1
        if len(text) - self._start <= MAX_TAIL:
            return []
        return plain_rows(printable(text[self._start :]), width, style)

    def _draw_fence(self, text: str, fence: _OpenFence) -> list[TextRow] | None:
        """Settle the complete lines, and draw the last one; None where the code block is closed."""
        *whole, partial = text[self._start :].split("\n")
        for line in whole:
            self._start += len(line) + 1
            line = printable(line.removesuffix("\r"))
            if fence.is_closed_by(line):
                self._rows = self._with(fence_rows("\n".join(fence.lines), fence.language, self._width, self._palette))
                self._fence = None
                return None
            fence.lines.append(fence.content(line))
            fence.rows += self._code_rows(fence, fence.lines[-1])
        partial = printable(partial)
        if (partial.strip() and not fence.is_closed_by(partial)) or not fence.rows:
            shown = "" if fence.is_closed_by(partial) else fence.content(partial)
            return [*fence.rows, *self._code_rows(fence, shown)]
        return list(fence.rows)

    def _code_rows(self, fence: _OpenFence, line: str) -> list[TextRow]:
        # Coloured by itself: a string over several lines gets its colour when the block is complete.
        rows: list[TextRow] = []
        for runs in coloured_lines(line, fence.language, self._palette):
            rows += code_line_rows(runs, self._width, self._palette, None)
        return rows

    def _draw_all(self, blocks: list[MarkdownBlock]) -> list[TextRow]:
        return blocks_rows(blocks, self._width, self._palette)

    def _settle(self, rows: list[TextRow], text: str, lines: int) -> None:
        """These rows are drawn for good; the text goes on so many lines below its last beginning."""
        self._rows = self._with(rows)
        for _ in range(lines):
            self._start = text.index("\n", self._start) + 1
