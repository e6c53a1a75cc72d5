"""Which conversations the tree shows: all but those hidden by a fold, the filter or the choice of active ones."""

from __future__ import annotations

from tertulia.protocol.ids import ConversationId
from tertulia.view.board_state import BoardState
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import name_of

_ACTIVE = frozenset({"running", "waiting", "asking"})


class TreeRows:
    """The rows of a tree, and which of them is chosen."""

    def __init__(self) -> None:
        self.rows: list[ConversationView] = []
        self.total = 0
        """The number of all conversations, hidden ones included."""
        self.folded: set[ConversationId] = set()
        self.filter = ""
        self.only_active = False
        self.index = 0
        """The number of the chosen row."""
        self._chosen: ConversationId | None = None

    @property
    def chosen(self) -> ConversationView | None:
        """The row that keys act on; None where there is no row."""
        return self.rows[self.index] if self.rows else None

    def update(self, board: BoardState) -> None:
        """Take the conversations of a board; the same conversation stays chosen, wherever its row is now."""
        ordered = board.tree()
        self.total = len(ordered)
        self.rows = [view for view in self._unfolded(ordered) if self._matches(view, board)]
        places = {view.id: index for index, view in enumerate(self.rows)}
        self.index = places.get(self._chosen, min(self.index, max(0, len(self.rows) - 1))) if self._chosen else 0
        self._remember()

    def _unfolded(self, ordered: list[ConversationView]) -> list[ConversationView]:
        if not self.folded or self.filter or self.only_active:
            # A filter finds conversations in folded branches too.
            return ordered
        hidden: set[ConversationId] = set()
        shown: list[ConversationView] = []
        for view in ordered:
            if view.parent_id in hidden or view.parent_id in self.folded:
                hidden.add(view.id)
            else:
                shown.append(view)
        return shown

    def _matches(self, view: ConversationView, board: BoardState) -> bool:
        if self.only_active and view.state not in _ACTIVE and not view.unread:
            return False
        return self.filter.casefold() in name_of(view, board.root_id).casefold()

    def move(self, by: int) -> None:
        """Choose the row so many below, or above where it is negative; never beyond an end."""
        self.index = max(0, min(len(self.rows) - 1, self.index + by))
        self._remember()

    def choose(self, conversation_id: ConversationId) -> None:
        """Choose the row of this conversation, where it has one."""
        for index, view in enumerate(self.rows):
            if view.id == conversation_id:
                self.index = index
        self._remember()

    def fold(self) -> None:
        """Hide the children of the chosen row; where it has none, or they are hidden, choose its parent."""
        chosen = self.chosen
        if chosen is None:
            return
        has_children = any(view.parent_id == chosen.id for view in self.rows)
        if has_children and chosen.id not in self.folded:
            self.folded.add(chosen.id)
        elif chosen.parent_id is not None:
            self.choose(chosen.parent_id)

    def unfold(self) -> None:
        """Show the children of the chosen row; where they are shown, choose the first."""
        chosen = self.chosen
        if chosen is None:
            return
        if chosen.id in self.folded:
            self.folded.discard(chosen.id)
        elif self.index + 1 < len(self.rows) and self.rows[self.index + 1].parent_id == chosen.id:
            self.move(1)

    def _remember(self) -> None:
        chosen = self.chosen
        self._chosen = None if chosen is None else chosen.id
