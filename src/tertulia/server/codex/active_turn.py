"""Tracks a Codex thread's turn in progress and its tool calls, and makes their notifications.

Each call begins once, ends once, and may need an approval in between. Pure: sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId, SessionId, TaskId
from tertulia.server.codex import items as i
from tertulia.server.codex.items import CodexItem
from tertulia.server.surface_events import HIDDEN_CALLS, SurfaceCalls

CodexNotification = tuple[str, dict[str, Any]]
"""A notification: its method and its parameters."""


class ActiveTurn:
    """The state of a thread: whether a turn runs, and whether it waits for a person."""

    __slots__ = ("thread_id", "turn_id", "waiting")

    def __init__(self, thread_id: SessionId) -> None:
        self.thread_id = thread_id
        self.turn_id: TaskId | None = None
        self.waiting = False
        """Whether a person was asked and has not answered."""

    def here(self, method: str, **fields: Any) -> CodexNotification:
        """A notification that belongs to the turn."""
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
        """What the thread does, as one of its fields."""
        if self.turn_id is None:
            return {"type": "idle"}
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if self.waiting else []}


def event_time_ms(event: Event) -> int:
    """When it happened, since 1970."""
    return round(datetime.fromisoformat(event.ts).timestamp() * 1000)


class CodexCall:
    """A call that has not ended."""

    __slots__ = ("declined", "item")

    def __init__(self, item: CodexItem) -> None:
        self.item = item
        self.declined = False

    def change(self, item: CodexItem) -> None:
        """More is known of a command. A patch that came as one stays what it is."""
        if self.item["type"] == "commandExecution":
            self.item = item


class CodexToolCalls(SurfaceCalls[CodexCall, CodexNotification]):
    """The open calls of a thread. Those of other conversations than the root have the conversation in their id."""

    def __init__(self, active_turn: ActiveTurn, root: ConversationId, cwd: Callable[[ConversationId], str]) -> None:
        super().__init__(root, cwd)
        self._active_turn = active_turn
        self._open_approvals: dict[str, CodexCall | None] = {}
        """Approvals that wait, and what each is about."""

    def forget(self) -> None:
        """A turn has ended: forget its calls and approvals."""
        self._open.clear()
        self._open_approvals.clear()
        self._active_turn.waiting = False

    def item_of(self, approval_id: str) -> CodexItem | None:
        """What an approval that waits is about, as far as that is known."""
        call = self._open_approvals.get(approval_id)
        return None if call is None else call.item

    def begin(self, event: Event, data: t.ToolCallBegin) -> Iterator[CodexNotification]:
        """A call is about to be handled."""
        if data.name in HIDDEN_CALLS:
            return
        conversation = self._conversation(event)
        id = data.call_id if conversation == self._root else f"{conversation}/{data.call_id}"
        call = self._open[conversation, data.call_id] = CodexCall(
            i.call_item(id, data.name, data.arguments, self._cwd(conversation))
        )
        yield self._active_turn.started(event, call.item)

    def end(self, event: Event, data: t.ToolCallEnd) -> Iterator[CodexNotification]:
        """The one end of a call."""
        call = self._open.pop((self._conversation(event), data.call_id), None)
        if call is not None:
            yield self._active_turn.completed(event, i.with_outcome(call.item, data, declined=call.declined))

    def running(self, call: CodexCall, data: t.ExecCommandBegin) -> Iterator[CodexNotification]:
        """A command starts: its item gets the command line."""
        call.change(i.with_command(call.item, data.command, data.cwd))
        yield from ()

    def output(self, call: CodexCall, data: t.ExecCommandOutputDelta) -> Iterator[CodexNotification]:
        """A piece of a command's output."""
        yield self._active_turn.here("item/commandExecution/outputDelta", itemId=call.item["id"], delta=data.text)

    def ran(self, call: CodexCall, data: t.ExecCommandEnd) -> Iterator[CodexNotification]:
        """A command has ended; its call says so later."""
        outcome = {"aggregatedOutput": data.output, "exitCode": data.exit_code, "durationMs": data.duration_ms}
        call.change({**call.item, **outcome})
        yield from ()

    def progress(self, call: CodexCall, data: t.McpToolCallProgress) -> Iterator[CodexNotification]:
        """An MCP server says how far it is."""
        if data.message is not None:
            yield self._active_turn.here("item/mcpToolCall/progress", itemId=call.item["id"], message=data.message)

    def searched(self, event: Event, data: t.WebSearchEnd) -> Iterator[CodexNotification]:
        """The provider has searched the web."""
        item = i.web_search(data.call_id, data.query)
        yield self._active_turn.started(event, item)
        yield self._active_turn.completed(event, item)

    def approval_requested(self, event: Event, data: t.ApprovalRequest) -> Iterator[CodexNotification]:
        """A person is asked, about a call; an agent's question, about its last one."""
        self._open_approvals[data.approval_id] = self.about(event, data)
        yield from self._waiting()

    def approval_resolved(self, event: Event, data: t.ApprovalResolved) -> Iterator[CodexNotification]:
        """An approval is resolved, by this client or another."""
        call = self._open_approvals.pop(data.approval_id, None)
        if call is not None and data.decision == "deny":
            call.declined = True
        yield from self._waiting()

    def _waiting(self) -> Iterator[CodexNotification]:
        if self._active_turn.waiting != bool(self._open_approvals):
            self._active_turn.waiting = bool(self._open_approvals)
            yield self._active_turn.status()
