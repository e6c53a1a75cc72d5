"""The weave: the cells of all conversations of a board, or of a subtree, in the order in which things happened."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.transcript.cell_source import Speaker, board_name
from tertulia.view.board_state import BoardState
from tertulia.view.cells import Cell
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import name_of


class _Strand:
    """One conversation of a weave, and how many of its cells are in it."""

    __slots__ = ("dropped", "last_key", "speaker", "taken", "view")

    def __init__(self, view: ConversationView, speaker: Speaker) -> None:
        self.view = view
        self.speaker = speaker
        self.taken = self.dropped = view.dropped
        """Both include the cells that the conversation no longer holds, so that a cell keeps its number."""
        self.last_key: str | None = None

    def is_intact(self) -> bool:
        """Whether the cells that were taken are still in their places."""
        if self.view.dropped != self.dropped:
            return False
        at = self.taken - self.dropped - 1
        return at < 0 or (at < len(self.view.cells) and self.view.cells[at].key == self.last_key)

    def take_new(self) -> Iterable[tuple[tuple[str, int], _Strand, int]]:
        """The cells since the last call with their sort keys, which never decrease."""
        cells = self.view.cells
        latest = ("", 0)
        for number in range(self.taken, self.dropped + len(cells)):
            cell = cells[number - self.dropped]
            # A cell that changed its kind has a later time, but keeps its place.
            latest = max(latest, (cell.ts, cell.seq or 0))
            yield latest, self, number
        self.taken = self.dropped + len(cells)
        self.last_key = cells[-1].key if cells else None


class Weave:
    """The cells of several conversations as one list. New cells are added at its end without sorting the others."""

    __slots__ = ("_board", "_entries", "_root", "_strands")

    def __init__(self, board: BoardState, root: ConversationId | None = None) -> None:
        """`root`: weave this conversation and those below it; without it all of them."""
        self._board = board
        self._root = root
        self._strands: dict[ConversationId, _Strand] = {}
        self._entries: list[tuple[_Strand, int]] = []
        self.update()

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Cell:
        strand, number = self._entries[index]
        return strand.view.cells[number - strand.dropped]

    def speaker(self, index: int) -> Speaker | None:
        """The conversation that the cell belongs to."""
        return self._entries[index][0].speaker

    def conversation_id(self, index: int) -> ConversationId:
        """The id of the conversation that the cell belongs to."""
        return self._entries[index][0].view.id

    def name(self, conversation_id: str) -> str:
        """The title of a conversation of the board."""
        return board_name(self._board, conversation_id)

    def update(self) -> None:
        """Add new cells; rebuild the list only where cells were removed."""
        for view in self._board.conversations.values():
            if view.id not in self._strands and self._is_below(view):
                self._strands[view.id] = _Strand(view, self._speaker(view))
        if not all(strand.is_intact() for strand in self._strands.values()):
            self._entries.clear()
            self._strands = {id: _Strand(strand.view, strand.speaker) for id, strand in self._strands.items()}
        new = [entry for strand in self._strands.values() for entry in strand.take_new()]
        if len(new) > 1:
            new.sort(key=itemgetter(0))
        self._entries += [(strand, number) for _, strand, number in new]

    def _speaker(self, view: ConversationView) -> Speaker:
        top = None if self._root is None else self._board.conversations.get(self._root)
        depth = view.depth - (0 if top is None else top.depth)
        return Speaker(view.id, name_of(view, self._board.root_id), max(0, depth))

    def _is_below(self, view: ConversationView) -> bool:
        if self._root is None:
            return True
        at: ConversationView | None = view
        while at is not None and at.id != self._root:
            at = None if at.parent_id is None else self._board.conversations.get(at.parent_id)
        return at is not None
