"""A screen of your own: the events of a session folded into a board, as the terminal does it."""

from __future__ import annotations

import asyncio

import tertulia
from tertulia.testing import ScriptedModel, call, say
from tertulia.view.board import Board
from tertulia.view.cells import AssistantCell, UserCell
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import STATE_MARKS, STATE_WORDS, name_of


async def main() -> None:
    """Follow a delegation on a board, and draw its conversations as a tree."""
    replies = [
        say("", call("conv_create", {"title": "tester", "user_instruction": "Do the tests pass?"})),
        say("All of them pass."),
        say("The tests pass."),
    ]
    board = Board()
    async with tertulia.Session.start(tertulia.Settings(model=ScriptedModel(replies))) as session:
        reply = await session.root.message("Have it tested.")
        async for event in session.events(after=0):
            changes = board.take(event)
            if changes.tree and isinstance(event.data, tertulia.TaskStarted):
                print(draw(board))
            if event.seq == reply.last_seq:
                break

    (tester,) = [view for view in board.conversations.values() if view.title == "tester"]
    print(f"tester was asked: {tester.cells[0].text if isinstance(tester.cells[0], UserCell) else '?'}")
    assert [cell.text for cell in tester.cells if isinstance(cell, AssistantCell)] == ["All of them pass."]
    assert not board.running()


def draw(board: Board) -> str:
    """One line a conversation: its state as a mark and a word, and its name."""

    def line(view: ConversationView) -> str:
        return f"{'  ' * view.depth}{STATE_MARKS[view.state]} {name_of(view, board.root_id)}, {STATE_WORDS[view.state]}"

    return "\n".join(map(line, board.tree()))


if __name__ == "__main__":
    asyncio.run(main())
