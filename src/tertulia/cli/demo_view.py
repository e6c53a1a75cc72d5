"""How the demo looks: a line for each thing worth one, beside the name of its conversation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from tertulia.cli.output.terminal import Style, TerminalOutput, one_line_json, shorten
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, ItemId

_BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_MARGIN = 20
_PLAN = "update_plan"
"""Its calls need no line of their own: the plan has one."""


class DemoView:
    """Shows the events of the conversations it knows, and no others."""

    def __init__(self, out: TerminalOutput) -> None:
        self._out = out
        self._width = min(100, shutil.get_terminal_size((100, 24)).columns)
        self._actors: dict[ConversationId | None, tuple[str, Style]] = {}
        self._speech: ItemId | None = None
        """The answer that is being shown, piece by piece."""
        self._column = 0
        self._has_status = False

    def introduce(self, conversation_id: ConversationId, name: str, style: Style) -> None:
        """From now on this conversation's events are shown."""
        self._actors[conversation_id] = (name, style)

    def heading(self, text: str) -> None:
        """What happens next, in a line."""
        self._out.line()
        self._out.line((text, "bold"))

    def row(self, conversation_id: ConversationId, label: str, text: str, style: Style = "plain") -> None:
        """A line about one conversation."""
        self._margin(conversation_id, label)
        self._out.line((shorten(text, self._width - _MARGIN), style))

    def status(self, text: str = "") -> None:
        """A line that the next one is printed over, where the screen can do that."""
        if text or self._has_status:
            self._out.rewrite((f"  {shorten(text, self._width - 3)}" if text else "", "dim"))
        self._has_status = bool(text)

    def show(self, event: e.Event) -> None:
        """Show one event, where it is worth a line."""
        shower = self._showers.get(type(event.data))
        if shower is not None and event.conversation_id in self._actors:
            shower(self, event.conversation_id, event.data)

    def _margin(self, conversation_id: ConversationId | None, label: str) -> None:
        name, style = self._actors[conversation_id]
        self._out.write("  ", (f"{name:7}", style), (f"{label:>9}  ", "dim"))

    def _started(self, conversation_id: ConversationId, data: e.TaskStarted) -> None:
        match data.kind:
            case "user":
                self.row(conversation_id, "you", data.input_preview or "", "bold")
            case "target":
                self.row(conversation_id, "is asked", data.input_preview or "", "bold")
            case "continuation":
                pass

    def _piece(self, conversation_id: ConversationId, data: e.AgentMessageDelta) -> None:
        if self._out.live:
            self._say(conversation_id, data.item_id, data.text)

    def _message(self, conversation_id: ConversationId, data: e.AgentMessage) -> None:
        if self._speech != data.item_id:
            self._say(conversation_id, data.item_id, data.text)
        self._out.line()
        self._speech = None

    def _say(self, conversation_id: ConversationId, item_id: ItemId, text: str) -> None:
        if self._speech != item_id:
            self._speech, self._column = item_id, _MARGIN
            self._margin(conversation_id, "says")
        for word in text.split():
            if self._column + len(word) >= self._width:
                self._out.line()
                self._margin(conversation_id, "")
                self._column = _MARGIN
            space = " " if self._column > _MARGIN else ""
            self._out.write(f"{space}{word}")
            self._column += len(space) + len(word)

    def _plan(self, conversation_id: ConversationId, data: t.PlanUpdate) -> None:
        self.row(conversation_id, "plan", " · ".join(f"{_BOXES[step.status]} {step.step}" for step in data.plan))

    def _call(self, conversation_id: ConversationId, data: t.ToolCallBegin) -> None:
        if data.name != _PLAN:
            self.row(conversation_id, "calls", f"{data.name} {one_line_json(data.arguments)}")

    def _called(self, conversation_id: ConversationId, data: t.ToolCallEnd) -> None:
        if not data.success:
            self.row(conversation_id, "refused", f"{data.name}: {_reason(data.output)}", "red")
        elif data.name != _PLAN:
            self.row(conversation_id, "gets", data.output, "green")

    def _narrowed(self, conversation_id: ConversationId, data: e.BackgroundEvent) -> None:
        self.row(conversation_id, "narrowed", data.message, "yellow")

    def _complete(self, conversation_id: ConversationId, data: e.TaskComplete) -> None:
        self.row(conversation_id, "done", f"{data.usage.total_tokens:,} tokens", "dim")

    def _aborted(self, conversation_id: ConversationId, data: e.TurnAborted) -> None:
        if data.reason == "replaced":
            self.row(conversation_id, "waits", "goes on when all that it asked have answered", "yellow")
        else:
            self.row(conversation_id, "stopped", f"{data.reason}; what was said so far is kept", "yellow")

    _showers: ClassVar[Mapping[type[e.EventData], Callable[..., None]]] = {
        e.TaskStarted: _started,
        e.AgentMessageDelta: _piece,
        e.AgentMessage: _message,
        t.PlanUpdate: _plan,
        t.ToolCallBegin: _call,
        t.ToolCallEnd: _called,
        e.BackgroundEvent: _narrowed,
        e.TaskComplete: _complete,
        e.TurnAborted: _aborted,
    }


def _reason(output: str) -> str:
    """The sentence in a refusal, which is JSON for the model's sake."""
    try:
        return msgspec.json.decode(output, type=dict[str, Any])["reason"]
    except (msgspec.DecodeError, KeyError):
        return output
