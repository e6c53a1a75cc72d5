"""Counts what a session and each of its conversations did and cost: numbers, never texts.

No text of a model, a tool or a person is stored. A label is an id or the name of an existing tool; calls of any other
name, which a model may have made up, are counted under `other`.
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
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.tool_events import McpToolCallEnd, NetworkAccess, ToolCallEnd
from tertulia.protocol.tool_spec import canonical_name

OTHER = "other"
MAX_NAMES = 256
"""How many tools are counted by name in one session; calls of further tools are counted as `other`."""
MAX_CLOSED = 1_000
"""How many closed conversations keep their numbers; older ones remain only in the session's totals."""


class CallTotals:
    """The number, failures and durations of calls of one kind that have ended."""

    __slots__ = ("calls", "duration_ms", "failures", "max_ms")

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.duration_ms = 0
        self.max_ms = 0

    def add(self, success: bool, duration_ms: int) -> None:
        """Count one call that has ended."""
        self.calls += 1
        self.failures += not success
        self.duration_ms += duration_ms
        self.max_ms = max(self.max_ms, duration_ms)

    def merge(self, other: CallTotals) -> None:
        """Add calls that were counted elsewhere."""
        self.calls += other.calls
        self.failures += other.failures
        self.duration_ms += other.duration_ms
        self.max_ms = max(self.max_ms, other.max_ms)


class MetricsTotals:
    """The numbers of one conversation, or of a whole session."""

    __slots__ = (
        "aborted", "compactions", "completed", "cost_usd", "failed", "mcp", "mcp_waited_ms", "mcp_waits", "network",
        "network_bytes", "requests", "started", "tools", "usage",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started = 0
        self.completed = 0
        self.failed = 0
        self.aborted: dict[AbortReason, int] = {}
        """How many tasks were aborted, by reason."""
        self.requests = 0
        self.usage = NO_USAGE
        self.cost_usd: float | None = None
        """The cost of the requests whose price is known; None if no price is known."""
        self.tools: dict[str, CallTotals] = {}
        """The calls of each tool, by its name."""
        self.mcp = CallTotals()
        self.mcp_waits = 0
        """Calls to MCP servers that had to wait for a free slot, whether or not they ran in the end."""
        self.mcp_waited_ms = 0
        self.compactions = 0
        self.network: dict[str, int] = {}
        """Connections to hosts by name, by verdict."""
        self.network_bytes = 0

    def merge(self, other: MetricsTotals) -> None:
        """Add what was counted elsewhere. Beyond `MAX_NAMES` names, calls of further tools are added to `other`."""
        self.started += other.started
        self.completed += other.completed
        self.failed += other.failed
        self.requests += other.requests
        self.usage += other.usage
        self.mcp_waits += other.mcp_waits
        self.mcp_waited_ms += other.mcp_waited_ms
        self.compactions += other.compactions
        self.network_bytes += other.network_bytes
        for verdict, count in other.network.items():
            self.network[verdict] = self.network.get(verdict, 0) + count
        self.mcp.merge(other.mcp)
        for reason, count in other.aborted.items():
            self.aborted[reason] = self.aborted.get(reason, 0) + count
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd
        for name, calls in other.tools.items():
            label = name if name in self.tools or len(self.tools) < MAX_NAMES else OTHER
            self.tools.setdefault(label, CallTotals()).merge(calls)


class Metrics:
    """Counts the events in `COUNTED`. Its memory is bounded, except for one entry for each open conversation."""

    def __init__(self, knows_tool: Callable[[str], bool] = lambda name: False) -> None:
        """`knows_tool`: whether there is a tool of that name; not called again for a name once it returned True."""
        self.session = MetricsTotals()
        self._knows_tool: Callable[[str], bool] | None = knows_tool
        self._names: set[str] = set()
        self._open: dict[ConversationId, MetricsTotals] = {}
        self._closed: dict[ConversationId, MetricsTotals] = {}

    def count(self, event: Event) -> None:
        """Count one event, whose type must be in `COUNTED`."""
        act, data, of = COUNTED[event.type], event.data, event.conversation_id
        if act is None:
            self._retire(of)
            return
        act(self, self.session, data)
        if of is not None:
            act(self, self._tally(of), data)

    def waited(self, of: ConversationId, seconds: float) -> None:
        """Count a call to an MCP server that waited for a slot. No event says so, because the call may never run."""
        for tally in (self.session, self._tally(of)):
            tally.mcp_waits += 1
            tally.mcp_waited_ms += round(seconds * 1000)

    def of(self, conversation_id: ConversationId) -> MetricsTotals | None:
        """The numbers of a conversation; None where nothing was counted, or it was closed too long ago."""
        return self._open.get(conversation_id) or self._closed.get(conversation_id)

    def conversations(self) -> Iterator[tuple[ConversationId, MetricsTotals, bool]]:
        """Each conversation with numbers, and whether it is closed: the open ones first, both in order of use."""
        for of, tally in self._open.items():
            yield of, tally, False
        for of, tally in self._closed.items():
            yield of, tally, True

    def is_closed(self, conversation_id: ConversationId) -> bool:
        """Whether the conversation is closed and its numbers are still kept."""
        return conversation_id in self._closed

    def label(self, name: str) -> str:
        """The label under which calls of that tool are counted: the tool's name, or `other`."""
        name = canonical_name(name)
        if name in self._names:
            return name
        if self._knows_tool is not None and len(self._names) < MAX_NAMES and self._knows_tool(name):
            self._names.add(name)
            return name
        return OTHER

    def end(self) -> None:
        """Stop counting; the numbers stay. Releases the tools, which a holder of the bus would otherwise keep alive."""
        self._knows_tool = None

    def _tally(self, of: ConversationId) -> MetricsTotals:
        tally = self.of(of)
        if tally is None:
            # Made only when there is something to count: of ten thousand conversations most may be idle.
            tally = self._open[of] = MetricsTotals()
        return tally

    def _retire(self, of: ConversationId | None) -> None:
        if of is None or (tally := self._open.pop(of, None)) is None:
            return
        self._closed[of] = tally
        if len(self._closed) > MAX_CLOSED:
            del self._closed[next(iter(self._closed))]


def _count_started(metrics: Metrics, tally: MetricsTotals, data: TaskStarted) -> None:
    tally.started += 1


def _count_complete(metrics: Metrics, tally: MetricsTotals, data: TaskComplete) -> None:
    if data.status == "completed":
        tally.completed += 1
    else:
        tally.failed += 1


def _count_aborted(metrics: Metrics, tally: MetricsTotals, data: TurnAborted) -> None:
    tally.aborted[data.reason] = tally.aborted.get(data.reason, 0) + 1


def _count_tokens(metrics: Metrics, tally: MetricsTotals, data: TokenCount) -> None:
    tally.requests += 1
    tally.usage += data.usage
    if data.cost_usd is not None:
        tally.cost_usd = (tally.cost_usd or 0.0) + data.cost_usd


def _count_tool_call(metrics: Metrics, tally: MetricsTotals, data: ToolCallEnd) -> None:
    label = metrics.label(data.name)
    calls = tally.tools.get(label)
    if calls is None:
        calls = tally.tools[label] = CallTotals()
    calls.add(data.success, data.duration_ms)


def _count_mcp_call(metrics: Metrics, tally: MetricsTotals, data: McpToolCallEnd) -> None:
    tally.mcp.add(data.success, data.duration_ms)


def _count_compaction(metrics: Metrics, tally: MetricsTotals, data: HistoryCompacted) -> None:
    tally.compactions += data.compacted


def _count_network(metrics: Metrics, tally: MetricsTotals, data: NetworkAccess) -> None:
    tally.network[data.verdict] = tally.network.get(data.verdict, 0) + data.connections
    tally.network_bytes += data.bytes


COUNTED: dict[str, Callable[[Metrics, MetricsTotals, Any], None] | None] = {
    TaskStarted.type: _count_started,
    TaskComplete.type: _count_complete,
    TurnAborted.type: _count_aborted,
    TokenCount.type: _count_tokens,
    ToolCallEnd.type: _count_tool_call,
    McpToolCallEnd.type: _count_mcp_call,
    HistoryCompacted.type: _count_compaction,
    NetworkAccess.type: _count_network,
    ConversationClosed.type: None,
}
"""The types of event that are counted, and how; the bus passes no others to `Metrics`."""
