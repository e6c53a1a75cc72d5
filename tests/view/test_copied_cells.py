"""A copy of a conversation shows what it began with."""

from __future__ import annotations

from tertulia.protocol.ids import ConversationId
from tertulia.view.cells import AssistantCell, UserCell
from tertulia.view.copied_cells import copy_cells
from tests.terminal.played_port import BEGIN, answered, asks, opened, played, wrote
from tests.view.golden import fold

ROOT, COPY = ConversationId("root"), ConversationId("copy")
STEPS = [
    *BEGIN,
    *wrote("root", "One?", "t1"),
    asks("root", "t1"),
    *answered("root", "One.", "t1"),
    *wrote("root", "Two?", "t2"),
    *answered("root", "Two.", "t2"),
]


def test_a_copy_has_the_cells_up_to_its_last_message_and_none_of_the_questions() -> None:
    for opens in (True, False):
        board = fold(played(*STEPS, *([opened("copy", "root")] if opens else [])))
        copy_cells(board, ROOT, COPY, 3)
        cells = board.conversations[COPY].cells
        texts = [cell.text for cell in cells if isinstance(cell, UserCell | AssistantCell)]
        assert texts == ["One?", "One.", "Two?"]
        assert not [cell for cell in cells if "approval" in type(cell).__name__.lower()]
        assert not {id(cell) for cell in cells} & {id(cell) for cell in board.conversations[ROOT].cells}


def test_a_copy_that_has_begun_to_speak_and_a_copy_of_nothing_stay_as_they_are() -> None:
    board = fold(played(*STEPS, opened("copy", "root"), *wrote("copy", "Mine.", "t3")))
    copy_cells(board, ROOT, COPY, 3)
    copy_cells(board, ConversationId("unknown"), ConversationId("other"), 3)
    assert [cell.text for cell in board.conversations[COPY].cells if isinstance(cell, UserCell)] == ["Mine."]
    assert "other" not in board.conversations
