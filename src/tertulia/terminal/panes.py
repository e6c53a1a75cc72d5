"""The parts of the screen, and which of them are shown at its size."""

from __future__ import annotations

from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from tertulia.events.clock import Clock
from tertulia.policy.display_text import printable
from tertulia.protocol.ids import ConversationId
from tertulia.terminal.approvals.panel import ApprovalsPanel
from tertulia.terminal.approvals.plan_question import plan_to_ask
from tertulia.terminal.commands.command_list import COMMANDS
from tertulia.terminal.composer.composer import Composer
from tertulia.terminal.drawing.palette import MARKS as CELL_MARKS
from tertulia.terminal.looks.layout import LEAST_COLUMNS, LEAST_ROWS, SIDE_COLUMNS, TREE_COLUMNS
from tertulia.terminal.looks.marks import ASCII, PanelMarks
from tertulia.terminal.panels.page import Page
from tertulia.terminal.panels.rail import Rail
from tertulia.terminal.panels.side import SidePanel
from tertulia.terminal.panels.status import StatusLine
from tertulia.terminal.panels.tree import ConversationTree
from tertulia.terminal.transcript.transcript import Transcript
from tertulia.view.board import Board
from tertulia.view.text import name_of


class Panes:
    """All parts of the screen, made once."""

    def __init__(self, clock: Clock) -> None:
        """`clock`: for the composer and the questions."""
        self.room = Static("no room: make the terminal larger", id="room", markup=False)
        self.rail = Rail(id="rail")
        self.tree = ConversationTree(id="tree")
        self.transcript = Transcript(id="transcript")
        self.page = Page(id="page")
        """The page that may replace the transcript."""
        self.notice = Static(id="notice", markup=False)
        self.composer = Composer(clock=clock, id="composer")
        self.composer.sources.commands = [(command.name, command.help) for command in COMMANDS]
        self.approvals = ApprovalsPanel(lambda: self.composer.is_idle, clock=clock, id="approvals")
        self.side = SidePanel(id="side")
        self.status = StatusLine(id="status")
        upper = Horizontal(self.transcript, self.page, self.side, id="upper")
        middle = Vertical(upper, self.approvals, self.notice, self.composer, id="middle")
        self.body = Horizontal(self.tree, middle, id="body")

    def show_board(self, board: Board, seen: ConversationId | None, now: float) -> None:
        """Show a board on everything but the transcript."""
        self.tree.show(board, seen, now)
        self.rail.show(board, seen, now)
        self.status.show(board, seen)
        self.side.show(board, seen)
        view = None if seen is None else board.conversations.get(seen)
        if view is not None:
            queued = [message.preview for message in view.queued]
            self.composer.show(running=view.task_id is not None and not view.waits, queued=queued)
        self.composer.sources.conversations = [
            name_of(view, board.root_id) for view in board.conversations.values() if not view.closed
        ]
        self.approvals.show(list(board.questions.values()), board)
        self.approvals.show_plan(plan_to_ask(board, self.composer.modes.mode))

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show a sentence above the composer, or none."""
        self.notice.update(printable(text))
        self.notice.set_class(wrong, "-wrong")
        self.notice.display = bool(text)

    def use_marks(self, marks: PanelMarks) -> None:
        """Draw with these marks from now on."""
        for pane in (self.tree, self.rail, self.status, self.side, self.page):
            pane.use_marks(marks)
        self.transcript.use_marks(CELL_MARKS["ascii" if marks is ASCII else "unicode"])

    def arrange(self, size: Size, *, side: bool | None) -> None:
        """Give everything its place.

        Args:
            size: The size of the terminal.
            side: Whether the person wants the side panel; None: as there is room.
        """
        width, height = size
        fits = width >= LEAST_COLUMNS and height >= LEAST_ROWS
        wide = width >= SIDE_COLUMNS
        has_side = wide if side is None else side
        page = self.page.content is not None
        places: dict[Widget, bool] = {
            self.room: not fits,
            self.body: fits,
            self.status: fits,
            self.tree: width >= TREE_COLUMNS,
            self.rail: fits and width < TREE_COLUMNS,
            self.side: has_side and (wide or not page),
            self.page: page,
            self.transcript: not page and (wide or not has_side),
        }
        for widget, display in places.items():
            if widget.display != display:
                widget.display = display
        self.side.set_class(not wide, "-page")
