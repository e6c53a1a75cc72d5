"""Prints the conversations of a session as a tree, each with its id, status and number of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tertulia.cli.output.columns import STATUS_STYLES, format_count, write_columns
from tertulia.cli.output.terminal import StyledText, TerminalOutput
from tertulia.protocol.ids import ConversationId
from tertulia.session.answers import ConversationInfo

_SHORT = 8
_DEEPEST = 12
"""Levels that are drawn; what is deeper stands under the last of them."""


class ConversationRow(msgspec.Struct, frozen=True):
    """One conversation as a line of the tree."""

    id: ConversationId
    parent_id: ConversationId | None
    name: str
    status: str
    messages: int
    note: str = ""


def conversation_rows(infos: Iterable[ConversationInfo]) -> list[ConversationRow]:
    """The rows for the conversations of a running session."""
    return [
        ConversationRow(
            info.id,
            info.parent_id,
            conversation_name(info.id, info.title, info.parent_id),
            info.status,
            info.message_count,
        )
        for info in infos
    ]


def conversation_name(id: ConversationId, title: str | None, parent_id: ConversationId | None) -> str:
    """What people call a conversation: its title, or `root`, or the beginning of its id."""
    return title or ("root" if parent_id is None else id[:_SHORT])


def write_tree(out: TerminalOutput, conversations: Sequence[ConversationRow]) -> None:
    """A line for each, those below another one indented."""
    rows: list[list[StyledText]] = []
    for branch, leaf in _walk(conversations):
        status = (leaf.status, STATUS_STYLES.get(leaf.status, "plain"))
        rows.append(
            [f"  {branch}{leaf.name}", leaf.id, status, format_count(leaf.messages, "message"), (leaf.note, "dim")]
        )
    write_columns(out, ("  CONVERSATION", "ID", "STATUS", "HISTORY", ""), rows)


def _walk(conversations: Sequence[ConversationRow]) -> Iterator[tuple[str, ConversationRow]]:
    """Parents before their children, each with its branch; one whose parent is not there stands at the top."""
    ids = {leaf.id for leaf in conversations}
    below: dict[ConversationId | None, list[ConversationRow]] = {}
    for leaf in conversations:
        below.setdefault(leaf.parent_id if leaf.parent_id in ids else None, []).append(leaf)
    seen: set[ConversationId] = set()
    waiting = [(0, True, leaf) for leaf in reversed(below.get(None, ()))]
    while waiting:
        depth, last, leaf = waiting.pop()
        if leaf.id in seen:
            continue
        seen.add(leaf.id)
        indented = "  " * (min(depth, _DEEPEST) - 1)
        yield f"{indented}{'└' if last else '├'} " if depth else "", leaf
        children = below.get(leaf.id, [])
        waiting += [(depth + 1, child is children[-1], child) for child in reversed(children)]
