"""The conversations of a session as a tree: who stands below whom, what they are called, how they are."""

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
    """One conversation."""

    id: ConversationId
    parent_id: ConversationId | None
    name: str
    status: str
    messages: int
    note: str = ""


def conversation_rows(infos: Iterable[ConversationInfo]) -> list[ConversationRow]:
    """Of a session that runs."""
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


def write_tree(out: TerminalOutput, found: Sequence[ConversationRow]) -> None:
    """A line for each, those below another one indented."""
    rows: list[list[StyledText]] = []
    for branch, leaf in _walk(found):
        status = (leaf.status, STATUS_STYLES.get(leaf.status, "plain"))
        rows.append(
            [f"  {branch}{leaf.name}", leaf.id, status, format_count(leaf.messages, "message"), (leaf.note, "dim")]
        )
    write_columns(out, ("  CONVERSATION", "ID", "STATUS", "SAID", ""), rows)


def _walk(found: Sequence[ConversationRow]) -> Iterator[tuple[str, ConversationRow]]:
    """Parents before their children, each with its branch; one whose parent is not there stands at the top."""
    known = {leaf.id for leaf in found}
    below: dict[ConversationId | None, list[ConversationRow]] = {}
    for leaf in found:
        below.setdefault(leaf.parent_id if leaf.parent_id in known else None, []).append(leaf)
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
