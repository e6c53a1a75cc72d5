"""Makes the events of AG-UI from those of a conversation: what is open is closed before something else begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ItemId, new_item_id
from tertulia.protocol.items import Usage
from tertulia.protocol.mapping_struct import BaseEventData
from tertulia.scheduler.reply import Reply
from tertulia.server.surface_events import TextProgress

Json = dict[str, Any]
PROTOCOL_VERSION = "1.0"
_PASSED_ON = (e.WarningEvent, t.PlanUpdate, t.ApprovalResolved, t.ElicitationResolved)
"""What a front end may show and AG-UI has no event for: a CUSTOM event with our own name and fields."""


class RunEvents:
    """The events of one run."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        self._run = {"threadId": thread_id, "runId": run_id}
        self._text = TextProgress()
        self._open: tuple[str, ItemId] | None = None
        """The kind and the id of the message that has begun and has no end."""

    def begin(self) -> Json:
        """The first event of a run."""
        return {"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL_VERSION}

    def of(self, data: e.EventData) -> Iterator[Json]:
        """The events for one of the conversation's own."""
        match data:
            case e.AgentMessageDelta() | e.AgentReasoningDelta():
                yield from self._piece(_kind(data), data.item_id, self._text.new_text(data))
            case e.AgentMessage() | e.AgentReasoning():
                sent = self._text.end(data.item_id) or 0
                yield from self._piece(_kind(data), data.item_id, data.text[sent:])
                yield from self.close()
            case e.BackgroundEvent(discard_deltas=True):
                # What was shown cannot be taken back: the new attempt begins a message of its own.
                self._text.forget()
                yield from self.close()
            case t.ToolCallBegin():
                yield from self.close()
                yield from _begin_call(data)
            case t.ToolCallEnd():
                yield from self.close()
                yield {
                    "type": "TOOL_CALL_RESULT",
                    "messageId": new_item_id(),
                    "toolCallId": data.call_id,
                    "content": data.output,
                    "role": "tool",
                }
            case _ if isinstance(data, _PASSED_ON):
                yield custom(data)
            case _:
                pass

    def text(self, text: str) -> Iterator[Json]:
        """A whole message whose events are not known any more."""
        yield from self._piece("TEXT_MESSAGE", ItemId(new_item_id()), text)
        yield from self.close()

    def close(self) -> Iterator[Json]:
        """End the message that has begun."""
        if self._open is not None:
            (kind, item), self._open = self._open, None
            yield {"type": f"{kind}_END", "messageId": item}
            if kind == "REASONING_MESSAGE":
                yield {"type": "REASONING_END", "messageId": item}

    def interrupted(self, interrupts: list[Json]) -> Iterator[Json]:
        """The run ends here, and another one goes on with the answers."""
        yield from self.close()
        yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "interrupt", "interrupts": interrupts}}

    def end(self, reply: Reply) -> Iterator[Json]:
        """The last event, by how the task has ended."""
        yield from self.close()
        usage = [_usage(reply.usage)]
        if reply.status == "completed":
            yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "success"}, "usage": usage}
        elif reply.error is None:
            yield {"type": "RUN_FINISHED", **self._run, "outcome": {"type": "cancelled"}, "usage": usage}
        else:
            yield self.failure(reply.error.code, reply.error.message) | {"usage": usage}

    def failure(self, code: str, message: str) -> Json:
        """The last event of a run that cannot go on."""
        return {"type": "RUN_ERROR", "message": message, "code": code}

    def _piece(self, kind: str, item: ItemId, text: str) -> Iterator[Json]:
        if not text:
            return
        if self._open != (kind, item):
            yield from self.close()
            self._open = (kind, item)
            if kind == "REASONING_MESSAGE":
                yield {"type": "REASONING_START", "messageId": item}
            role = "reasoning" if kind == "REASONING_MESSAGE" else "assistant"
            yield {"type": f"{kind}_START", "messageId": item, "role": role}
        yield {"type": f"{kind}_CONTENT", "messageId": item, "delta": text}


def custom(data: BaseEventData) -> Json:
    """An event of ours as a CUSTOM event: its name, and its fields as everywhere else."""
    return {"type": "CUSTOM", "name": f"tertulia.{data.type}", "value": msgspec.to_builtins(data)}


def approval_interrupt(request: t.ApprovalRequest) -> Json:
    """What a person has to decide before the run goes on."""
    scopes = {"type": "string", "enum": list(request.scopes), "description": "how long a yes holds"}
    decision = {"type": "string", "enum": ["allow", "deny"]}
    return {
        "id": request.approval_id,
        "reason": "approval",
        "message": f"{request.title}\n\n{request.detail}",
        **({} if request.call_id is None else {"toolCallId": request.call_id}),
        "responseSchema": {
            "type": "object",
            "properties": {"decision": decision, "scope": scopes, "message": {"type": "string"}},
            "required": ["decision"],
        },
        **({} if request.expires_at is None else {"expiresAt": request.expires_at}),
        "metadata": {"kind": request.kind, "size": request.size, "digest": request.digest, "hidden": request.hidden},
    }


def elicitation_interrupt(request: t.ElicitationRequest) -> Json:
    """What an MCP server asks a person for."""
    page = {} if request.url is None else {"metadata": {"url": request.url}}
    return {
        "id": request.elicitation_id,
        "reason": "elicitation",
        "message": f"The MCP server {request.server} asks: {request.message}",
        "responseSchema": request.schema,
        **page,
    }


def _kind(data: e.AgentMessage | e.AgentMessageDelta | e.AgentReasoning | e.AgentReasoningDelta) -> str:
    return "TEXT_MESSAGE" if isinstance(data, e.AgentMessage | e.AgentMessageDelta) else "REASONING_MESSAGE"


def _begin_call(data: t.ToolCallBegin) -> Iterator[Json]:
    arguments = data.arguments if isinstance(data.arguments, str) else msgspec.json.encode(data.arguments).decode()
    yield {"type": "TOOL_CALL_START", "toolCallId": data.call_id, "toolCallName": data.name}
    yield {"type": "TOOL_CALL_ARGS", "toolCallId": data.call_id, "delta": arguments}
    yield {"type": "TOOL_CALL_END", "toolCallId": data.call_id}


def _usage(usage: Usage) -> Json:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "reasoningTokens": usage.reasoning_output_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
    }
