"""The tool calls of an ACP session: each is told once, grows, and ends once. How one looks: `tool_call_view.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.tool_events import (
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    PatchApplyBegin,
    ToolCallBegin,
    ToolCallEnd,
    WebSearchBegin,
    WebSearchEnd,
)
from tertulia.server.acp.text_stream import Update, text_block
from tertulia.server.acp.tool_call_view import fence_code, location, one_line, view_tool_call

Status = Literal["pending", "in_progress", "completed", "failed"]

MAX_OUTPUT = 8 * 1024
"""Characters of a running command's output that are shown: an update repeats all that is shown."""
_STEP = MAX_OUTPUT // 16
_HIDDEN = frozenset({"update_plan"})
"""Shown as what they do."""


class _OpenCall:
    """A call that has not ended."""

    __slots__ = ("content", "exit_code", "id", "output", "terminal", "told")

    def __init__(self, id: str, content: list[dict[str, Any]]) -> None:
        self.id = id
        self.content = content
        self.output = ""
        self.told = 0
        """Characters of output that came since it was last shown."""
        self.terminal = False
        """Its output is shown in a terminal of the editor's."""
        self.exit_code: int | None = None


class AcpToolCalls:
    """Of all conversations of a session. An id that a model uses again gets a new name."""

    def __init__(
        self, cwd: Callable[[ConversationId], str], label: Callable[[ConversationId], str], *, terminal: bool
    ) -> None:
        """`label`: what stands before a call's title, to tell whose it is. `terminal`: the editor shows output."""
        self._cwd = cwd
        self._label = label
        self._terminal = terminal
        self._open: dict[tuple[ConversationId, CallId], _OpenCall] = {}
        self._used: dict[str, int] = {}

    def asking(self, conversation: ConversationId, call_id: CallId | None) -> str | None:
        """The id of the call that something is asked for, if it is under way; of an agent's question, its last one."""
        if call_id is not None:
            call = self._open.get((conversation, call_id))
            return None if call is None else call.id
        own = [call.id for (state, _), call in self._open.items() if state == conversation]
        return own[-1] if own else None

    def begin(self, conversation: ConversationId, data: ToolCallBegin) -> list[Update]:
        """A call is about to be handled."""
        if data.name in _HIDDEN:
            return []
        seen = view_tool_call(data.name, data.arguments, self._cwd(conversation))
        call = self._add(conversation, data.call_id, seen.content)
        return [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call.id,
                "title": self._label(conversation) + seen.title,
                "kind": seen.kind,
                "status": "pending",
                # Changes say it already, and can be large.
                **({} if seen.content else {"rawInput": data.arguments}),
                **({"locations": seen.locations} if seen.locations else {}),
                **({"content": seen.content} if seen.content else {}),
            }
        ]

    def started(self, conversation: ConversationId, call_id: CallId) -> list[Update]:
        """Whatever had to be asked is settled: it runs."""
        call = self._open.get((conversation, call_id))
        return [] if call is None else [_update(call, status="in_progress")]

    def patching(self, conversation: ConversationId, data: PatchApplyBegin) -> list[Update]:
        """A patch is read, also one that came as a command."""
        call = self._open.get((conversation, data.call_id))
        if call is None:
            return []
        paths = dict.fromkeys(change.get("move_to") or change["path"] for change in data.changes)
        return [_update(call, locations=[location(path, self._cwd(conversation)) for path in paths])]

    def running(self, conversation: ConversationId, data: ExecCommandBegin) -> list[Update]:
        """Show that the command of a call runs."""
        call = self._open.get((conversation, data.call_id))
        if call is None:
            return []
        if not self._terminal:
            return [_update(call, status="in_progress")]
        call.terminal = True
        call.content = [*call.content, {"type": "terminal", "terminalId": call.id}]
        info = {"terminal_info": {"terminal_id": call.id, "cwd": data.cwd}}
        return [_update(call, status="in_progress", content=call.content, _meta=info)]

    def output(self, conversation: ConversationId, data: ExecCommandOutputDelta) -> list[Update]:
        """A command said something. Not every word is passed on at once: each update repeats what is shown."""
        call = self._open.get((conversation, data.call_id))
        if call is None:
            return []
        if call.terminal:
            return [_update(call, _meta={"terminal_output": {"terminal_id": call.id, "data": data.text}})]
        call.output = (call.output + data.text)[-MAX_OUTPUT:]
        call.told += len(data.text)
        if call.told < min(len(call.output) // 16, _STEP):
            return []
        call.told = 0
        return [_update(call, content=[*call.content, _text(fence_code(call.output))])]

    def ran(self, conversation: ConversationId, data: ExecCommandEnd) -> list[Update]:
        """A command has ended; its call may go on."""
        call = self._open.get((conversation, data.call_id))
        if call is None:
            return []
        call.exit_code = data.exit_code
        if not call.terminal:
            return []
        exit = {"terminal_id": call.id, "exit_code": data.exit_code, "signal": None}
        return [_update(call, _meta={"terminal_exit": exit})]

    def end(self, conversation: ConversationId, data: ToolCallEnd) -> list[Update]:
        """The one end of a call."""
        call = self._open.pop((conversation, data.call_id), None)
        if call is None:
            return []
        raw_output: dict[str, Any] = {
            "success": data.success,
            "truncated": data.truncated,
            "durationMs": data.duration_ms,
        }
        if call.exit_code is not None:
            raw_output["exitCode"] = call.exit_code
        content = call.content
        if not (call.terminal or (call.content and data.success)) and data.output:
            content = [*content, _text(fence_code(data.output))]
        status: Status = "completed" if data.success else "failed"
        return [_update(call, status=status, rawOutput=raw_output, **({"content": content} if content else {}))]

    def searching(self, conversation: ConversationId, data: WebSearchBegin) -> list[Update]:
        """The provider searches, for a call of ours or by itself."""
        if (conversation, data.call_id) in self._open:
            return self.started(conversation, data.call_id)
        call = self._add(conversation, data.call_id, [])
        title = self._label(conversation) + "Search the web"
        shown = {"toolCallId": call.id, "title": title, "kind": "search", "status": "in_progress"}
        return [{"sessionUpdate": "tool_call", **shown}]

    def searched(self, conversation: ConversationId, data: WebSearchEnd) -> list[Update]:
        """Show that a search by the provider has ended."""
        call = self._open.pop((conversation, data.call_id), None)
        if call is None:
            return []
        title = one_line(f"Search the web: {data.query}") if data.query else "Search the web"
        return [_update(call, status="completed", title=self._label(conversation) + title)]

    def abandon(self) -> list[Update]:
        """Nothing runs any more, and nothing may look as if it did: the reader was too slow to hear of an end."""
        left, self._open = list(self._open.values()), {}
        return [_update(call, status="failed") for call in left]

    def _add(self, conversation: ConversationId, call_id: CallId, content: Sequence[dict[str, Any]]) -> _OpenCall:
        times = self._used[call_id] = self._used.get(call_id, 0) + 1
        call = self._open[conversation, call_id] = _OpenCall(
            call_id if times == 1 else f"{call_id}#{times}", list(content)
        )
        return call


def _update(call: _OpenCall, **fields: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call.id, **fields}


def _text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": text_block(text)}
