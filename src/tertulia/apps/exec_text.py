"""`exec` for people: the answer on standard output, everything else on standard error.

On a terminal the answer is shown as it comes. Into a pipe or a file goes the final answer and a line end, or
nothing at all: what was said on the way there is not the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tertulia.apps.errand import Ending, StopReason
from tertulia.apps.terminal import Style, Terminal, shortened
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, ItemId

_BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}


class TextView:
    """Shows one errand."""

    def __init__(self, out: Terminal, notes: Terminal, warnings: Sequence[str]) -> None:
        self._out = out
        self._notes = notes
        self._root: ConversationId | None = None
        self._open: ItemId | None = None
        """The answer that is being shown, piece by piece."""
        self._held: str | None = None
        """The newest whole answer, while it may still turn out to be the final one."""
        for warning in warnings:
            self._note("warning", "yellow", warning)

    def show(self, event: e.Event) -> None:
        """Show it, where a person wants to know."""
        shower = _SHOWERS.get(type(event.data))
        if shower is not None:
            shower(self, event, event.data)

    def stopping(self, reason: StopReason) -> None:
        """Say so at once: stopping may take a while."""
        self._note("stopping", "yellow", "our own timeout has passed" if reason == "timeout" else "once more to kill")

    def end(self, ending: Ending) -> None:
        """The final answer, and what it cost."""
        self._break_line()
        reply = ending.reply
        if ending.status == "completed" and reply is not None:
            if not self._out.live and reply.text is not None:
                self._out.line(reply.text)
        else:
            self._pass_held()
            self._note(ending.status, "red")
        if reply is not None:
            usage = reply.usage
            spent = f"{usage.input_tokens:,} in ({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out"
            self._note("tokens", "dim", f"{spent} · {reply.tool_calls} tool calls · {reply.duration:.1f} s")

    # ── what the model says ──────────────────────────────────────────────────────────────────────────────────

    def root(self, event: e.Event, data: e.SessionConfigured) -> None:
        """Whose answers are the answer."""
        self._root = data.root_conversation_id

    def piece(self, event: e.Event, data: e.AgentMessageDelta) -> None:
        """A piece of an answer."""
        if self._out.live and event.conversation_id == self._root:
            if self._open != data.item_id:
                self._break_line()
            self._open = data.item_id
            self._out.write(data.text)

    def message(self, event: e.Event, data: e.AgentMessage) -> None:
        """A whole answer, most of it shown already where somebody watches."""
        if event.conversation_id != self._root:
            self._note("said", "dim", shortened(data.text))
        elif not self._out.live:
            self._pass_held()
            self._held = data.text
        elif self._open == data.item_id:
            self._break_line()
        else:
            self._out.line(data.text)

    def reasoning(self, event: e.Event, data: e.AgentReasoning) -> None:
        """What it thought, in short."""
        self._note("thinking", "dim", shortened(data.text))

    def _pass_held(self) -> None:
        """It was not the final answer after all."""
        if self._held is not None:
            self._note("said", "dim", shortened(self._held))
            self._held = None

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────

    def call(self, event: e.Event, data: t.ToolCallBegin) -> None:
        """A call begins."""
        self._pass_held()
        self._note("call", "cyan", f"{data.name} {shortened(data.arguments)}")

    def called(self, event: e.Event, data: t.ToolCallEnd) -> None:
        """A call has ended."""
        word, style = ("result", "green") if data.success else ("refused", "red")
        self._note(word, style, shortened(data.output))

    def plan(self, event: e.Event, data: t.PlanUpdate) -> None:
        """The plan, a step a line."""
        for step in data.plan:
            self._note("plan", "cyan", f"{_BOXES[step.status]} {shortened(step.step)}")

    # ── what is not as it should be ──────────────────────────────────────────────────────────────────────────

    def warning(self, event: e.Event, data: e.Warning) -> None:
        """Something is not as asked."""
        self._note("warning", "yellow", data.message)

    def background(self, event: e.Event, data: e.BackgroundEvent) -> None:
        """A right that was narrowed, a retry."""
        self._note("narrowed" if data.narrowed else "note", "yellow", data.message)

    def server(self, event: e.Event, data: t.McpServerStatus) -> None:
        """An MCP server that will not serve."""
        if data.error is not None:
            self._note("warning", "yellow", f"MCP server {data.name} is {data.status}: {data.error}")

    def forced(self, event: e.Event, data: e.ConversationCloseForced) -> None:
        """A task would not stop."""
        self._note("warning", "yellow", f"the task did not stop within {data.timeout_s:g} s and was abandoned")

    def error(self, event: e.Event, data: e.Error) -> None:
        """Something failed."""
        self._note("error", "red", data.message)

    def _note(self, word: str, style: Style, text: str = "") -> None:
        self._break_line()
        self._notes.line((word, style), f" {text}" if text else "")

    def _break_line(self) -> None:
        if self._open is not None:
            self._open = None
            self._out.line()


_SHOWERS: Mapping[type[e.EventData], Callable[[TextView, e.Event, Any], None]] = {
    e.SessionConfigured: TextView.root,
    e.AgentMessageDelta: TextView.piece,
    e.AgentMessage: TextView.message,
    e.AgentReasoning: TextView.reasoning,
    t.ToolCallBegin: TextView.call,
    t.ToolCallEnd: TextView.called,
    t.PlanUpdate: TextView.plan,
    e.Warning: TextView.warning,
    e.BackgroundEvent: TextView.background,
    t.McpServerStatus: TextView.server,
    e.ConversationCloseForced: TextView.forced,
    e.Error: TextView.error,
}
