"""The events of a session as ACP's updates: what an editor can show of each, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import ConversationId
from tertulia.server.as_acp_calls import Calls
from tertulia.server.as_acp_words import Update, Words, beside

Told = Callable[["Updates", ConversationId, Any], Sequence[Update | None]]


class Updates:
    """Follows one session. What the root says is the session's voice; of its other conversations the calls show."""

    def __init__(self, root: ConversationId, calls: Calls) -> None:
        self._root = root
        self.calls = calls
        self._words = Words()
        self._servers: dict[str, str] = {}
        """What was last said of those that do not work."""

    def of(self, event: Event) -> list[Update]:
        """What there is to show of an event."""
        tell = _TOLD.get(type(event.data))
        if tell is None:
            return []
        talk = event.conversation_id or self._root
        return [update for update in tell(self, talk, event.data) if update is not None]

    # ── said ─────────────────────────────────────────────────────────────────────────────────────────────────

    def piece(self, talk: ConversationId, data: e.AgentMessageDelta | e.AgentReasoningDelta) -> Sequence[Update | None]:
        """By `of`."""
        return (self._words.piece(data),) if talk == self._root else ()

    def whole(self, talk: ConversationId, data: e.AgentMessage | e.AgentReasoning) -> Sequence[Update | None]:
        """By `of`."""
        return (self._words.whole(data),) if talk == self._root else ()

    def background(self, talk: ConversationId, data: e.BackgroundEvent) -> Sequence[Update | None]:
        """By `of`."""
        return (self._words.begin_again(),) if data.discard_deltas and talk == self._root else ()

    def plan(self, talk: ConversationId, data: t.PlanUpdate) -> Sequence[Update | None]:
        """By `of`."""
        if talk != self._root:
            return ()
        entries = [{"content": step.step, "priority": "medium", "status": step.status} for step in data.plan]
        return ({"sessionUpdate": "plan", "entries": entries},)

    def usage(self, talk: ConversationId, data: e.TokenCount) -> Sequence[Update | None]:
        """By `of`."""
        if talk != self._root:
            return ()
        used = data.usage.input_tokens + data.usage.output_tokens
        return ({"sessionUpdate": "usage_update", "used": used, "size": data.context_window},)

    def server(self, data: t.McpServerStatus) -> Sequence[Update | None]:
        """By `of`. One that is tried again and fails again is no news."""
        if data.status not in ("failed", "untrusted"):
            if data.status == "ready":
                self._servers.pop(data.name, None)
            return ()
        said = f"MCP server {data.name} is {data.status}: {data.error or 'no reason is known'}"
        if self._servers.get(data.name) == said:
            return ()
        self._servers[data.name] = said
        return (beside(said),)


def _compacted(data: e.HistoryCompacted) -> Sequence[Update | None]:
    if data.trigger == "request" or not data.compacted:
        # Whoever asked for it gets an answer.
        return ()
    return (beside(f"The older part was summarised: {data.before_tokens:,} tokens are {data.after_tokens:,} now."),)


_TOLD: dict[type[EventData], Told] = {
    e.AgentMessageDelta: Updates.piece,
    e.AgentReasoningDelta: Updates.piece,
    e.AgentMessage: Updates.whole,
    e.AgentReasoning: Updates.whole,
    e.BackgroundEvent: Updates.background,
    e.TokenCount: Updates.usage,
    e.HistoryCompacted: lambda updates, talk, data: _compacted(data),
    e.WarningEvent: lambda updates, talk, data: (beside(f"Warning: {data.message}"),),
    t.PlanUpdate: Updates.plan,
    t.McpServerStatus: lambda updates, talk, data: updates.server(data),
    t.ToolCallBegin: lambda updates, talk, data: updates.calls.begin(talk, data),
    t.ToolCallEnd: lambda updates, talk, data: updates.calls.end(talk, data),
    t.ExecCommandBegin: lambda updates, talk, data: updates.calls.running(talk, data),
    t.ExecCommandOutputDelta: lambda updates, talk, data: updates.calls.output(talk, data),
    t.ExecCommandEnd: lambda updates, talk, data: updates.calls.ran(talk, data),
    t.PatchApplyBegin: lambda updates, talk, data: updates.calls.patching(talk, data),
    t.McpToolCallBegin: lambda updates, talk, data: updates.calls.started(talk, data.call_id),
    t.WebSearchBegin: lambda updates, talk, data: updates.calls.searching(talk, data),
    t.WebSearchEnd: lambda updates, talk, data: updates.calls.searched(talk, data),
}
