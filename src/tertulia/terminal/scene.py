"""What is on the screen now: the board, the seen conversation, the page in its place, and their widgets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.app import App
from textual.geometry import Size

from tertulia.errors import TertuliaError
from tertulia.events.clock import Clock
from tertulia.policy.display_text import printable
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.terminal.frames import Frame
from tertulia.terminal.panels.page import PageContent
from tertulia.terminal.panes import Panes
from tertulia.terminal.transcript.cell_source import ConversationCells
from tertulia.terminal.transcript.weave import Weave
from tertulia.view.board import Board
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import name_of

ForkStored = Callable[[str, str, ItemId | None], Awaitable[str]]
"""Copies a conversation of a stored session up to an item, or whole, into a new session; returns its id."""


class Scene:
    """Shows boards on the widgets of the application. It never calls the port."""

    def __init__(self, app: App[int], clock: Clock, on_seen: Callable[[], None]) -> None:
        """`app`: has the widgets. `clock`: gives times. `on_seen`: called when another conversation is seen."""
        self.app = app
        self.panes = Panes(clock)
        self.clock = clock
        self._on_seen = on_seen
        self.board = Board()
        self.seen: ConversationId | None = None
        self.editor = "vi"
        """The command of the person's editor."""
        self.home: Path | None = None
        """The data directory of stored sessions; None where it is on another machine."""
        self.fork_stored: ForkStored | None = None
        """Makes a copy of a stored session; None where those are on another machine."""
        self.stored = False
        """Whether the session can be resumed."""
        self.weaves = False
        """Whether the transcript shows several conversations in one stream."""
        self._woven: ConversationId | None = None
        """The conversation below which they are woven; None: all are."""
        self._side: bool | None = None
        """Whether the person wants the side panel; None: show it where there is room."""
        self._awaited: ConversationId | None = None
        """A conversation to show as soon as it is open."""

    @property
    def view(self) -> ConversationView | None:
        """The seen conversation; None while there is none."""
        return None if self.seen is None else self.board.conversations.get(self.seen)

    def name(self, conversation_id: ConversationId) -> str:
        """The name of a conversation, safe to show."""
        view = self.board.conversations.get(conversation_id)
        return printable(name_of(view, self.board.root_id)) if view is not None else conversation_id[:8]

    def paint(self, frame: Frame) -> None:
        """Show what changed since the last frame."""
        if self.seen is None and self.board.root_id in self.board.conversations:
            self.see(self.board.root_id)
        if self._awaited in self.board.conversations:
            self.see(self._awaited)
        if self.weaves or self.seen in frame.conversations:
            self.panes.transcript.changed()
            if self.seen is not None:
                self.board.read(self.seen)
        if frame.tree or frame.questions or frame.servers or frame.totals:
            # Not for a text that only grows: the panels around it stay the same.
            self.show_around()

    def show_around(self) -> None:
        """Show the board in all panels but the transcript."""
        self.panes.show_board(self.board, self.seen, self.clock.now())
        count = len(self.board.questions)
        self.app.title = f"Tertulia: {count} ask" if count else "Tertulia"

    def see(self, conversation_id: ConversationId | None) -> None:
        """Show the transcript of a conversation, from its end."""
        view = None if conversation_id is None else self.board.conversations.get(conversation_id)
        if view is None:
            return
        is_other = conversation_id != self.seen
        self.seen, self.weaves, self._awaited = conversation_id, False, None
        self.board.read(view.id)
        self.panes.transcript.show(ConversationCells(view, self.board))
        self.leave_page()
        self.show_around()
        if is_other:
            self._on_seen()

    def see_when_open(self, conversation_id: ConversationId) -> None:
        """Show a conversation as soon as the event of its opening has come."""
        self._awaited = conversation_id
        self.see(conversation_id)

    def toggle_weave(self, below: ConversationId | None = None) -> None:
        """Show conversations in one stream, or the seen one again.

        Args:
            below: Only this conversation and those below it; None: all of them.
        """
        if self.weaves and self._woven == below:
            self.see(self.seen)
            return
        self.weaves, self._woven = True, below
        self.panes.transcript.show(Weave(self.board, below))
        self.leave_page()
        self.show_around()
        self.say("" if below is None else f"{self.name(below)} and those below it in one stream; w shows one again")

    def show_page(self, content: PageContent) -> None:
        """Show a page in the place of the transcript, and let it have the keys."""
        self.panes.page.show(content)
        self.arrange()
        self.panes.page.focus()

    def leave_page(self) -> None:
        """Show the transcript again, and let the composer have the keys."""
        if self.panes.page.content is not None:
            self.panes.page.show(None)
            self.arrange()
            self.panes.composer.take_focus()

    def toggle_side(self) -> None:
        """Show the side panel, or hide it."""
        self._side = not self.panes.side.display
        self.arrange()

    def show_side(self) -> None:
        """Show the side panel, whatever the person chose before."""
        self._side = True
        self.arrange()

    def leave_side_page(self) -> bool:
        """Show the transcript again where the side panel has replaced it; False where it has not."""
        side = self.panes.side
        if not side.display or not side.has_class("-page"):
            return False
        self._side = None
        self.arrange()
        return True

    def arrange(self, size: Size | None = None) -> None:
        """Arrange everything for this size, or for that of the terminal."""
        self.panes.arrange(size or self.app.size, side=self._side)
        self.app.call_after_refresh(self._mend_focus)

    def _mend_focus(self) -> None:
        """Give the composer the focus where the focused part was hidden, as in a terminal that is too small."""
        composer = self.panes.composer
        if composer.is_attached and self.panes.body.display and composer.screen.focused is None:
            composer.take_focus()

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show a sentence above the composer, until the next one or until something else is done."""
        self.panes.say(text, wrong=wrong)

    def run(self, work: Awaitable[object]) -> None:
        """Run something in the background; where it is refused, say why."""
        self.app.run_worker(self._guarded(work), group="actions", exit_on_error=True)

    async def _guarded(self, work: Awaitable[object]) -> None:
        try:
            await work
        except TertuliaError as error:
            self.say(error.message, wrong=True)
