"""Chat Completions: OpenAI, and all the servers that speak like it.

Reasoning that such a server shows is kept and not sent back: the API has no word for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tertulia.models.http.chat_decoder import ChatDecoder
from tertulia.models.http.encoding import (
    MessageSeam,
    argument_text,
    encode,
    join_at_seams,
    json_member,
    schema_of,
    summary_text,
    tool_description,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.wire import ModelRequest
from tertulia.protocol import items as i
from tertulia.protocol.tool_spec import ToolSpec

_OPENAI_HOSTS = (".openai.com", ".openai.azure.com")
_NO_IMAGE = "(a picture that this API does not take from a tool)"

# The API wants what the model said and all its calls in one message, many servers want users and model to take turns,
# and encoding is free of context. So each item is a message of its own, written with spaces where JSON of ours has none
# elsewhere, and messages that belong together are glued where they meet when a request is put together.
_USER, _USER_END = b'{ "role":"user","content":"', b'"  }'
_TEXT, _TEXT_END = b'{ "role":"assistant","content":"', b'" }'
_CALLS, _CALLS_END = b'{ "role":"assistant","tool_calls":[', b"] }"
_SEAMS = (
    MessageSeam(_USER_END, _USER, rb"\n\n"),
    MessageSeam(_CALLS_END, _CALLS, b","),
    MessageSeam(_TEXT_END, _CALLS, b'","tool_calls":['),
    MessageSeam(_TEXT_END, _TEXT, rb"\n\n"),
    MessageSeam(_CALLS_END, _TEXT, b'],"content":"'),
)

# A message has room for one text and one row of calls, and what is glued may have more: a text before and after its
# calls, or between them. Rare, so only then are they gathered.
_TEXT_AFTER_CALLS = _SEAMS[-1].inside
_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_MEMBER = rb'"content":"(%b)"|"tool_calls":\[((?:[^"\]]++|"%b")*+)\]' % (_STRING, _STRING)
_MEMBERS = re.compile(_MEMBER)
_ANSWER = re.compile(rb'\{ "role":"assistant"(?:,(?:%b))++ \}' % _MEMBER)


class ChatDialect:
    """Items as messages, one each; what becomes of neighbours is decided when a request is put together."""

    __slots__ = ("name",)

    def __init__(self, provider_name: str) -> None:
        self.name = f"chat/{provider_name}"

    def encode_items(self, items: Sequence[i.Item]) -> bytes:
        """Each as one JSON value, reasoning left out."""
        return b",".join(spelled for item in items if (spelled := _spell(item)))

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """All as functions; what the provider would have to host is left out."""
        return encode([_spell_tool(tool) for tool in tools if tool.kind != "hosted"])


class ChatWire(HttpWire):
    """One model over Chat Completions."""

    path = "/chat/completions"

    @property
    def dialect(self) -> ChatDialect:
        """How this API spells items."""
        return ChatDialect(self.provider_name)

    def body_of(self, request: ModelRequest) -> list[bytes]:
        """The request. What only OpenAI knows is said only to OpenAI: others may refuse it."""
        parts = [b'{"stream":true,"stream_options":{"include_usage":true},"model":', encode(self.model)]
        if self.provider_name == "openai" or f".{self.place.host}".endswith(_OPENAI_HOSTS):
            parts += [
                json_member("store", encode(request.store)),
                json_member("prompt_cache_key", encode(request.cache_key)),
            ]
        if request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":%b}}'
            parts.append(json_member("response_format", form % request.output_schema.encode()))
        messages = _in_order(join_at_seams(request.chunks, _SEAMS))
        if request.instructions:
            system = encode({"role": "system", "content": request.instructions})
            messages = [system, b",", *messages] if messages else [system]
        return [*parts, b',"messages":[', *messages, b"]}"]

    def reader(self) -> ChatDecoder:
        """A new decoder for one answer."""
        return ChatDecoder(self.place, self.dialect.name, self.limits)


def _in_order(messages: list[bytes]) -> list[bytes]:
    """The same, where an answer has a text after calls with all its texts first and then all its calls."""
    if not any(_TEXT_AFTER_CALLS in part for part in messages):
        return messages
    return [_ANSWER.sub(_one_of_each, b"".join(messages))]


def _one_of_each(answer: re.Match[bytes]) -> bytes:
    if _TEXT_AFTER_CALLS not in answer[0]:
        return answer[0]
    members = _MEMBERS.findall(answer[0])
    texts = rb"\n\n".join(text for text, _ in members if text)
    calls = b",".join(row for _, row in members if row)
    return b'%b%b","tool_calls":[%b%b' % (_TEXT, texts, calls, _CALLS_END)


def _spell(item: i.Item) -> bytes:
    match item:
        case i.UserMessage():
            return _spell_user(item.parts)
        case i.Summary():
            return _USER + encode(summary_text(item))[1:-1] + _USER_END
        case i.AssistantMessage():
            return _TEXT + encode(item.text)[1:-1] + _TEXT_END if item.text else b""
        case i.ToolCall():
            function = {"name": item.name, "arguments": argument_text(item)}
            return _CALLS + encode({"id": item.call_id, "type": "function", "function": function}) + _CALLS_END
        case i.ToolOutput():
            text = "\n".join(part.text if isinstance(part, i.TextPart) else _NO_IMAGE for part in item.parts)
            return encode({"role": "tool", "tool_call_id": item.call_id, "content": text})
        case i.Reasoning():
            return b""


def _spell_user(parts: tuple[i.Part, ...]) -> bytes:
    """Text as one string, which every server takes; a list of parts only where there are pictures."""
    if any(isinstance(part, i.ImagePart) for part in parts):
        return encode({"role": "user", "content": [_spell_part(part) for part in parts]})
    text = "\n\n".join(part.text for part in parts if isinstance(part, i.TextPart))
    return _USER + encode(text)[1:-1] + _USER_END


def _spell_part(part: i.Part) -> dict[str, object]:
    match part:
        case i.TextPart(text):
            return {"type": "text", "text": text}
        case i.ImagePart(image_url):
            return {"type": "image_url", "image_url": {"url": image_url}}


def _spell_tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool_description(tool), "parameters": schema_of(tool)}
    return {"type": "function", "function": function}
