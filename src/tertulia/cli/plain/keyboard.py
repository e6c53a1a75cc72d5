"""The keyboard of a plain terminal while a task runs: lines are read key by key.

So a half-typed line is known: until it is finished nothing is printed and no question is asked, and no key of a message
answers a question. What is typed is echoed as a terminal would, and nothing else is ever written over.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tertulia.cli.exec.terminal_approver import TerminalInput

if TYPE_CHECKING or sys.platform != "win32":
    import termios

_ERASE = "\x7f\b"
_CLEAR = "\x15"
_END = "\x04"
_ESCAPE = "\x1b"


class LineEditor:
    """Keys in, lines and their echo out. Pure."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""

    @property
    def half_typed(self) -> bool:
        """Whether a line has begun and has not ended."""
        return bool(self._text)

    def feed(self, keys: bytes) -> tuple[list[str | None], str]:
        """The lines that these keys end, None for the end of input, and what a terminal would echo."""
        lines: list[str | None] = []
        echo = "".join(self._key(key, lines) for key in self._decoder.decode(keys))
        return lines, echo

    def clear(self) -> None:
        """Forget the line that is half typed."""
        self._text.clear()

    def _key(self, key: str, lines: list[str | None]) -> str:
        if self._escape or key == _ESCAPE:
            return self._skip(key)
        if key in "\r\n":
            lines.append("".join(self._text))
            self._text.clear()
            return "\n"
        if key in _ERASE or key == _CLEAR:
            return self._erase(len(self._text) if key == _CLEAR else 1)
        if key == _END and not self._text:
            lines.append(None)
            return ""
        if key != "\t" and unicodedata.category(key) == "Cc":
            return ""
        self._text.append(" " if key == "\t" else key)
        return self._text[-1]

    def _skip(self, key: str) -> str:
        """The codes of arrows and other keys: none of them edits here."""
        self._escape += key
        begins = len(self._escape) == 1 or (len(self._escape) == 2 and key in "[O")
        if not begins and not (self._escape[1] in "[O" and len(self._escape) > 2 and not "@" <= key <= "~"):
            self._escape = ""
        return ""

    def _erase(self, count: int) -> str:
        erased, self._text = self._text[-count:] if count else [], self._text[: len(self._text) - count]
        columns = sum(2 if unicodedata.east_asian_width(key) in "WF" else 1 for key in erased)
        return "\b \b" * columns


class PlainKeyboard(TerminalInput):
    """Gives lines to the question that waits for one, else to the task that runs."""

    def __init__(
        self, fd: int, *, asks: Callable[[], bool], on_idle: Callable[[], None], on_lost: Callable[[], None]
    ) -> None:
        """The keyboard of this terminal.

        Args:
            fd: The descriptor of the terminal.
            asks: Whether questions are open: then no line that is begun goes to a task.
            on_idle: Called when the line that was half typed has ended.
            on_lost: Called when a line is dropped: it was typed for a question that is gone, or while one was shown.
        """
        super().__init__(fd)
        self._asks, self._on_idle, self._on_lost = asks, on_idle, on_lost
        self._editor = LineEditor()
        self._before: list[int | list[bytes | int]] | None = None
        self._answering: asyncio.Future[str | None] | None = None
        self._begun_for: asyncio.Future[str | None] | None = None
        """The question that the half typed line answers."""
        self._begun_free = True
        """Whether no question was open when that line was begun."""
        self._reading: asyncio.Future[str | None] | None = None
        self._lines: deque[str | None] = deque()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def half_typed(self) -> bool:
        """Whether a person is typing a line."""
        return self._editor.half_typed

    async def idle(self) -> None:
        """Come back when no line is half typed."""
        await self._idle.wait()

    @contextmanager
    def typing(self) -> Generator[None]:
        """Read key by key while the block lasts, where the terminal can."""
        if sys.platform == "win32":
            yield
            return
        loop = asyncio.get_running_loop()
        try:
            self._before = termios.tcgetattr(self._fd)
        except termios.error:
            yield
            return
        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self._fd, termios.TCSANOW, mode)
        loop.add_reader(self._fd, self._take)
        try:
            yield
        finally:
            loop.remove_reader(self._fd)
            self.restore()

    def restore(self) -> None:
        """Give the terminal back as it was. More than one call is fine."""
        if self._before is not None and sys.platform != "win32":
            with suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._before = None

    async def line(self) -> str | None:
        """The next line, as the answer to a question; None at the end of input."""
        if self._before is None:
            return await super().line()
        self._answering = waiter = asyncio.get_running_loop().create_future()
        try:
            return await waiter
        finally:
            self._answering = None

    async def message(self) -> str | None:
        """The next line that answers no question; None at the end of input."""
        if self._lines:
            return self._lines.popleft()
        self._reading = waiter = asyncio.get_running_loop().create_future()
        try:
            return await waiter
        finally:
            self._reading = None

    def left_over(self) -> list[str]:
        """Whole lines that came too late for the task."""
        lines = [line for line in self._lines if line]
        self._lines.clear()
        return lines

    def _take(self) -> None:
        try:
            keys = os.read(self._fd, 65_536)
        except OSError:
            keys = b""
        if not keys:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._deliver(None)
            return
        if not self.half_typed:
            self._begin_line()
        lines, echo = self._editor.feed(keys)
        with suppress(OSError):
            os.write(self._fd, echo.encode())
        for line in lines:
            self._deliver(line)
        if self.half_typed:
            self._idle.clear()
        elif not self._idle.is_set():
            self._idle.set()
            self._on_idle()

    def _begin_line(self) -> None:
        self._begun_for, self._begun_free = self._answering, not self._asks()

    def _deliver(self, line: str | None) -> None:
        question, free = self._begun_for, self._begun_free
        self._begin_line()
        waiter = self._reading if free else question
        if line is None:
            waiter = self._answering or self._reading
        if waiter is not None and not waiter.done():
            waiter.set_result(line)
        elif free or line is None:
            self._lines.append(line)
        else:
            # It was begun for a question that is gone, or while one was being shown.
            self._on_lost()
