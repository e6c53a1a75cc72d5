"""The editor of the composer: reports the keys to which the composer gives a meaning, and shows a hint while empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tertulia.terminal.composer.vim_keys import VimKeys
from tertulia.terminal.panels.lines import fit
from tertulia.terminal.text_entry import TextEntry

_HINT = "message   / commands   @ files   ! command   Tab transcript   F1 help"
KEYS_HELP: tuple[tuple[str, str], ...] = (
    ("Enter", "send; while the conversation works: tell it at once"),
    ("Alt+Enter", "send it after what runs now"),
    ("Ctrl+Backspace", "take the newest back that waits to be sent"),
    ("Shift+Enter Ctrl+J", "another line"),
    ("↑ ↓ Ctrl+S", "earlier messages, and a search in them"),
    ("@ ! /", "a file or conversation, a command of the shell, a command"),
    ("Ctrl+X Ctrl+E", "write it in your editor"),
    ("Ctrl+V", "a picture or a text from the clipboard"),
    ("Shift+Tab", "plan, ask or auto: how much may be done unasked"),
    ("Alt+U", "with an earlier message written anew: bring its files back too"),
    ("Tab", "go to the transcript: read, copy, fork"),
)
"""The keys of the composer and what they do, for the help page."""
_CURSOR = Style(reverse=True)
_DIM = Style(dim=True)


def _key(keys: str, act: str) -> Binding:
    return Binding(keys, f"act('{act}')", show=False, id=f"composer.{act}")


class ComposerEditor(TextEntry):
    """Edits a message; the composer decides what its keys mean beyond editing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _key("alt+enter", "queue"),
        _key("ctrl+s", "search"),
        _key("ctrl+backspace,alt+up", "take_back"),
        _key("shift+tab", "mode"),
        _key("alt+u", "files"),
        _key("ctrl+v", "clipboard"),
        _key("tab", "transcript"),
    ]

    @dataclass
    class Pressed(Message):
        """A key of the composer was pressed: `send`, `cancel`, `back`, `forward`, `queue` and so on."""

        act: str

    @dataclass
    class Arrived(Message):
        """A text was pasted, or typed elsewhere for the composer."""

        text: str

    def __init__(self, wants_key: Callable[[events.Key], bool], sign_before: Callable[[str], str]) -> None:
        """Make an empty editor.

        Args:
            wants_key: Asked for each key before the editor takes it; True: the composer has used it.
            sign_before: The sign that a line ends with, which is deleted whole; empty where there is none.
        """
        super().__init__(max_lines=8)
        self._wants_key = wants_key
        self._sign_before = sign_before
        self._after_prefix = False
        self.vim: VimKeys | None = None
        """Where the person wants the keys of vim."""

    def use_vim(self) -> None:
        """Have the keys of vim from now on."""
        self.vim = VimKeys(self, lambda step: self.action_down() if step > 0 else self.action_up())

    async def _on_key(self, event: events.Key) -> None:
        if self._take_prefix(event.key) or self._wants_key(event) or self._is_command(event):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _is_command(self, event: events.Key) -> bool:
        """Have vim's keys handle a key. Returns whether they did."""
        if self.vim is None:
            return False
        before = self.vim.normal
        taken = self.vim.key(event.key, event.character)
        if self.vim.normal != before:
            self.action_act("vim")
        return taken

    def _take_prefix(self, key: str) -> bool:
        """Recognise Ctrl+X Ctrl+E, as in shells. Returns whether the key was part of it."""
        if key == "ctrl+x":
            self._after_prefix = True
            return True
        after, self._after_prefix = self._after_prefix, False
        if after and key == "ctrl+e":
            self.action_act("editor")
            return True
        return False

    async def _on_paste(self, event: events.Paste) -> None:
        # The composer decides what a paste stands for: a long one, a picture, a text.
        event.stop()
        event.prevent_default()
        self.post_message(self.Arrived(event.text))

    def action_act(self, act: str) -> None:
        """Tell the composer about a key."""
        self.post_message(self.Pressed(act))

    def action_send(self) -> None:
        """Enter: send, steer or run."""
        self.action_act("send")

    def action_cancel(self) -> None:
        """Esc: close what is open, or stop what runs."""
        self.action_act("cancel")

    def action_up(self) -> None:
        """Move a row up, and from the first one into the history."""
        if self.cursor_at_first_line and self.navigator.is_first_wrapped_line(self.cursor_location):
            self.action_act("back")
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """Move a row down, and from the last one towards the end of the history."""
        if self.cursor_at_last_line and self.navigator.is_last_wrapped_line(self.cursor_location):
            self.action_act("forward")
        else:
            self.action_cursor_down()

    def action_delete_left(self) -> None:
        """Delete a character, or a whole sign such as `[pasted 40 lines]`."""
        row, column = self.cursor_location
        sign = self._sign_before(self.document[row][:column]) if self.selection.is_empty else ""
        if sign:
            self.delete((row, column - len(sign)), (row, column))
        else:
            super().action_delete_left()

    @property
    def _hint(self) -> str:
        """The keys of the part of the screen that has the focus, where it names any; else those of the editor."""
        return getattr(self.screen.focused, "KEY_HINT", _HINT)

    def on_mount(self) -> None:
        """Show another hint when the focus moves."""
        self.watch(self.screen, "focused", self._focus_moved, init=False)

    def _focus_moved(self) -> None:
        if not self.text:
            self.refresh()

    @property
    def line_before_cursor(self) -> str:
        """What stands in the line before the cursor."""
        row, column = self.cursor_location
        return str(self.document[row])[:column]

    def render_line(self, y: int) -> Strip:
        """One row of the screen; an empty editor shows a hint."""
        width = self.size.width
        if self.text or y > 0 or width <= 0:
            return super().render_line(y)
        hint = fit(f" {self._hint}", width)
        first = Segment(hint[:1], _CURSOR if self.has_focus else _DIM)
        return Strip([first, Segment(hint[1:], _DIM)]).extend_cell_length(width)
