"""What a session and each of its conversations did and cost: numbers, and never a word of what was said.

Nothing here keeps what a model, a tool or a person wrote. A label is an id, or the name of a tool that there is; any
other name that a model made up counts under `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tertulia.protocol.events import (
    AbortReason,
    ConversationClosed,
    Event,
    HistoryCompacted,
    TaskComplete,
    TaskStarted,
    TokenCount,
    TurnAborted,
)
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.tool_events import McpToolCallEnd, ToolCallEnd
from tertulia.protocol.tool_names import canonical
from tertulia.protocol.usage import NO_USAGE

OTHER = "other"
MAX_NAMES = 256
"""Tools that are counted by name in one session; the rest is `other`."""
MAX_CLOSED = 1_000
"""Closed conversations whose numbers are kept; those of the oldest live on in the session's sum only."""


class Calls:
    """Calls of one kind that have ended."""

    __slots__ = ("calls", "duration_ms", "failures", "max_ms")

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.duration_ms = 0
        self.max_ms = 0

    def add(self, success: bool, duration_ms: int) -> None:
        """One more."""
        self.calls += 1
        self.failures += not success
        self.duration_ms += duration_ms
        self.max_ms = max(self.max_ms, duration_ms)


class Tally:
    """The numbers of one conversation, or of a whole session."""

    __slots__ = (
        "aborted", "compactions", "completed", "failed", "mcp", "mcp_waited_ms", "mcp_waits", "requests", "started",
        "tools", "usage",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started = 0
        self.completed = 0
        self.failed = 0
        self.aborted: dict[AbortReason, int] = {}
        """By reason."""
        self.requests = 0
        self.usage = NO_USAGE
        self.tools: dict[str, Calls] = {}
        """By name."""
        self.mcp = Calls()
        self.mcp_waits = 0
        """Calls that had to wait for their turn, whatever became of them."""
        self.mcp_waited_ms = 0
        self.compactions = 0


class Metrics:
    """Is told of the events in `COUNTED`, in order. Bounded but for the open conversations, of which there are few."""

    def __init__(self) -> None:
        self.session = Tally()
        self.knows: Callable[[str], bool] = _knows_none
        """Whether there is a tool of that name; asked until it says yes."""
        self._names: set[str] = set()
        self._open: dict[ConversationId, Tally] = {}
        self._closed: dict[ConversationId, Tally] = {}

    def count(self, event: Event) -> None:
        """Take in one event of a type in `COUNTED`."""
        act, data, of = COUNTED[event.type], event.data, event.conversation_id
        if act is None:
            self._retire(of)
            return
        act(self, self.session, data)
        if of is not None:
            act(self, self._tally(of), data)

    def waited(self, of: ConversationId, seconds: float) -> None:
        """A call to an MCP server has waited for its turn. It may never have had one, so no event tells of it."""
        for tally in (self.session, self._tally(of)):
            tally.mcp_waits += 1
            tally.mcp_waited_ms += round(seconds * 1000)

    def of(self, conversation_id: ConversationId) -> Tally | None:
        """The numbers of a conversation; None where nothing was counted, or it was closed too long ago."""
        return self._open.get(conversation_id) or self._closed.get(conversation_id)

    def conversations(self) -> Iterator[tuple[ConversationId, Tally, bool]]:
        """Each conversation with numbers, and whether it is closed: the open ones first, both in order of use."""
        for of, tally in self._open.items():
            yield of, tally, False
        for of, tally in self._closed.items():
            yield of, tally, True

    def is_closed(self, conversation_id: ConversationId) -> bool:
        """Whether these are the numbers of a closed conversation."""
        return conversation_id in self._closed

    def label(self, name: str) -> str:
        """What a call of that name is counted under."""
        name = canonical(name)
        if name in self._names:
            return name
        if len(self._names) < MAX_NAMES and self.knows(name):
            self._names.add(name)
            return name
        return OTHER

    def end(self) -> None:
        """Nothing more will be counted; the numbers stay. Whoever still holds the bus must not hold all the tools."""
        self.knows = _knows_none

    def _tally(self, of: ConversationId) -> Tally:
        tally = self.of(of)
        if tally is None:
            # Not before there is something to count: most of ten thousand conversations may be idle.
            tally = self._open[of] = Tally()
        return tally

    def _retire(self, of: ConversationId | None) -> None:
        if of is None or (tally := self._open.pop(of, None)) is None:
            return
        self._closed[of] = tally
        if len(self._closed) > MAX_CLOSED:
            del self._closed[next(iter(self._closed))]


def _knows_none(name: str) -> bool:
    return False


def _started(metrics: Metrics, tally: Tally, data: TaskStarted) -> None:
    tally.started += 1


def _complete(metrics: Metrics, tally: Tally, data: TaskComplete) -> None:
    if data.status == "completed":
        tally.completed += 1
    else:
        tally.failed += 1


def _aborted(metrics: Metrics, tally: Tally, data: TurnAborted) -> None:
    tally.aborted[data.reason] = tally.aborted.get(data.reason, 0) + 1


def _tokens(metrics: Metrics, tally: Tally, data: TokenCount) -> None:
    tally.requests += 1
    tally.usage += data.usage


def _called(metrics: Metrics, tally: Tally, data: ToolCallEnd) -> None:
    label = metrics.label(data.name)
    calls = tally.tools.get(label)
    if calls is None:
        calls = tally.tools[label] = Calls()
    calls.add(data.success, data.duration_ms)


def _called_server(metrics: Metrics, tally: Tally, data: McpToolCallEnd) -> None:
    tally.mcp.add(data.success, data.duration_ms)


def _compacted(metrics: Metrics, tally: Tally, data: HistoryCompacted) -> None:
    tally.compactions += data.compacted


COUNTED: dict[str, Callable[[Metrics, Tally, Any], None] | None] = {
    TaskStarted.type: _started,
    TaskComplete.type: _complete,
    TurnAborted.type: _aborted,
    TokenCount.type: _tokens,
    ToolCallEnd.type: _called,
    McpToolCallEnd.type: _called_server,
    HistoryCompacted.type: _compacted,
    ConversationClosed.type: None,
}
"""The types of event that count; whoever publishes looks here first, and spares `Metrics` all others."""
