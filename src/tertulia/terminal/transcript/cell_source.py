"""The cells that a transcript shows, of one conversation or of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tertulia.protocol.ids import ConversationId
from tertulia.view.board_state import BoardState
from tertulia.view.cells import Cell
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import name_of, short_name


@dataclass(frozen=True, slots=True)
class Speaker:
    """The conversation that a cell of a weave belongs to."""

    conversation_id: ConversationId
    name: str
    depth: int


class CellSource(Protocol):
    """An ordered list of cells. New ones are added at the end; `update` takes in every other change.

    Contract: no call takes longer when there are more cells, except an `update` after cells were removed.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Cell: ...

    def speaker(self, index: int) -> Speaker | None:
        """The conversation of a cell, where cells of several conversations are mixed; else None."""
        ...

    def conversation_id(self, index: int) -> ConversationId:
        """The conversation that the cell is in."""
        ...

    def name(self, conversation_id: str) -> str:
        """The name of a conversation that a cell mentions."""
        ...

    def update(self) -> None:
        """Take in what was added since the last call."""
        ...


class ConversationCells:
    """The cells of one conversation."""

    __slots__ = ("_board", "_view")

    def __init__(self, view: ConversationView, board: BoardState | None = None) -> None:
        """`board`: has the names of the other conversations."""
        self._view = view
        self._board = board

    def __len__(self) -> int:
        return len(self._view.cells)

    def __getitem__(self, index: int) -> Cell:
        return self._view.cells[index]

    def speaker(self, index: int) -> Speaker | None:
        """None: all cells are of one conversation, which needs no name."""
        return None

    def conversation_id(self, index: int) -> ConversationId:
        """The one conversation whose cells these are."""
        return self._view.id

    def name(self, conversation_id: str) -> str:
        """The title of a conversation of the same board."""
        return board_name(self._board, conversation_id)

    def update(self) -> None:
        """Do nothing: the list of the conversation is read in place."""


def board_name(board: BoardState | None, conversation_id: str) -> str:
    """What a conversation is called on this board."""
    view = None if board is None else board.conversations.get(ConversationId(conversation_id))
    return short_name(conversation_id) if view is None or board is None else name_of(view, board.root_id)
