"""The state of a board: the conversations of a session, what persons are asked, servers and totals."""

from __future__ import annotations

from typing import Literal

import msgspec

from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.view.cells import Cell, NoticeCell, Question
from tertulia.view.conversation_view import ConversationView


class Changes(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one event changed: what a screen draws again."""

    conversation_id: ConversationId | None = None
    cell: str | None = None
    """The key of the cell that is new or has changed."""
    new: bool = False
    removed: bool = False
    """Cells of this conversation are gone: read its list again."""
    tree: bool = False
    """A conversation came, went or has another state."""
    questions: bool = False
    servers: bool = False
    totals: bool = False


NOTHING = Changes()


class ServerView(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An MCP server, as its last event told."""

    name: str
    status: str
    error: str | None = None


class BoardState(msgspec.Struct, omit_defaults=True, kw_only=True):
    """All that a screen shows of a session."""

    session_id: SessionId | None = None
    epoch: int = 0
    seq: int = 0
    """The last durable event that was taken."""
    model: str = ""
    root_id: ConversationId | None = None
    conversations: dict[ConversationId, ConversationView] = msgspec.field(default_factory=dict)
    questions: dict[str, Question] = msgspec.field(default_factory=dict)
    """What persons are asked and have not answered, oldest first, by its id."""
    servers: dict[str, ServerView] = msgspec.field(default_factory=dict)
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Of the requests whose price is known; None where none is."""
    task_owners: dict[TaskId, ConversationId] = msgspec.field(default_factory=dict)
    """The conversation of each task that runs or waits."""

    def view(self, event: Event) -> ConversationView:
        """The conversation of an event; one whose beginning this reader has not seen begins here.

        Events without a conversation are about the session: its root shows them.
        """
        id = event.conversation_id or self.root_id or ConversationId("")
        view = self.conversations.get(id)
        if view is None:
            view = self.conversations[id] = ConversationView(id=id)
        return view

    def tree(self) -> list[ConversationView]:
        """All conversations, each below its parent, in the order in which they were opened."""
        children: dict[ConversationId | None, list[ConversationView]] = {}
        for view in self.conversations.values():
            parent = view.parent_id if view.parent_id in self.conversations else None
            children.setdefault(parent, []).append(view)
        ordered: list[ConversationView] = []
        waiting = children.get(None, [])[::-1]
        while waiting:
            view = waiting.pop()
            ordered.append(view)
            waiting += children.get(view.id, [])[::-1]
        return ordered

    def chain(self, conversation_id: ConversationId) -> list[ConversationId]:
        """From the first conversation that waits for this one, down to it."""
        path: list[ConversationId] = []
        at: ConversationId | None = conversation_id
        while at is not None and at not in path:
            path.append(at)
            view = self.conversations.get(at)
            at = None if view is None else view.caller_id
        return path[::-1]

    def running(self) -> list[ConversationId]:
        """The conversations that have a task at work; those that wait for others aside."""
        owners = self.task_owners.values()
        return [id for id in owners if (view := self.conversations.get(id)) is not None and not view.waits]

    def stop(self) -> None:
        """The process of the session has ended, perhaps without a word, and no event will tell it."""
        self.questions.clear()
        self.task_owners.clear()
        for view in self.conversations.values():
            view.stop()

    def read(self, conversation_id: ConversationId) -> None:
        """A person has seen all of this conversation."""
        if (view := self.conversations.get(conversation_id)) is not None:
            view.unread = 0


def add_cell(
    view: ConversationView, cell: Cell, *, worth_reading: bool = True, tree: bool = False, questions: bool = False
) -> Changes:
    """Put a cell at the end of a conversation."""
    view.add(cell)
    view.last_key = cell.key
    if worth_reading:
        view.unread += 1
    return Changes(view.id, cell.key, new=True, tree=tree or worth_reading, questions=questions)


def change_cell(view: ConversationView, cell: Cell, *, tree: bool = False) -> Changes:
    """Say that a cell has changed."""
    cell.revision += 1
    return Changes(view.id, cell.key, tree=tree)


def add_notice(
    view: ConversationView,
    event: Event,
    text: str,
    level: Literal["note", "warning", "error"] = "note",
    code: str | None = None,
    *,
    worth_reading: bool = True,
) -> Changes:
    """Put a sentence about an event at the end of a conversation."""
    notice = NoticeCell(key=f"n{event.seq}", ts=event.ts, seq=event.seq, level=level, text=text, code=code)
    return add_cell(view, notice, worth_reading=worth_reading)
