"""The OpenAI Responses API, as OpenAI and others serve it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tertulia.models.http.encoding import (
    argument_text,
    arguments_of,
    encode,
    join_at_seams,
    json_member,
    legal_call_id,
    summary_text,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.responses_decoder import ResponsesDecoder
from tertulia.models.wire import ModelRequest
from tertulia.protocol import items as i
from tertulia.protocol.tool_spec import LOCAL_SHELL, ToolSpec

_LEGAL_ID = re.compile(r".{1,64}", re.DOTALL)
_CANNOT_REASON = ("gpt-3", "gpt-4", "chatgpt")
"""Models that refuse to be asked for the sealed form of their reasoning."""


class ResponsesDialect:
    """Items as `input` items. A message of one text is that text; pictures make it a list."""

    __slots__ = ("name",)

    def __init__(self, provider_name: str) -> None:
        self.name = f"responses/{provider_name}"

    def encode_items(self, items: Sequence[i.Item]) -> bytes:
        """Each as one JSON value. Reasoning only in the form that this provider sealed."""
        return b",".join(encode(spelled) for item in items if (spelled := self._spell(item)) is not None)

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """Functions, custom tools with their grammar, and the search that the provider hosts."""
        return encode([_spell_tool(tool) for tool in tools])

    def _spell(self, item: i.Item) -> dict[str, object] | None:
        match item:
            case i.UserMessage():
                return _message("user", _content(item.parts))
            case i.Summary():
                return _message("user", summary_text(item))
            case i.AssistantMessage():
                return _message("assistant", item.text) if item.text else None
            case i.Reasoning():
                return self._spell_reasoning(item)
            case i.ToolCall(kind="custom"):
                call_id = legal_call_id(item.call_id, _LEGAL_ID)
                return {"type": "custom_tool_call", "call_id": call_id, "name": item.name, "input": item.arguments}
            case i.ToolCall() if item.name == LOCAL_SHELL and (action := arguments_of(item)) is not None:
                return _local_shell_call(legal_call_id(item.call_id, _LEGAL_ID), action)
            case i.ToolCall():
                call_id = legal_call_id(item.call_id, _LEGAL_ID)
                arguments = argument_text(item)
                return {"type": "function_call", "call_id": call_id, "name": item.name, "arguments": arguments}
            case i.ToolOutput():
                kind = "custom_tool_call_output" if item.kind == "custom" else "function_call_output"
                call_id = legal_call_id(item.call_id, _LEGAL_ID)
                return {"type": kind, "call_id": call_id, "output": _content(item.parts)}

    def _spell_reasoning(self, item: i.Reasoning) -> dict[str, object] | None:
        if item.dialect != self.name or not item.opaque:
            return None
        # Without the provider's id: with one, a provider that was told not to store looks for what it has not kept.
        summary = [{"type": "summary_text", "text": item.text}] if item.text else []
        return {"type": "reasoning", "summary": summary, "encrypted_content": item.opaque}


class ResponsesWire(HttpWire):
    """One model over the Responses API. Nothing is left to the provider's memory: each request is whole."""

    path = "/responses"

    @property
    def dialect(self) -> ResponsesDialect:
        """How this API spells items."""
        return ResponsesDialect(self.provider_name)

    def body_of(self, request: ModelRequest) -> list[bytes]:
        """The request; reasoning comes back sealed, so that it can be sent again if the provider stores nothing."""
        parts = [b'{"stream":true,"model":', encode(self.model), json_member("store", encode(request.store))]
        parts.append(json_member("prompt_cache_key", encode(request.cache_key)))
        if not self.model.startswith(_CANNOT_REASON):
            parts.append(json_member("include", b'["reasoning.encrypted_content"]'))
        if request.instructions:
            parts.append(json_member("instructions", encode(request.instructions)))
        if request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"format":{"type":"json_schema","name":"answer","strict":true,"schema":%b}}'
            parts.append(json_member("text", form % request.output_schema.encode()))
        return [*parts, b',"input":[', *join_at_seams(request.chunks, ()), b"]}"]

    def reader(self) -> ResponsesDecoder:
        """A new decoder for one answer."""
        return ResponsesDecoder(self.place, self.dialect.name, self.limits)


def _local_shell_call(call_id: str, action: dict[str, object]) -> dict[str, object]:
    usual: dict[str, object] = {"type": "exec", "env": {}}
    return {"type": "local_shell_call", "call_id": call_id, "status": "completed", "action": usual | action}


def _message(role: str, content: object) -> dict[str, object]:
    # With its type: OpenAI can do without, others cannot.
    return {"type": "message", "role": role, "content": content}


def _content(parts: tuple[i.Part, ...]) -> str | list[dict[str, str]]:
    match parts:
        case ():
            return ""
        case (i.TextPart(text),):
            return text
        case _:
            return [_spell_part(part) for part in parts]


def _spell_part(part: i.Part) -> dict[str, str]:
    if isinstance(part, i.TextPart):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": part.image_url, "detail": "auto"}


def _spell_tool(tool: ToolSpec) -> dict[str, object]:
    if tool.name == LOCAL_SHELL and tool.source == "builtin":
        # Known to the API by this name alone; its output goes back like a function's.
        return {"type": tool.name}
    named = {"type": tool.kind, "name": tool.name, "description": tool.description}
    match tool.kind:
        case "function":
            # Said outright: left out, it means strict, and then schemas with optional arguments are refused.
            return {**named, "strict": False, "parameters": msgspec.Raw(tool.schema.encode())}
        case "custom" if tool.grammar:
            return {**named, "format": {"type": "grammar", "syntax": "lark", "definition": tool.grammar}}
        case "custom":
            return {**named, "format": {"type": "text"}}
        case "hosted":
            return {"type": tool.name}
