"""The wire for the OpenAI Responses API, as OpenAI and others serve it, and its dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tertulia.models import wire as w
from tertulia.models.http.encoding import (
    HttpDialect,
    argument_text,
    arguments_of,
    encode,
    encode_item,
    json_member,
    legal_call_id,
    summary_text,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.responses_decoder import ResponsesDecoder
from tertulia.protocol import items as i
from tertulia.protocol.tool_spec import LOCAL_SHELL, ToolSpec

_LEGAL_ID = re.compile(r".{1,64}", re.DOTALL)
_CANNOT_REASON = ("gpt-3", "gpt-4", "chatgpt")
"""Models that refuse requests for their encrypted reasoning."""


class ResponsesDialect(HttpDialect):
    """Items as `input` items. A message of one text is that text; pictures make it a list."""

    __slots__ = ()
    api = "responses"

    def encode_items(self, items: Sequence[i.Item]) -> bytes:
        """Each as one JSON value. Reasoning only in the form that this provider encrypted."""
        return b",".join(encode_item(spelled) for item in items if (spelled := self._spell(item)) is not None)

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
                return self._spell_message(item) if item.text else None
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

    def _spell_message(self, item: i.AssistantMessage) -> dict[str, object]:
        message, phase = _message("assistant", item.text), self.own_form(item)
        return message if phase is None else {**message, "phase": phase}

    def _spell_reasoning(self, item: i.Reasoning) -> dict[str, object] | None:
        sealed = self.own_form(item)
        if sealed is None:
            return None
        # Without the provider's id, but for those that refuse it so: given one, OpenAI looks for a stored item.
        id, _, sealed = sealed.rpartition(" ")
        summary = [{"type": "summary_text", "text": item.text}] if item.text else []
        return {"type": "reasoning", **({"id": id} if id else {}), "summary": summary, "encrypted_content": sealed}


class ResponsesWire(HttpWire):
    """One model over the Responses API. Each request has the whole history; nothing stored at the provider is used."""

    path = "/responses"
    dialect_type = ResponsesDialect

    def body_of(self, request: w.ModelRequest) -> list[bytes]:
        """The request.

        It asks for encrypted reasoning, which can be sent again although the provider stores nothing.
        """
        parts = [b'{"stream":true,"model":', encode(self.model), json_member("store", encode(request.store))]
        if self.sends_cache_key:
            parts.append(json_member("prompt_cache_key", encode(request.cache_key)))
        if not self.model.startswith(_CANNOT_REASON):
            parts.append(json_member("include", b'["reasoning.encrypted_content"]'))
        settings = self.settings_of(request.settings)
        wanted = {"effort": settings.reasoning_effort, "summary": self.provider.reasoning_summary}
        if reasoning := {name: value for name, value in wanted.items() if value is not None}:
            parts.append(json_member("reasoning", encode(reasoning)))
        parts += self.option_members()
        if settings.temperature is not None:
            parts.append(json_member("temperature", encode(settings.temperature)))
        if settings.max_output_tokens is not None:
            parts.append(json_member("max_output_tokens", encode(settings.max_output_tokens)))
        if request.instructions:
            parts.append(json_member("instructions", encode_item(request.instructions)))
        if request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"format":{"type":"json_schema","name":%b,"strict":true,"schema":%b}}'
            parts.append(json_member("text", form % (encode(request.output_name), request.output_schema.encode())))
        return [*parts, b',"input":[', *self.dialect.joiner.join(request.chunks), b"]}"]

    def reader(self) -> ResponsesDecoder:
        """A new decoder for one answer."""
        return ResponsesDecoder(self.place, self.dialect.name, self.limits, keeps_ids=self.is_azure)


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
            # Explicit, because the default is strict, which refuses schemas with optional arguments.
            return {**named, "strict": False, "parameters": msgspec.Raw(tool.schema.encode())}
        case "custom" if tool.grammar:
            return {**named, "format": {"type": "grammar", "syntax": "lark", "definition": tool.grammar}}
        case "custom":
            return {**named, "format": {"type": "text"}}
        case "hosted":
            return {"type": tool.name}
