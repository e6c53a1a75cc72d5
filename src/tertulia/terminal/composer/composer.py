"""The composer: the text that a person writes, and what the keys on it mean. It posts messages and calls nothing.

Above the editor it shows queued messages, completions, and the question before a mode that allows more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static, TextArea

from tertulia.events.clock import Clock, SystemClock
from tertulia.policy.display_text import printable
from tertulia.terminal.composer import messages as m
from tertulia.terminal.composer.completing import Completing
from tertulia.terminal.composer.editor import ComposerEditor
from tertulia.terminal.composer.fork_draft import ForkDraft
from tertulia.terminal.composer.modes import Mode, ModeChoice
from tertulia.terminal.composer.pastes import Pastes
from tertulia.terminal.composer.pictures import Picture, picture_in
from tertulia.terminal.composer.sources import Sources
from tertulia.terminal.panels.lines import Part, clean, line
from tertulia.terminal.rows_view import RowsView

_TWICE_S = 0.6
"""Seconds within which two presses of Esc count as one gesture."""
_QUEUED_SHOWN = 3


class Composer(Vertical):
    """The field in which a person writes. The application tells it what runs, what is queued and which mode holds."""

    DEFAULT_CSS = """
    Composer { height: auto; }
    Composer Horizontal { height: auto; }
    Composer #prompt { width: auto; height: 1; }
    Composer ComposerEditor { width: 1fr; }
    """
    Submitted = m.Submitted
    CommandEntered = m.CommandEntered
    ShellEntered = m.ShellEntered
    TakeBackRequested = m.TakeBackRequested
    ModeCycled = m.ModeCycled
    EditorRequested = m.EditorRequested
    StopRequested = m.StopRequested
    EarlierRequested = m.EarlierRequested
    FilesWanted = m.FilesWanted
    ClipboardRequested = m.ClipboardRequested

    def __init__(self, directory: Path | None = None, *, clock: Clock | None = None, id: str | None = None) -> None:
        """`directory`: where relative paths of pictures begin; None: where the program was started."""
        super().__init__(id=id)
        self.sources = Sources()
        self.modes = ModeChoice()
        self.running = False
        """Whether the conversation in view works, so that Enter steers it."""
        self._directory = directory or Path()
        self._clock: Clock = clock or SystemClock()
        self._pastes = Pastes()
        self._editor = ComposerEditor(self._wants_key, self._pastes.sign_before)
        self._completing = Completing(lambda: self._editor, self.sources, self.put)
        self._rows = RowsView()
        self._queued: Sequence[str] = ()
        self.fork: ForkDraft | None = None
        """The earlier message that is written anew."""
        self._escaped_at = float("-inf")

    def compose(self) -> ComposeResult:
        """The rows above, the prompt and the editor."""
        yield self._rows
        with Horizontal():
            yield Static("> ", id="prompt", markup=False)
            yield self._editor

    # ---- what the application tells

    @property
    def is_idle(self) -> bool:
        """Whether the editor has the focus and holds nothing."""
        return self._editor.has_focus and not self._editor.text and not self.modes.wanted

    def take_focus(self) -> None:
        """Have what is typed go to the editor."""
        self._editor.focus()

    def show(self, *, running: bool, queued: Sequence[str], mode: Mode | None = None) -> None:
        """Show the state of the conversation in view."""
        self.running = running
        wanted = mode or self.modes.mode
        if (list(queued), wanted) != (list(self._queued), self.modes.mode):
            # Called with every frame; drawn only when something has changed.
            self._queued, self.modes.mode = queued, wanted
            self.redraw()

    def use_vim(self) -> None:
        """Give the editor the keys of vim."""
        self._editor.use_vim()

    def put(self, text: str, *, fork_at: str | None = None) -> None:
        """Edit this text: a message taken back, the result of an editor, or an earlier message to be sent in a fork."""
        self.fork = None if fork_at is None else ForkDraft(fork_at)
        self._pastes.clear()
        self._editor.start_with(text if text == printable(text) else self._pastes.fold(text))
        self._editor.focus()
        self.redraw()

    def insert(self, text: str) -> None:
        """Put a text in at the cursor, as if it had been typed or pasted."""
        self.on_composer_editor_arrived(ComposerEditor.Arrived(text))

    def add_picture(self, picture: Picture) -> None:
        """Insert the sign for a picture."""
        self._editor.insert(self._pastes.add_picture(picture))

    # ---- drawing

    def redraw(self) -> None:
        """Draw what stands above the editor."""
        width = self.size.width
        modes, choices = self.modes, self._completing.list
        rows: list[list[Part]] = [[("queued  ", "dim"), (clean(text), "")] for text in self._queued[:_QUEUED_SHOWN]]
        if len(self._queued) > _QUEUED_SHOWN:
            rows.append([(f"        {len(self._queued) - _QUEUED_SHOWN} more are queued", "dim")])
        rows += [
            [("› " if at == choices.at else "  ", "bold"), (clean(one.text), ""), (f"  {one.help}", "dim")]
            for at, one in enumerate(choices.candidates)
        ]
        rows += [] if self.fork is None else self.fork.rows()
        if modes.question:
            rows.append([(modes.question, "bold yellow")])
        self._rows.put([line(row, width) for row in rows])
        vim = self._editor.vim
        words = [*(() if modes.mode == "ask" else (modes.mode,)), *(("normal",) if vim and vim.normal else ())]
        prompt = "".join(f"{word} " for word in words) + "> "
        self.query_one("#prompt", Static).update(prompt)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.redraw()

    # ---- keys

    def _wants_key(self, event: events.Key) -> bool:
        """Handle a key before the editor does: the question about a mode and an open list come first."""
        if self.modes.wanted is not None and event.key != "shift+tab":
            if self.modes.answer(event.key, self._clock.monotonic()):
                self.post_message(m.ModeCycled(self.modes.mode))
                self.redraw()
                return True
            self.redraw()
            return event.key == "escape"
        taken = self._completing.key(event.key)
        if taken:
            self.redraw()
        return taken

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Update the completions after the text has changed."""
        event.stop()
        if self._completing.update():
            self.redraw()
        if self._completing.needs_files:
            self.sources.files = ()
            self.post_message(m.FilesWanted())

    def set_files(self, paths: Sequence[str]) -> None:
        """Take the files of the directory, for completion."""
        self.sources.files = paths
        self.on_text_area_changed(TextArea.Changed(self._editor))

    def on_composer_editor_arrived(self, message: ComposerEditor.Arrived) -> None:
        """Insert a pasted text: as a picture, as a sign for a long text, or as it is."""
        message.stop()
        text = message.text.replace("\r\n", "\n").replace("\r", "\n")
        picture = picture_in(text, self._directory)
        self._editor.insert(self._pastes.fold(text) if picture is None else self._pastes.add_picture(picture))

    def on_composer_editor_pressed(self, message: ComposerEditor.Pressed) -> None:
        """A key of the composer was pressed."""
        message.stop()
        match message.act:
            case "send":
                self._send("steer" if self.running else "message")
            case "queue":
                self._send("queue")
            case "cancel":
                self._cancel()
            case "back":
                self._bring(self.sources.history.back(self._editor.text))
            case "forward":
                self._bring(self.sources.history.forward())
            case _:
                self._other(message.act)

    def _other(self, act: str) -> None:
        match act:
            case "search":
                self._completing.search_history()
            case "mode":
                if self.modes.cycle(self._clock.monotonic()):
                    self.post_message(m.ModeCycled(self.modes.mode))
            case "vim":
                # Only the prompt, which shows the mode of the editor.
                pass
            case "files" if self.fork is not None:
                self.fork.toggle()
            case "files":
                # Without a fork there is nothing to bring back.
                pass
            case "take_back":
                self.post_message(m.TakeBackRequested())
            case "transcript":
                self.post_message(m.TranscriptWanted())
            case "editor":
                self.post_message(m.EditorRequested(self._pastes.expand(self._editor.text)[0]))
            case _:
                self.post_message(m.ClipboardRequested())
        self.redraw()

    def _bring(self, text: str | None) -> None:
        if text is not None:
            self._editor.start_with(text if text == printable(text) else self._pastes.fold(text))
            self._completing.list.close()
            self.redraw()

    def _cancel(self) -> None:
        now, empty = self._clock.monotonic(), not self._editor.text
        if self.fork is not None:
            self.fork = None
            self._editor.start_with("")
        elif empty and now - self._escaped_at < _TWICE_S:
            now = float("-inf")
            self.post_message(m.EarlierRequested())
        else:
            self.post_message(m.StopRequested())
        self._escaped_at = now
        self.redraw()

    def _send(self, how: m.SendHow) -> None:
        text, pictures = self._pastes.expand(self._editor.text)
        text = text.strip()
        if not text and not pictures:
            return
        fork, self.fork = self.fork, None
        self._editor.start_with("")
        self._pastes.clear()
        self._completing.list.close()
        self.sources.history.add(text)
        if self._editor.vim is not None:
            self._editor.vim.leave()
        self.post_message(self.sources.message_for(text, how, pictures, fork))
        self.redraw()
