"""A text field of several lines, which the composer and the approvals panel use.

Textual's editor with the keys of Emacs, a cursor that never blinks, and the terminal's own cursor at the place of
editing (input methods open their windows there). It holds no control characters: see `is_plain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import TextAreaTheme

from tertulia.policy.display_text import printable
from tertulia.terminal.widget_app import app_of


def is_plain(text: str) -> bool:
    """Whether every character of a text is shown as it is."""
    return printable(text) == text


_OWN_COLOURS = TextAreaTheme(
    name="tertulia", base_style=Style(), cursor_style=Style(reverse=True), selection_style=Style(reverse=True)
)
"""The terminal's own colours, readable on light and on dark."""


def _hidden(keys: str, action: str, id: str) -> Binding:
    return Binding(keys, action, show=False, id=f"entry.{id}")


class TextEntry(TextArea, inherit_bindings=False):
    """Edits a text. Enter sends it, Esc leaves it."""

    DEFAULT_CSS = """
    TextEntry { height: auto; min-height: 1; max-height: 8; border: none; padding: 0; background: transparent; }
    TextEntry:focus { border: none; background: transparent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _hidden("enter", "send", "send"),
        _hidden("escape", "cancel", "cancel"),
        _hidden("shift+enter,ctrl+j", "new_line", "new_line"),
        _hidden("up,ctrl+p", "up", "up"),
        _hidden("down,ctrl+n", "down", "down"),
        _hidden("left,ctrl+b", "cursor_left", "left"),
        _hidden("right,ctrl+f", "cursor_right", "right"),
        _hidden("ctrl+left,alt+b,alt+left", "cursor_word_left", "word_left"),
        _hidden("ctrl+right,alt+f,alt+right", "cursor_word_right", "word_right"),
        _hidden("home,ctrl+a", "cursor_line_start", "line_start"),
        _hidden("end,ctrl+e", "cursor_line_end", "line_end"),
        _hidden("shift+left", "cursor_left(True)", "select_left"),
        _hidden("shift+right", "cursor_right(True)", "select_right"),
        _hidden("shift+up", "cursor_up(True)", "select_up"),
        _hidden("shift+down", "cursor_down(True)", "select_down"),
        _hidden("shift+home", "cursor_line_start(True)", "select_line_start"),
        _hidden("shift+end", "cursor_line_end(True)", "select_line_end"),
        _hidden("backspace", "delete_left", "delete_left"),
        _hidden("delete,ctrl+d", "delete_right", "delete_right"),
        _hidden("ctrl+w,alt+backspace", "delete_word_left", "delete_word_left"),
        _hidden("alt+d,alt+delete", "delete_word_right", "delete_word_right"),
        _hidden("ctrl+u", "delete_to_start_of_line", "delete_to_start"),
        _hidden("alt+k", "delete_to_end_of_line", "delete_to_end"),
        _hidden("ctrl+underscore", "undo", "undo"),
        _hidden("alt+underscore", "redo", "redo"),
    ]

    @dataclass
    class Sent(Message):
        """The person has finished the text."""

        entry: TextEntry
        text: str

    @dataclass
    class Cancelled(Message):
        """The person wants to leave the field."""

        entry: TextEntry

    def __init__(self, text: str = "", *, id: str | None = None, max_lines: int = 8) -> None:
        super().__init__(text, id=id, soft_wrap=True, show_line_numbers=False, tab_behavior="focus", compact=True)
        self.register_theme(_OWN_COLOURS)
        self.theme = _OWN_COLOURS.name
        self.styles.max_height = max_lines
        self.cursor_blink = False
        self.highlight_cursor_line = False
        self.match_cursor_bracket = False

    def start_with(self, text: str) -> None:
        """Replace the whole text and put the cursor at its end. Characters that are not plain are left out."""
        self.load_text("".join(character for character in text if is_plain(character)))
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        if event.key in self._bindings.key_to_bindings:
            # A key that the key map names, Enter too, is left to the bindings.
            event.prevent_default()
            return
        await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        plain = text if is_plain(text) else "".join(character for character in text if is_plain(character))
        await super()._on_paste(events.Paste(plain))
        event.stop()
        event.prevent_default()

    def on_resize(self) -> None:
        """Tell the terminal where its cursor is now; Textual does so only when the text changes."""
        self.call_after_refresh(self.place_cursor)

    def place_cursor(self) -> None:
        """Put the terminal's own cursor at the place of editing."""
        if self.has_focus:
            app_of(self).cursor_position = self.cursor_screen_offset

    def action_send(self) -> None:
        """Post the text as finished."""
        self.post_message(self.Sent(self, self.text))

    def action_cancel(self) -> None:
        """Post that the person leaves the field."""
        self.post_message(self.Cancelled(self))

    def action_new_line(self) -> None:
        """Begin another line where the cursor is."""
        self.insert("\n")

    def action_up(self) -> None:
        """Go to the row above, if any."""
        self.action_cursor_up()

    def action_down(self) -> None:
        """Go to the row below, if any."""
        self.action_cursor_down()
