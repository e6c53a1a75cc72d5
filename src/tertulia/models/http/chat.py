"""The wire for Chat Completions: OpenAI, and all the servers that speak like it; and its dialect.

The API has no word for reasoning. Servers that show it have words of their own, and want it back in the same, or refuse
it; so it goes back as it came, to the model that wrote it, unless the server is known to refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tertulia.models import wire as w
from tertulia.models.http.chat_decoder import ChatDecoder
from tertulia.models.http.encoding import (
    HttpDialect,
    MessageSeam,
    SeamJoiner,
    argument_text,
    encode,
    encode_bare,
    encode_item,
    json_member,
    json_members,
    schema_of,
    summary_text,
    tool_description,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.provider_error import ProviderAddress
from tertulia.protocol import items as i
from tertulia.protocol.tool_spec import ToolSpec

_OPENAI_HOSTS = (".openai.com", ".openai.azure.com")
_WANT_REASONING = (".deepseek.com", ".moonshot.ai", ".moonshot.cn")
"""Hosts that refuse a message of the model without its reasoning, even if it had none or another model wrote it."""
_REFUSE_REASONING = (".groq.com",)
"""Hosts that show reasoning, and refuse to have it back."""
_TEXT_MEMBERS = ("reasoning_content", "reasoning")
"""What a text of reasoning is called."""
_NO_IMAGE = "(a picture that this API does not take from a tool)"
# The API wants what the model said and all its calls in one message, many servers want users and model to take turns,
# and encoding is free of context. So each item is a message of its own, written with spaces where JSON of ours has none
# elsewhere, and messages that belong together are joined at these spaces when a request is put together.
_USER, _USER_END = b'{ "role":"user","content":"', b'"  }'
_MODEL = b'{ "role":"assistant",'
_TEXT, _TEXT_END = b'"content":"', b'" }'
_CALLS, _CALLS_END = b'"content":null,"tool_calls":[', b"] }"
_THOUGHT_END = b'"content":"" }'
"""What follows the reasoning. No text is empty, so this is the end of nothing else."""
# A message holds one text and one list of calls; joined messages may have more: a text after calls, or between them.
# That is rare, so the texts are gathered only then.
_TEXT_AFTER_CALLS = b'], "content":"'
_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_FLAT = rb'[^"\[\]]++|"%b"' % _STRING
_MEMBER = rb' ?"content":(?:null|"(%b)")|"tool_calls":\[((?:%b|\[(?:%b)*+\])*+)\]' % (_STRING, _FLAT, _FLAT)
_MEMBERS = re.compile(_MEMBER)
_ANSWER = re.compile(rb"(?:,(?:%b))++ \}" % _MEMBER)


class _Spelling:
    """How messages of the model begin, and where they meet."""

    __slots__ = ("calls", "joiner", "sends_reasoning", "text")

    def __init__(self, before: bytes = b"", *, sends_reasoning: bool = True) -> None:
        """`before`: members of every message that has no reasoning of its own."""
        self.text, self.calls = _MODEL + before + _TEXT, _MODEL + before + _CALLS
        self.sends_reasoning = sends_reasoning
        self.joiner = SeamJoiner(
            MessageSeam(_USER_END, _USER, rb"\n\n"),
            MessageSeam(_THOUGHT_END, self.text, _TEXT),
            MessageSeam(_THOUGHT_END, self.calls, _CALLS),
            MessageSeam(_CALLS_END, self.calls, b","),
            MessageSeam(_TEXT_END, self.calls, b'","tool_calls":['),
            MessageSeam(_TEXT_END, self.text, rb"\n\n"),
            MessageSeam(_CALLS_END, self.text, _TEXT_AFTER_CALLS),
        )


_usual = _Spelling()
_silent = _Spelling(sends_reasoning=False)
_wanting = _Spelling(b'"reasoning_content":"",')


class ChatDialect(HttpDialect):
    """Each item as a message; neighbouring messages are joined when a request is put together."""

    __slots__ = ("spelling",)
    api = "chat"

    def __init__(self, place: ProviderAddress, url: str) -> None:
        host = f".{place.host.partition(':')[0]}"
        spelling = _wanting if host.endswith(_WANT_REASONING) else _usual
        self.spelling = _silent if host.endswith(_REFUSE_REASONING) else spelling
        super().__init__(place, url, self.spelling.joiner)

    def encode_items(self, items: Sequence[i.Item]) -> bytes:
        """Each as one JSON value. Reasoning only as this model wrote it, and where it is not refused."""
        return b",".join(spelled for item in items if (spelled := self._spell(item)))

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """All as functions; what the provider would have to host is left out."""
        return encode([_spell_tool(tool) for tool in tools if tool.kind != "hosted"])

    def _spell(self, item: i.Item) -> bytes:
        match item:
            case i.UserMessage():
                return _spell_user(item.parts)
            case i.Summary():
                return encode_bare(_USER, summary_text(item), _USER_END)
            case i.AssistantMessage():
                return encode_bare(self.spelling.text, item.text, _TEXT_END) if item.text else b""
            case i.ToolCall():
                return self.spelling.calls + self._spell_call(item) + _CALLS_END
            case i.ToolOutput():
                text = "\n".join(part.text if isinstance(part, i.TextPart) else _NO_IMAGE for part in item.parts)
                return encode_item({"role": "tool", "tool_call_id": item.call_id, "content": text})
            case i.Reasoning():
                return self._spell_reasoning(item)

    def _spell_call(self, call: i.ToolCall) -> bytes:
        function = {"name": call.name, "arguments": argument_text(call)}
        spelled = encode_item({"id": call.call_id, "type": "function", "function": function})
        extra = json_members(self.own_form(call))
        return b"%b,%b}" % (spelled[:-1], extra) if extra else spelled

    def _spell_reasoning(self, item: i.Reasoning) -> bytes:
        form = self.own_form(item) if self.spelling.sends_reasoning else None
        if form in _TEXT_MEMBERS:
            return encode_bare(_MODEL + b'"%b":"' % form.encode(), item.text, b'",' + _THOUGHT_END)
        details = json_members(form)
        return b"%b%b,%b" % (_MODEL, details, _THOUGHT_END) if details else b""


class ChatWire(HttpWire):
    """One model over Chat Completions."""

    path = "/chat/completions"
    dialect_type = ChatDialect

    def body_of(self, request: w.ModelRequest) -> list[bytes]:
        """The request. Fields that only OpenAI has are sent only to OpenAI: other servers may refuse them."""
        parts = [b'{"stream":true,"stream_options":{"include_usage":true},"model":', encode(self.model)]
        is_openai = self.provider_name == "openai" or f".{self.place.host}".endswith(_OPENAI_HOSTS)
        if is_openai:
            parts.append(json_member("store", encode(request.store)))
        if self.sends_cache_key:
            parts.append(json_member("prompt_cache_key", encode(request.cache_key)))
        settings = self.settings_of(request.settings)
        if settings.reasoning_effort is not None:
            parts.append(json_member("reasoning_effort", encode(settings.reasoning_effort)))
        parts += self.option_members()
        if settings.temperature is not None:
            parts.append(json_member("temperature", encode(settings.temperature)))
        if settings.max_output_tokens is not None:
            most = "max_completion_tokens" if is_openai else "max_tokens"
            parts.append(json_member(most, encode(settings.max_output_tokens)))
        if request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"type":"json_schema","json_schema":{"name":%b,"strict":true,"schema":%b}}'
            named = form % (encode(request.output_name), request.output_schema.encode())
            parts.append(json_member("response_format", named))
        messages = _in_order(self.dialect.joiner.join(request.chunks), request.chunks)
        if request.instructions:
            system = encode_item({"role": "system", "content": request.instructions})
            messages = [system, b",", *messages] if messages else [system]
        return [*parts, b',"messages":[', *messages, b"]}"]

    def reader(self) -> ChatDecoder:
        """A new decoder for one answer."""
        return ChatDecoder(self.place, self.dialect.name, self.limits)


def _in_order(messages: list[bytes], chunks: Sequence[bytes]) -> list[bytes]:
    """The history with every answer that has a text after calls reordered: all its texts, then all its calls.

    `chunks`: what the parts were joined from. A part that equals its chunk has no joined messages.
    """
    same = set(map(id, chunks))
    if not any(id(part) not in same and _TEXT_AFTER_CALLS in part for part in messages):
        return messages
    return [_ANSWER.sub(_one_of_each, b"".join(messages))]


def _one_of_each(answer: re.Match[bytes]) -> bytes:
    if _TEXT_AFTER_CALLS not in answer[0]:
        return answer[0]
    members = _MEMBERS.findall(answer[0])
    texts = rb"\n\n".join(text for text, _ in members if text)
    calls = b",".join(row for _, row in members if row)
    return b',%b%b","tool_calls":[%b%b' % (_TEXT, texts, calls, _CALLS_END)


def _spell_user(parts: tuple[i.Part, ...]) -> bytes:
    """Text as one string, which every server takes; a list of parts only where there are pictures."""
    if any(isinstance(part, i.ImagePart) for part in parts):
        return encode_item({"role": "user", "content": [_spell_part(part) for part in parts]})
    text = "\n\n".join(part.text for part in parts if isinstance(part, i.TextPart))
    return encode_bare(_USER, text, _USER_END)


def _spell_part(part: i.Part) -> dict[str, object]:
    match part:
        case i.TextPart(text):
            return {"type": "text", "text": text}
        case i.ImagePart(image_url):
            return {"type": "image_url", "image_url": {"url": image_url}}


def _spell_tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool_description(tool), "parameters": schema_of(tool)}
    return {"type": "function", "function": function}
