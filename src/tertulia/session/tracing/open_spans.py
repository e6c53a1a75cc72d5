"""Spans that have begun and not ended: of a trace, a task, a turn, a model request, a tool call."""

from __future__ import annotations

from typing import Any

import msgspec

from tertulia.protocol import events as e
from tertulia.protocol.ids import CallId, ConversationId, new_span_id
from tertulia.protocol.tool_events import ToolCallBegin
from tertulia.session.tracing import span as s
from tertulia.session.tracing.span import Attribute, FinishedSpan

MAX_TEXT = 16_384
"""Characters of one text that become an attribute."""
_CONV_TOOLS = frozenset({"conv_create", "conv_send"})


class OpenTrace:
    """A chain: what it has open, and the root span of its trace."""

    __slots__ = ("calls", "open", "root_id", "shown", "start_ns", "trace_id")

    def __init__(self, trace_id: str, root_id: str, start_ns: int) -> None:
        self.trace_id = trace_id
        self.root_id = root_id
        self.start_ns = start_ns
        self.open = 0
        """How many tasks and calls of it are open."""
        self.calls: dict[CallId, OpenCall] = {}
        self.shown = False
        """Whether the root span was emitted."""

    def parent_of(self, target: ConversationId) -> str:
        """The span that a task of a target stands below: the newest call that asks a conversation, or the root."""
        asking = [call for call in self.calls.values() if call.name in _CONV_TOOLS]
        named = [call for call in asking if call.target == target]
        return (named or asking)[-1].span_id if asking else self.root_id

    def span(self, session_id: str, end_ns: int) -> FinishedSpan:
        """The root span, with the id of the session."""
        ids = self.trace_id, self.root_id, None
        return FinishedSpan(*ids, "session", "internal", self.start_ns, end_ns, {s.SESSION: session_id})


class OpenRequest:
    """A request to a model."""

    __slots__ = ("attributes", "end_ns", "first_ns", "start_ns", "task", "turn_id")

    def __init__(self, task: OpenTask, turn_id: str, start_ns: int) -> None:
        self.task = task
        self.turn_id = turn_id
        self.start_ns = start_ns
        self.first_ns: int | None = None
        self.end_ns: int | None = None
        self.attributes: dict[str, Attribute] = {s.OPERATION: "chat", **task.model_attributes}

    def note_chunk(self, now: int) -> None:
        """A piece of the answer came."""
        if self.first_ns is None:
            self.first_ns = now
            self.attributes[s.FIRST_CHUNK] = (now - self.start_ns) / 1e9

    def finish(self, count: e.TokenCount, now: int) -> None:
        """Note the tokens of the whole answer."""
        usage, self.end_ns = count.usage, now
        self.task.idle_since = max(self.task.idle_since, now)
        self.attributes |= {
            s.INPUT_TOKENS: usage.input_tokens,
            s.CACHED_TOKENS: usage.cached_input_tokens,
            s.OUTPUT_TOKENS: usage.output_tokens,
            s.REASONING_TOKENS: usage.reasoning_output_tokens,
        }
        if count.cost_usd is not None:
            self.attributes[s.COST] = count.cost_usd

    def span(self, now: int, error: str | None) -> FinishedSpan:
        """It has its answer, or will get none."""
        error = error if self.end_ns is None else None
        name = f"chat {self.task.model}" if self.task.model else "chat"
        ids = self.task.trace.trace_id, new_span_id(), self.turn_id
        times = self.start_ns, max(self.start_ns, self.end_ns or now)
        return FinishedSpan(*ids, name, "client", *times, _with_error(self.attributes, error), error)


class OpenTurn:
    """A request with the calls of its answer."""

    __slots__ = ("number", "request", "span_id", "start_ns", "task")

    def __init__(self, task: OpenTask, number: int, start_ns: int) -> None:
        self.task = task
        self.number = number
        self.span_id = new_span_id()
        self.start_ns = start_ns
        self.request = OpenRequest(task, self.span_id, start_ns)

    def span(self, now: int) -> FinishedSpan:
        """The finished span of the turn."""
        task = self.task
        ids = task.trace.trace_id, self.span_id, task.span_id
        return FinishedSpan(*ids, f"turn {self.number}", "internal", self.start_ns, max(self.start_ns, now), {})


class OpenTask:
    """A running task with its current turn."""

    __slots__ = (
        "attributes", "error", "idle_since", "model", "model_attributes", "parent_id", "span_id", "start_ns", "trace",
        "turn", "turns",
    )  # fmt: skip

    def __init__(
        self,
        trace: OpenTrace,
        span_id: str,
        parent_id: str,
        start_ns: int,
        attributes: dict[str, Attribute],
        model: str | None,
    ) -> None:
        self.trace = trace
        self.span_id = span_id
        self.parent_id = parent_id
        self.start_ns = self.idle_since = start_ns
        """`idle_since`: when it last had nothing more to wait for, so that its next turn began."""
        self.attributes = attributes
        self.model = model or ""
        provider, _, name = self.model.partition("/")
        self.model_attributes: dict[str, Attribute] = {s.PROVIDER: provider, s.MODEL: name or provider} if model else {}
        self.turn: OpenTurn | None = None
        self.turns = 0
        self.error: str | None = None

    def begin_turn(self) -> OpenTurn:
        """Its next turn, from when there was nothing left to do but to ask the model."""
        self.turns += 1
        self.turn = OpenTurn(self, self.turns, self.idle_since)
        return self.turn

    def span(self, now: int, ending: str, error: str | None) -> FinishedSpan:
        """The finished span of the task."""
        ids = self.trace.trace_id, self.span_id, self.parent_id
        attributes = _with_error(self.attributes | self.model_attributes | {s.ENDING: ending}, error)
        return FinishedSpan(*ids, "invoke_agent", "internal", self.start_ns, max(self.start_ns, now), attributes, error)


class OpenCall:
    """A tool call that has no output yet."""

    __slots__ = (
        "attributes", "call_id", "name", "sent_ns", "server", "span_id", "start_ns", "target", "task", "trace",
        "turn_id",
    )  # fmt: skip

    def __init__(self, task: OpenTask, turn_id: str, call: ToolCallBegin, label: str, start_ns: int) -> None:
        """`label`: the name of the tool, where there is one of that name."""
        self.trace = task.trace
        self.turn_id = turn_id
        self.task = task
        self.call_id = call.call_id
        self.name = label
        self.target: str | None = _target(call.arguments)
        self.span_id = new_span_id()
        self.start_ns = start_ns
        self.server: str | None = None
        self.sent_ns: int | None = None
        self.attributes: dict[str, Attribute] = {
            s.OPERATION: "execute_tool",
            s.TOOL: label,
            s.TOOL_CALL: call.call_id,
            s.TOOL_TYPE: "function",
        }

    def mcp_span(self, now: int, success: bool) -> FinishedSpan:
        """The part of it that an MCP server had."""
        attributes: dict[str, Attribute] = {s.MCP_METHOD: "tools/call", s.TOOL: self.name, s.SERVER: self.server or ""}
        error = None if success else "tool_error"
        ids = self.trace.trace_id, new_span_id(), self.span_id
        times = self.sent_ns or self.start_ns, now
        name = f"tools/call {self.name}"
        return FinishedSpan(*ids, name, "client", *times, _with_error(attributes, error), error)

    def span(self, now: int, error: str | None) -> FinishedSpan:
        """The call with its output."""
        ids = self.trace.trace_id, self.span_id, self.turn_id
        times = self.start_ns, max(self.start_ns, now)
        name = f"execute_tool {self.name}"
        return FinishedSpan(*ids, name, "internal", *times, _with_error(self.attributes, error), error)


def message_json(role: str, text: str) -> str:
    """A message as the conventions spell it."""
    parts = [{"type": "text", "content": text}]
    return msgspec.json.encode([{"role": role, "parts": parts}]).decode()


def _target(arguments: Any) -> str | None:
    target = arguments.get("conversation_id") if isinstance(arguments, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return target if isinstance(target, str) else None


def _with_error(attributes: dict[str, Attribute], error: str | None) -> dict[str, Attribute]:
    return attributes if error is None else {**attributes, s.ERROR: error}
