"""The side panel: the rights of the seen conversation and who set them, its plan, its context, the MCP servers."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import BindingType
from textual.strip import Strip

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.looks.keys import MovementKeys, movement_bindings
from tertulia.terminal.panels.lines import Part, clean, line, wrap
from tertulia.terminal.panels.panel import BoardPanel
from tertulia.terminal.panels.rights_lines import action_lines, rights_lines
from tertulia.view.board_state import BoardState
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import name_of

_BAR = 16
_ATTENTION = 80
"""Percent of a context window from which on it is highlighted."""
_SERVER_STYLES = {"ready": "green", "failed": "red", "starting": "yellow"}


class SidePanel(BoardPanel, can_focus=True):
    """Sections, one below the other; the panel scrolls where they are longer."""

    BINDINGS: ClassVar[list[BindingType]] = movement_bindings(
        "side",
        MovementKeys(page_down="space,pagedown", last=""),
        move="scroll_lines",
        page=("scroll_lines", 10),
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rights: dict[str, Any] | None = None
        self._question = ""
        self._servers: list[dict[str, Any]] = []
        self._top = 0
        self._lines: list[list[Part]] = []

    def show(self, board: BoardState, seen: ConversationId | None) -> None:
        """Show what a board says of a conversation.

        Args:
            board: What the session looks like now.
            seen: The conversation whose transcript is shown.
        """
        if seen != self._seen:
            self._rights, self._question, self._top = None, "", 0
        self._board, self._seen = board, seen
        self.redraw()

    def show_rights(self, answer: dict[str, Any], question: str = "") -> None:
        """Show rights.

        Args:
            answer: What `rights/explain` answered for the seen conversation.
            question: The command or the tool that was asked about; empty: none was.
        """
        if question or not self._question:
            self._rights, self._question = answer, question
            self._top = 0 if question else self._top
            self.redraw()

    def show_servers(self, servers: list[dict[str, Any]]) -> None:
        """Show MCP servers, as `mcp/status` told of them."""
        self._servers = servers
        self.redraw()

    def on_resize(self) -> None:
        """Wrap the texts for the new width."""
        self.redraw()

    def action_scroll_lines(self, by: int) -> None:
        """Scroll by so many lines, never beyond an end."""
        self._top = max(0, min(self._top + by, len(self._lines) - self.size.height))
        self.refresh()

    def turn_wheel(self, direction: int) -> None:
        """The wheel scrolls three lines down or up."""
        self.action_scroll_lines(3 * direction)

    def render_line(self, y: int) -> Strip:
        """One line of the panel, by its number from the top."""
        index = y + self._top
        right: list[Part] = [("Esc leaves ", "dim")] if y == 0 and self.has_class("-page") else []
        return line(self._lines[index] if index < len(self._lines) else [], self.size.width, right=right)

    def redraw(self) -> None:
        """Wrap the texts for the present width, and draw them."""
        self._lines = self._all_lines(max(8, self.size.width - 2))
        self.refresh()

    def _all_lines(self, width: int) -> list[list[Part]]:
        board = self._board
        view = None if board is None or self._seen is None else board.conversations.get(self._seen)
        if board is None or view is None:
            return []
        lines: list[list[Part]] = []
        if self._rights is not None:
            name = clean(name_of(view, board.root_id))
            if self._question:
                lines += action_lines(self._rights.get("action"), self._question, width)
            lines += [[(f" {name} may", "bold")], *rights_lines(self._rights, board, width), []]
        lines += self._plan(view, width)
        lines += self._context_fill(view)
        lines += self._mcp(board, width)
        return lines

    def _plan(self, view: ConversationView, width: int) -> list[list[Part]]:
        if view.plan is None:
            return []
        lines: list[list[Part]] = [[(" Plan", "bold")]]
        signs = {"completed": (self._marks.done, "dim"), "in_progress": (self._marks.now, "bold")}
        for step in view.plan.steps:
            mark, style = signs.get(step.status, (self._marks.dot, ""))
            for number, text in enumerate(wrap(clean(step.step), width - 4)):
                lines.append([(f"  {mark if number == 0 else ' '} ", style), (text, style)])
        return [*lines, []]

    def _context_fill(self, view: ConversationView) -> list[list[Part]]:
        if not view.context_window:
            return []
        fill = min(100, 100 * view.context_tokens // view.context_window)
        filled = round(_BAR * fill / 100)
        bar = self._marks.full * filled + self._marks.empty * (_BAR - filled)
        style = "yellow" if fill >= _ATTENTION else ""
        return [
            [(" Context", "bold")],
            [(f"  {bar} {fill} %", style)],
            [(f"  {view.context_tokens:,} of {view.context_window:,} tokens", "dim")],
            [],
        ]

    def _mcp(self, board: BoardState, width: int) -> list[list[Part]]:
        tools = {str(server.get("name")): server.get("tools") for server in self._servers}
        names = [*board.servers, *(name for name in tools if name not in board.servers)]
        if not names:
            return []
        lines: list[list[Part]] = [[(" MCP servers", "bold")]]
        for name in names:
            server = board.servers.get(name)
            status = server.status if server is not None else "stopped"
            count = tools.get(name)
            offered = f"  {count} tools" if isinstance(count, int) else ""
            lines.append([(f"  {clean(name)} ", ""), (status, _SERVER_STYLES.get(status, "dim")), (offered, "dim")])
            if server is not None and server.error:
                lines += [[(f"    {text}", "red")] for text in wrap(clean(server.error), width - 4)]
        return lines
