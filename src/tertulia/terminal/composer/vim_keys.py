"""The keys of vim for the composer: normal mode with motions, operators and one register, and nothing beyond that.

There are no counts, no visual mode and no marks. What this does not know is used up and does nothing, so that a key
of vim that is missing never ends up in a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from textual.widgets import TextArea

_WORD = re.compile(r"\w+|[^\w\s]+")
_OPERATORS = "dcy"


class VimKeys:
    """Which mode the editor is in, and what its keys do in normal mode."""

    def __init__(self, editor: TextArea, step_row: Callable[[int], None]) -> None:
        """`editor`: what is edited. `step_row`: goes a row down or up, and from the last one into the history."""
        self._editor = editor
        self._step_row = step_row
        self.normal = False
        """Whether keys are commands; at first, and after a message was sent, they are text."""
        self._operator = ""
        self._register = ""
        self._acts: dict[str, Callable[[], None]] = {
            "i": lambda: self._insert_at(self._index),
            "a": lambda: self._insert_at(min(self._index + 1, self._line_end())),
            "I": lambda: self._insert_at(self._line_start()),
            "A": lambda: self._insert_at(self._line_end()),
            "o": lambda: self._open_line(self._line_end(), 1),
            "O": lambda: self._open_line(self._line_start(), 0),
            "x": lambda: self._cut(self._index, min(self._index + 1, self._line_end())),
            "D": lambda: self._cut(self._index, self._line_end()),
            "C": lambda: self._change(self._index, self._line_end()),
            "u": editor.undo,
            "p": self._put,
            "j": lambda: step_row(1),
            "k": lambda: step_row(-1),
        }

    def key(self, key: str, character: str | None) -> bool:
        """Handle a key; False where the editor is to take it. Esc begins normal mode, and in it is Esc as ever."""
        if not self.normal:
            if key != "escape":
                return False
            self.normal = True
            self._go(max(self._index - 1, self._line_start()))
            return True
        if character is None or not character.isprintable():
            self._operator = ""
            return False
        self._command(character)
        return True

    def leave(self) -> None:
        """Take keys as text again."""
        self.normal, self._operator = False, ""

    def _command(self, key: str) -> None:
        operator, self._operator = self._operator, ""
        if operator == key:
            self._whole_line(operator)
        elif operator:
            self._operate(operator, key)
        elif key in _OPERATORS:
            self._operator = key
        elif (target := self._target(key)) is not None:
            self._go(min(target, self._last_place(target)))
        elif key in self._acts:
            self._acts[key]()

    @property
    def _index(self) -> int:
        row, column = self._editor.cursor_location
        return sum(len(line) + 1 for line in self._editor.text.split("\n")[:row]) + column

    def _place(self, index: int) -> tuple[int, int]:
        """The row and the column of an index of the text."""
        text = self._editor.text
        return text.count("\n", 0, index), index - self._line_start(index)

    def _go(self, index: int) -> None:
        self._editor.move_cursor(self._place(index))

    def _line_start(self, index: int | None = None) -> int:
        return self._editor.text.rfind("\n", 0, self._index if index is None else index) + 1

    def _line_end(self, index: int | None = None) -> int:
        text = self._editor.text
        end = text.find("\n", self._index if index is None else index)
        return len(text) if end < 0 else end

    def _last_place(self, index: int) -> int:
        """The last character of the line of this index: the cursor of normal mode stands on one."""
        return max(self._line_end(index) - 1, self._line_start(index))

    def _target(self, key: str) -> int | None:
        """Where a motion goes; None for a key that is none."""
        text, index = self._editor.text, self._index
        words = list(_WORD.finditer(text))
        targets: dict[str, Callable[[], int]] = {
            "h": lambda: max(index - 1, self._line_start()),
            "l": lambda: min(index + 1, self._line_end()),
            "0": self._line_start,
            "$": self._line_end,
            "G": lambda: len(text),
            "w": lambda: next((word.start() for word in words if word.start() > index), len(text)),
            "b": lambda: next((word.start() for word in reversed(words) if word.start() < index), 0),
            "e": lambda: next((word.end() - 1 for word in words if word.end() - 1 > index), len(text)),
        }
        return targets[key]() if key in targets else None

    def _operate(self, operator: str, motion: str) -> None:
        # As in vim, `cw` leaves the blank behind the word.
        motion = "e" if (operator, motion) == ("c", "w") else motion
        target = self._target(motion)
        if target is None:
            return
        target = target + 1 if motion == "e" else target
        begin, end = sorted((self._index, min(target, self._line_end())))
        if operator == "d":
            self._cut(begin, end)
        elif operator == "c":
            self._change(begin, end)
        else:
            self._register = self._editor.text[begin:end]

    def _whole_line(self, operator: str) -> None:
        begin, end = self._line_start(), self._line_end()
        line = self._editor.text[begin:end]
        if operator == "c":
            self._change(begin, end)
        elif operator == "d":
            last = end == len(self._editor.text)
            self._cut(max(begin - 1, 0) if last else begin, end if last else end + 1)
            self._go(self._line_start())
        self._register = f"{line}\n"

    def _put(self) -> None:
        text = self._register
        if text.endswith("\n"):
            at = self._line_end()
            self._insert(f"\n{text[:-1]}", at)
            self._go(at + 1)
        elif text:
            at = min(self._index + 1, self._line_end())
            self._insert(text, at)
            self._go(at + len(text) - 1)

    def _cut(self, begin: int, end: int) -> None:
        self._register = self._editor.text[begin:end]
        self._editor.delete(self._place(begin), self._place(end))
        self._go(min(begin, self._last_place(begin)))

    def _change(self, begin: int, end: int) -> None:
        self._cut(begin, end)
        self._insert_at(begin)

    def _open_line(self, at: int, step: int) -> None:
        self._insert("\n", at)
        self._insert_at(at + step)

    def _insert(self, text: str, at: int) -> None:
        self._editor.insert(text, self._place(at))

    def _insert_at(self, index: int) -> None:
        self._go(index)
        self.normal = False
