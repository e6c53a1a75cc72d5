"""The wire for the Anthropic Messages API, as Anthropic and others serve it, and its dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tertulia.models import wire as w
from tertulia.models.http.encoding import (
    HttpDialect,
    MessageSeam,
    SeamJoiner,
    arguments_of,
    encode,
    encode_bare,
    encode_item,
    json_member,
    json_objects,
    legal_call_id,
    schema_of,
    summary_text,
    tool_description,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.messages_decoder import BLOCKS, REDACTED, SIGNED, MessagesDecoder
from tertulia.models.http.provider_error import ProviderAddress
from tertulia.protocol import items as i
from tertulia.protocol.tool_spec import ToolSpec

_MAX_OUTPUT = 32_000
"""The default of max_tokens, which every current model accepts; never more than a quarter of the window."""
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PICTURE = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=]+)")
_NO_IMAGE = "(a picture of a kind that this API does not take)"
# The API wants roles to take turns, and all results of an answer's calls in the one message after it, and encoding is
# free of context. So each item is a message of its own, written with spaces where JSON of ours has none elsewhere, one
# for users and two for the model, and neighbouring messages of one role are joined at these spaces when a request is
# put together.
_USER, _USER_END = b'{ "role":"user","content":[', b"] }"
_MODEL, _MODEL_END = b'{ "role":"assistant","content":[', b"]  }"
_history = SeamJoiner(MessageSeam(_USER_END, _USER, b","), MessageSeam(_MODEL_END, _MODEL, b","))
_MARK = b',"cache_control":{"type":"ephemeral"}}]'
"""Replaces the end of the last block: the provider caches the request up to here."""


class MessagesDialect(HttpDialect):
    """Each item as a message; neighbouring messages are joined when a request is put together."""

    __slots__ = ()
    api = "messages"

    def __init__(self, place: ProviderAddress, url: str) -> None:
        super().__init__(place, url, _history)

    def encode_items(self, items: Sequence[i.Item]) -> bytes:
        """Each as one JSON value.

        Blank texts, which the API refuses, and reasoning without a signature are left out.
        """
        return b",".join(spelled for item in items if (spelled := self._spell(item)))

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """Custom tools as functions, and the search that the provider hosts."""
        return encode([_spell_tool(tool) for tool in tools])

    def _spell(self, item: i.Item) -> bytes:
        match item:
            case i.UserMessage():
                return _message(_USER, _content(item.parts), _USER_END)
            case i.Summary():
                return _message(_USER, _content(i.text_parts(summary_text(item))), _USER_END)
            case i.ToolOutput():
                return _message(_USER, [_spell_output(item)], _USER_END)
            case i.AssistantMessage():
                return _message(_MODEL, _content(i.text_parts(item.text)), _MODEL_END)
            case i.ToolCall():
                return _message(_MODEL, [_spell_call(item)], _MODEL_END)
            case i.Reasoning():
                return _message(_MODEL, self._thought(item), _MODEL_END)

    def _thought(self, item: i.Reasoning) -> list[dict[str, object]]:
        sealed = self.own_form(item) or ""
        # A signature is of its text: where that was redacted in a record, it signs nothing.
        if sealed.startswith(SIGNED) and "[redacted:" not in item.text:
            return [{"type": "thinking", "thinking": item.text, "signature": sealed.removeprefix(SIGNED)}]
        if sealed.startswith(REDACTED):
            return [{"type": "redacted_thinking", "data": sealed.removeprefix(REDACTED)}]
        if sealed.startswith(BLOCKS):
            return [*json_objects(sealed.removeprefix(BLOCKS))]
        return []


class MessagesWire(HttpWire):
    """One model over the Messages API."""

    path = "/v1/messages"
    dialect_type = MessagesDialect
    efforts = ("low", "medium", "high", "xhigh", "max")
    max_temperature = 1.0

    def headers_for(self, key: str | None) -> dict[str, str]:
        """The key under the API's own name for it; for other hosts, whose gateways may know only tokens, as one too."""
        # Not the newest version: every gateway knows this one, and Anthropic keeps it unchanged.
        headers = {"anthropic-version": "2023-06-01"}
        if key is not None:
            headers["x-api-key"] = key
            if not f".{self.place.host}".endswith(".anthropic.com"):
                headers["Authorization"] = f"Bearer {key}"
        return headers

    def refusal_of(self, settings: w.ModelSettings) -> str | None:
        """As for every API; and a budget for thinking leaves room for an answer, and excludes a temperature."""
        budget = self.provider.thinking_budget_tokens
        if budget is not None and budget >= (most := self._most_tokens(settings)):
            return f"thinking_budget_tokens: {budget:,} must be less than the {most:,} tokens of an answer"
        if budget is not None and settings.temperature is not None:
            return (
                f"temperature: {self.name} thinks (thinking_budget_tokens) and takes none then; leave one of them out"
            )
        return super().refusal_of(settings)

    def option_members(self) -> list[bytes]:
        """The tier, and the budget for thinking."""
        members, budget = super().option_members(), self.provider.thinking_budget_tokens
        if budget is not None:
            members.append(json_member("thinking", encode({"type": "enabled", "budget_tokens": budget})))
        return members

    def _most_tokens(self, settings: w.ModelSettings) -> int:
        return settings.max_output_tokens or min(_MAX_OUTPUT, self.context_window // 4)

    def body_of(self, request: w.ModelRequest) -> list[bytes]:
        """The request. What stays the same from one to the next is marked for the provider's cache."""
        settings = self.settings_of(request.settings)
        most = self._most_tokens(settings)
        parts = [b'{"stream":true,"model":', encode(self.model), json_member("max_tokens", encode(most))]
        parts += self.option_members()
        if settings.temperature is not None:
            parts.append(json_member("temperature", encode(settings.temperature)))
        tools = request.tools_json
        if request.instructions:
            system = b'[{"type":"text","text":%b}]' % encode_item(request.instructions)
            parts.append(json_member("system", _marked(system)))
        elif tools != b"[]":
            tools = _marked(tools)
        if tools != b"[]":
            parts.append(json_member("tools", tools))
        output: dict[str, object] = {}
        if settings.reasoning_effort is not None:
            output["effort"] = settings.reasoning_effort
        if request.output_schema is not None:
            output["format"] = {"type": "json_schema", "schema": msgspec.Raw(request.output_schema.encode())}
        if output:
            parts.append(json_member("output_config", encode(output)))
        messages = self.dialect.joiner.join(request.chunks)
        if messages and messages[-1].endswith(_USER_END):
            messages[-1] = _marked(messages[-1].removesuffix(b" }"))
            messages.append(b" }")
        return [*parts, b',"messages":[', *messages, b"]}"]

    def reader(self) -> MessagesDecoder:
        """A new decoder for one answer."""
        return MessagesDecoder(self.place, self.dialect.name, self.limits)


def _marked(blocks: bytes) -> bytes:
    return blocks.removesuffix(b"}]") + _MARK


def _message(begin: bytes, blocks: Sequence[dict[str, object]], end: bytes) -> bytes:
    return encode_bare(begin, blocks, end) if blocks else b""


def _content(parts: tuple[i.Part, ...]) -> list[dict[str, object]]:
    return [_spell_part(part) for part in parts if not isinstance(part, i.TextPart) or part.text.strip()]


def _spell_part(part: i.Part) -> dict[str, object]:
    if isinstance(part, i.TextPart):
        return {"type": "text", "text": part.text}
    if part.image_url.startswith("https://"):
        return {"type": "image", "source": {"type": "url", "url": part.image_url}}
    if picture := _PICTURE.fullmatch(part.image_url):
        return {"type": "image", "source": {"type": "base64", "media_type": picture[1], "data": picture[2]}}
    return {"type": "text", "text": _NO_IMAGE}


def _spell_call(call: i.ToolCall) -> dict[str, object]:
    # Decoded and not passed through: what a model wrote must not look like the seam between two messages.
    decoded = arguments_of(call)
    arguments = {"input": call.arguments} if decoded is None else decoded
    return {"type": "tool_use", "id": legal_call_id(call.call_id, _LEGAL_ID), "name": call.name, "input": arguments}


def _spell_output(output: i.ToolOutput) -> dict[str, object]:
    spelled: dict[str, object] = {"type": "tool_result", "tool_use_id": legal_call_id(output.call_id, _LEGAL_ID)}
    if content := _content(output.parts):
        spelled["content"] = content
    if not output.success:
        spelled["is_error"] = True
    return spelled


def _spell_tool(tool: ToolSpec) -> dict[str, object]:
    if tool.kind == "hosted":
        return {"type": "web_search_20250305", "name": tool.name}
    if tool.provider_type is not None:
        return {"type": tool.provider_type, "name": tool.name}
    return {"name": tool.name, "description": tool_description(tool), "input_schema": schema_of(tool)}
