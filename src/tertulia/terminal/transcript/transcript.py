"""The transcript: a widget that shows any number of cells, at the cost of the rows in view.

It has a scroll position of its own, so that new text needs no layout; it compares the rows with those painted before
and repaints only those that differ; and it gives its rows to the compositor from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, cast

from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.drawing.palette import Marks, Palette
from tertulia.terminal.looks.keys import next_question_keys
from tertulia.terminal.transcript.cell_source import CellSource, ConversationCells
from tertulia.terminal.transcript.document import Document
from tertulia.terminal.transcript.messages import CopyRequested, NextQuestionRequested, WeaveRequested
from tertulia.terminal.transcript.painter import Painter
from tertulia.terminal.transcript.reader import Reader
from tertulia.terminal.transcript.selection import Point, SelectedRange, selected_text
from tertulia.terminal.transcript.viewport import Viewport
from tertulia.view.conversation_view import ConversationView

WHEEL_ROWS = 3

_ACTIONS: dict[str, Callable[[Reader], None]] = {
    "down": lambda reader: reader.move(1),
    "up": lambda reader: reader.move(-1),
    "half_down": lambda reader: reader.move_page(0.5),
    "half_up": lambda reader: reader.move_page(-0.5),
    "page_down": lambda reader: reader.move_page(1),
    "page_up": lambda reader: reader.move_page(-1),
    "first": Reader.go_first,
    "last": Reader.go_last,
    "user_before": lambda reader: reader.go_user(-1),
    "user_after": lambda reader: reader.go_user(1),
    "unfold": Reader.unfold,
    "unfold_all": Reader.unfold_all,
    "select": Reader.select,
    "copy": Reader.copy,
    "copy_code": Reader.copy_code,
    "search": Reader.begin_search,
    "older": lambda reader: reader.search_again(-1),
    "newer": lambda reader: reader.search_again(1),
    "open_file": Reader.open_file,
    "fork": Reader.fork,
}
"""The actions of the keys. `read('NAME')` is the action of a binding."""

_KEYS: tuple[tuple[str, str, str], ...] = (
    ("j,down", "down", "a row down"),
    ("k,up", "up", "a row up"),
    ("ctrl+d", "half_down", "half a screen down"),
    ("ctrl+u", "half_up", "half a screen up"),
    ("space,pagedown", "page_down", "a screen down"),
    ("pageup", "page_up", "a screen up"),
    ("g,home", "first", "to the beginning"),
    ("G,end", "last", "to the end, and follow it"),
    ("left_square_bracket", "user_before", "the message before"),
    ("right_square_bracket", "user_after", "the next message"),
    ("o", "unfold", "show all of this, or fold it"),
    ("O", "unfold_all", "show all of everything, or fold it"),
    ("v", "select", "select rows"),
    ("y", "copy", "copy what is selected, or this as it was written"),
    ("Y", "copy_code", "copy the code block"),
    ("slash", "search", "search"),
    ("n", "older", "the match above"),
    ("N", "newer", "the match below"),
    ("e", "open_file", "open the file at this line"),
    ("f", "fork", "fork here"),
    ("w", "weave", "weave this conversation and those below it, or not"),
)


class Transcript(Widget, can_focus=True):
    """Shows the cells of a source, from the end."""

    ALLOW_SELECT = False
    KEY_HINT = "j k move   y copy   Y copy code   f fork here   / search   Esc back"
    """Shown in an empty composer while the transcript has the focus."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(keys, f"read('{name}')", words, show=False, id=f"transcript.{name}") for keys, name, words in _KEYS
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._marks = Marks()
        self._palette: Palette | None = None
        self.reader = _reader(ConversationCells(ConversationView(id=ConversationId(""))), self.post_message)
        """The cursor and what is selected and searched."""
        self._painter = Painter(self.reader)
        self._lines: list[Strip] = []
        self._drag: Point | None = None
        self._next_question = next_question_keys()

    # ── what it shows ────────────────────────────────────────────────────────────────────────────────────────

    def show(self, source: CellSource) -> None:
        """Show another conversation, a weave or another moment of a replay, from its end."""
        source.update()
        self.reader = _reader(source, self.post_message)
        self._painter = Painter(self.reader)
        self._paint()

    def changed(self) -> None:
        """Repaint after cells were added, have grown or were removed. Costs what the rows in view cost."""
        self.reader.document.source.update()
        self._paint()

    def use_marks(self, marks: Marks) -> None:
        """Draw with these signs from now on."""
        self._marks = marks
        self._palette = None
        self._paint()

    def action_read(self, name: str) -> None:
        """Do what a key of the transcript stands for."""
        if name == "weave":
            self.post_message(WeaveRequested(None))
            return
        _ACTIONS[name](self.reader)
        self._paint()

    # ── painting ─────────────────────────────────────────────────────────────────────────────────────────────

    def render_line(self, y: int) -> Strip:
        """A row as it was painted last."""
        if y < len(self._lines):
            return self._lines[y]
        return Strip.blank(self.size.width, self._current_palette().base)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows from memory: the compositor asks for them with every frame of any widget."""
        if len(self._lines) != self.size.height or (self._lines and self._lines[0].cell_length != self.size.width):
            self._lines = self._compose_lines()
        lines = self._lines[crop.y : crop.bottom]
        if crop.x or crop.width != self.size.width:
            lines = [line.crop(crop.x, crop.right) for line in lines]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            lines = [line.apply_filter(line_filter, background) for line in lines]
        return lines

    def notify_style_update(self) -> None:
        """Draw everything in the colours of another theme."""
        super().notify_style_update()
        self._palette = None
        self._lines = []

    def _current_palette(self) -> Palette:
        if self._palette is None:
            app = cast("App[object]", self.app)
            base = self.visual_style.rich_style
            if app.native_ansi_color and all(
                colour is None or colour.is_default for colour in (base.color, base.bgcolor)
            ):
                # The terminal's own colours need no code at all.
                base = Style.null()
            self._palette = Palette(base, self._marks)
        return self._palette

    def _paint(self) -> None:
        """Repaint the rows that differ from those painted before."""
        if not self.size:
            # Hidden behind a page: what was drawn before may be another conversation.
            self._lines = []
            return
        before, self._lines = self._lines, self._compose_lines()
        if len(before) != len(self._lines):
            self.refresh()
            return
        rows = [y for y, line in enumerate(self._lines) if line is not before[y] and line != before[y]]
        if rows:
            self.refresh(*_regions(rows, self.size.width))

    def _compose_lines(self) -> list[Strip]:
        width, height = self.size
        return self._painter.compose(width, height, self._current_palette(), has_cursor=self.has_focus)

    def watch_has_focus(self, has_focus: bool) -> None:
        """The cursor shows while the transcript has the focus."""
        super().watch_has_focus(has_focus)
        self._paint()

    # ── keys and the mouse ───────────────────────────────────────────────────────────────────────────────────

    def on_key(self, event: events.Key) -> None:
        """While a query is written, keys are its text; Escape ends it, or a selection."""
        reader = self.reader
        if event.key == "escape":
            if reader.cancel():
                event.stop()
        elif reader.search is not None and reader.search.typing:
            if reader.search.type(event.key, event.character):
                reader.search_again(-1)
            event.stop()
        elif event.character == "/":
            # At once, because bindings come later: keys typed quickly after this one belong to the query.
            reader.begin_search()
            event.stop()
        elif self._next_question.take(event.key):
            self.post_message(NextQuestionRequested())
            event.stop()
        else:
            return
        self._paint()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the view and not the cursor."""
        self._scroll(WHEEL_ROWS)
        event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the view and not the cursor."""
        self._scroll(-WHEEL_ROWS)
        event.stop()

    def _scroll(self, rows: int) -> None:
        self.reader.viewport.scroll(rows)
        self._paint()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Put the cursor there, and begin to select if the mouse is moved."""
        self._drag = self._point(event) if event.button == 1 else None
        if self._drag is not None:
            self.reader.selected = None
            self.reader.cursor = self._drag[:2]
            self.capture_mouse()
            self._paint()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Select up to there, while the button is held."""
        point = None if self._drag is None else self._point(event)
        if self._drag is not None and point is not None and point != self._drag:
            self.reader.selected = SelectedRange(self._drag, point)
            self._paint()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Copy what was selected, if anything was."""
        if self._drag is None:
            return
        self._drag = None
        self.release_mouse()
        if self.reader.selected is not None:
            self.post_message(CopyRequested(selected_text(self.reader.document, self.reader.selected)))

    def _point(self, event: events.MouseEvent) -> Point | None:
        """The character under the mouse; outside the rows the nearest one."""
        visible = self.reader.viewport.visible()
        if not visible:
            return None
        row = min(max(0, event.y), len(visible) - 1)
        return (*visible[row], max(0, event.x))


def _reader(source: CellSource, post: Callable[[Message], object]) -> Reader:
    # The document is always drawn for the size and palette at the time of painting.
    document = Document(source, 0, Palette(Style.null()))
    return Reader(document, Viewport(lambda: len(document), document.height, 0), post)


def _regions(rows: Sequence[int], width: int) -> list[Region]:
    """The rows as regions, with neighbouring rows joined."""
    regions: list[Region] = []
    start = before = rows[0]
    for row in rows[1:]:
        if row != before + 1:
            regions.append(Region(0, start, width, before + 1 - start))
            start = row
        before = row
    regions.append(Region(0, start, width, before + 1 - start))
    return regions
