"""Tracks a Codex thread's turn in progress and its tool calls, and makes their notifications.

Each call begins once, ends once, and may need an approval in between. Pure: sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId, SessionId, TaskId
from tertulia.server.codex import items as i
from tertulia.server.codex.items import CodexItem

CodexNotification = tuple[str, dict[str, Any]]
"""A notification: its method and its parameters."""


class ActiveTurn:
    """Where a thread stands: in a turn or in none, waiting for a person or not."""

    __slots__ = ("thread_id", "turn_id", "waiting")

    def __init__(self, thread_id: SessionId) -> None:
        self.thread_id = thread_id
        self.turn_id: TaskId | None = None
        self.waiting = False
        """A person was asked, and has not answered."""

    def here(self, method: str, **fields: Any) -> CodexNotification:
        """Something that belongs to the turn."""
        return method, {"threadId": self.thread_id, "turnId": self.turn_id or "", **fields}

    def started(self, event: Event, item: CodexItem) -> CodexNotification:
        """The notification that an item begins."""
        return self.here("item/started", item=item, startedAtMs=event_time_ms(event))

    def completed(self, event: Event, item: CodexItem) -> CodexNotification:
        """The notification that an item has ended."""
        return self.here("item/completed", item=item, completedAtMs=event_time_ms(event))

    def status(self) -> CodexNotification:
        """The notification of what the thread does."""
        return "thread/status/changed", {"threadId": self.thread_id, "status": self.state()}

    def state(self) -> dict[str, Any]:
        """The same, as a thread has it."""
        if self.turn_id is None:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if self.waiting else []}

    def warning(self, message: str) -> CodexNotification:
        """Something that a person should know."""
        return "warning", {"threadId": self.thread_id, "message": message}


def turn_object(
    id: str, status: str = "inProgress", *, began_ms: int | None = None, ended_ms: int | None = None
) -> dict[str, Any]:
    """A turn, without its items."""
    return {
        "id": id,
        "items": [],
        "itemsView": "notLoaded",
        "status": status,
        "error": None,
        "startedAt": None if began_ms is None else began_ms // 1000,
        "completedAt": None if ended_ms is None else ended_ms // 1000,
        "durationMs": None if began_ms is None or ended_ms is None else ended_ms - began_ms,
    }


def turn_error(message: str) -> dict[str, Any]:
    """The error of a turn."""
    return {"message": message, "codexErrorInfo": "other", "additionalDetails": None}


def event_time_ms(event: Event) -> int:
    """When it happened, since 1970."""
    return round(datetime.fromisoformat(event.ts).timestamp() * 1000)


_HIDDEN = frozenset({"update_plan"})
"""Shown as what they do."""


class _OpenCall:
    """A call that has not ended."""

    __slots__ = ("declined", "item")

    def __init__(self, item: CodexItem) -> None:
        self.item = item
        self.declined = False

    def change(self, item: CodexItem) -> None:
        """More is known of a command. A patch that came as one stays what it is."""
        if self.item["type"] == "commandExecution":
            self.item = item


class CodexToolCalls:
    """Of all conversations of a session. Those of others than the root have the conversation in their id."""

    def __init__(self, active_turn: ActiveTurn, root: ConversationId, cwd: Callable[[ConversationId], str]) -> None:
        """`cwd`: where a conversation works."""
        self._active_turn = active_turn
        self._root = root
        self._cwd = cwd
        self._open: dict[tuple[ConversationId, CallId], _OpenCall] = {}
        self._asked: dict[str, _OpenCall | None] = {}
        """Approvals that wait, and what each is about."""

    def forget(self) -> None:
        """A turn is over: nothing of it is open any more."""
        self._open.clear()
        self._asked.clear()
        self._active_turn.waiting = False

    def item_of(self, approval_id: str) -> CodexItem | None:
        """What an approval that waits is about, as far as that is known."""
        call = self._asked.get(approval_id)
        return None if call is None else call.item

    def begin(self, event: Event, data: t.ToolCallBegin) -> Iterator[CodexNotification]:
        """A call is about to be handled."""
        if data.name in _HIDDEN:
            return
        conversation = event.conversation_id or self._root
        id = data.call_id if conversation == self._root else f"{conversation}/{data.call_id}"
        call = self._open[conversation, data.call_id] = _OpenCall(
            i.call_item(id, data.name, data.arguments, self._cwd(conversation))
        )
        yield self._active_turn.started(event, call.item)

    def end(self, event: Event, data: t.ToolCallEnd) -> Iterator[CodexNotification]:
        """The one end of a call."""
        call = self._open.pop((event.conversation_id or self._root, data.call_id), None)
        if call is not None:
            yield self._active_turn.completed(event, i.with_outcome(call.item, data, declined=call.declined))

    def running(self, event: Event, data: t.ExecCommandBegin) -> Iterator[CodexNotification]:
        """A command starts: now it is known how."""
        if (call := self._find(event, data.call_id)) is not None:
            call.change(i.with_command(call.item, data.command, data.cwd))
        yield from ()

    def output(self, event: Event, data: t.ExecCommandOutputDelta) -> Iterator[CodexNotification]:
        """A piece of a command's output."""
        if (call := self._find(event, data.call_id)) is not None:
            yield self._active_turn.here("item/commandExecution/outputDelta", itemId=call.item["id"], delta=data.text)

    def ran(self, event: Event, data: t.ExecCommandEnd) -> Iterator[CodexNotification]:
        """A command has ended; its call says so later."""
        if (call := self._find(event, data.call_id)) is not None:
            outcome = {"aggregatedOutput": data.output, "exitCode": data.exit_code, "durationMs": data.duration_ms}
            call.change({**call.item, **outcome})
        yield from ()

    def progress(self, event: Event, data: t.McpToolCallProgress) -> Iterator[CodexNotification]:
        """An MCP server says how far it is."""
        call = self._find(event, data.call_id)
        if call is not None and data.message is not None:
            yield self._active_turn.here("item/mcpToolCall/progress", itemId=call.item["id"], message=data.message)

    def searched(self, event: Event, data: t.WebSearchEnd) -> Iterator[CodexNotification]:
        """The provider has searched the web."""
        item = i.web_search(data.call_id, data.query)
        yield self._active_turn.started(event, item)
        yield self._active_turn.completed(event, item)

    def asked(self, event: Event, data: t.ApprovalRequest) -> Iterator[CodexNotification]:
        """A person is asked, about a call; an agent's question, about its last one."""
        conversation = event.conversation_id or data.conversation_id
        own = [call for (of, _), call in self._open.items() if of == conversation]
        last = own[-1] if own and data.call_id is None else None
        self._asked[data.approval_id] = last if data.call_id is None else self._open.get((conversation, data.call_id))
        yield from self._waiting()

    def settled(self, event: Event, data: t.ApprovalResolved) -> Iterator[CodexNotification]:
        """An approval is resolved, by this client or another."""
        call = self._asked.pop(data.approval_id, None)
        if call is not None and data.decision == "deny":
            call.declined = True
        yield from self._waiting()

    def _waiting(self) -> Iterator[CodexNotification]:
        if self._active_turn.waiting != bool(self._asked):
            self._active_turn.waiting = bool(self._asked)
            yield self._active_turn.status()

    def _find(self, event: Event, call_id: CallId) -> _OpenCall | None:
        return self._open.get((event.conversation_id or self._root, call_id))
