"""Conversations as a tree."""

from __future__ import annotations

import io

from tertulia.cli.output.tables import ConversationRow, conversation_name, conversation_rows, write_tree
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.protocol.ids import ConversationId
from tests.session.staging import stage


def leaf(id: str, parent: str | None = None, name: str | None = None) -> ConversationRow:
    parent_id = None if parent is None else ConversationId(parent)
    return ConversationRow(ConversationId(id), parent_id, name or id, "idle", 1)


def names(*found: ConversationRow) -> list[str]:
    stream = io.StringIO()
    write_tree(TerminalOutput(stream, {}), found)
    return [
        line[2:].partition("  idle")[0].rstrip().rsplit("  ", 1)[0].rstrip()
        for line in stream.getvalue().splitlines()[1:]
    ]


def test_children_stand_below_their_parents_in_order() -> None:
    found = [leaf("root"), leaf("a", "root"), leaf("b", "root"), leaf("a1", "a", "a1-with-long-name")]
    assert names(*found) == ["root", "├ a", "  └ a1-with-long-name", "└ b"]


def test_one_whose_parent_is_gone_stands_at_the_top_and_a_circle_ends() -> None:
    """HARDENING E8: whatever a record says, it is drawn once."""
    assert [name.split()[0] for name in names(leaf("a", "gone"), leaf("b", "c"), leaf("c", "b"))] == ["a"]
    assert len(names(leaf("a"), leaf("a"))) == 1


def test_what_people_call_a_conversation() -> None:
    id, root = ConversationId("0123456789"), ConversationId("root-id")
    assert [
        conversation_name(id, "title", root),
        conversation_name(id, None, root),
        conversation_name(id, None, None),
    ] == [
        "title",
        "01234567",
        "root",
    ]


async def test_the_conversations_of_a_session_that_runs() -> None:
    async with stage("hello") as on:
        child = await on.session.open(title="helper")
        await child.message("hi")
        assert conversation_rows([conversation.info for conversation in on.session.conversations()]) == [
            ConversationRow(on.root.id, None, "root", "idle", 0),
            ConversationRow(child.id, on.root.id, "helper", "idle", 2),
        ]
