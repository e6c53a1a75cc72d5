"""The weave: all conversations in the order in which things happened, kept up without sorting again."""

from __future__ import annotations

import pytest

from tertulia.protocol.ids import ConversationId
from tertulia.terminal.transcript.weave import Weave
from tertulia.view.board import Board
from tertulia.view.conversation_view import ConversationView
from tests.terminal.transcript.boards import Script, shop
from tests.view.golden import CASES, events_of, read_case


def keys(weave: Weave) -> list[tuple[str, str]]:
    return [(weave.conversation_id(index), weave[index].key) for index in range(len(weave))]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_weave_that_grew_holds_the_cells_of_a_new_one(path) -> None:
    board = Board()
    weave = Weave(board)
    for event in events_of(read_case(path)):
        board.take(event)
        weave.update()
        shown = [cell for view in board.conversations.values() for cell in view.cells]
        assert sorted(id(weave[index]) for index in range(len(weave))) == sorted(map(id, shown))
        for view in board.conversations.values():
            own = [weave[index] for index in range(len(weave)) if weave.conversation_id(index) == view.id]
            assert own == view.cells, "in the order of its conversation"
            below = Weave(board, view.id)
            assert keys(below) == [entry for entry in keys(Weave(board)) if entry in keys(below)]


def test_a_chain_reads_as_a_story() -> None:
    weave = Weave(shop().board())
    names = [speaker.name for index in range(len(weave)) if (speaker := weave.speaker(index)) is not None]
    changes = [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]
    assert changes == ["root", "tester", "root"]
    depths = {speaker.name: speaker.depth for index in range(len(weave)) if (speaker := weave.speaker(index))}
    assert depths == {"root": 0, "tester": 1}


def test_a_new_weave_keeps_the_order_of_each_conversation() -> None:
    board = shop().board()
    weave = Weave(board)
    for view in board.conversations.values():
        assert [key for id, key in keys(weave) if id == view.id] == [cell.key for cell in view.cells]


def test_a_subtree_has_no_other_conversation_and_begins_at_the_left() -> None:
    weave = Weave(shop().board(), ConversationId("tester"))
    assert {weave.conversation_id(index) for index in range(len(weave))} == {"tester"}
    first = weave.speaker(0)
    assert first is not None
    assert first.depth == 0


def test_what_is_new_is_woven_in_without_looking_at_the_rest() -> None:
    script = Script()
    for number in range(300):
        script.say(f"answer {number}")
    board = script.board()
    weave = Weave(board)

    class Watched(list):
        looks = 0

        def __getitem__(self, index):
            Watched.looks += 1
            return super().__getitem__(index)

    view: ConversationView = board.conversations[ConversationId("root")]
    view.cells = Watched(view.cells)
    for event in script.say("one more").played()[-1:]:
        board.take(event)
    weave.update()
    assert len(weave) == 301
    assert Watched.looks < 10


def test_cells_that_were_dropped_at_the_front_leave_the_weave() -> None:
    script = Script()
    for number in range(30):
        script.say(f"answer {number}")
    board = script.board()
    weave = Weave(board)
    view = board.conversations[ConversationId("root")]
    del view.cells[:10]
    view.dropped += 10
    weave.update()
    assert keys(weave) == [("root", cell.key) for cell in view.cells]
