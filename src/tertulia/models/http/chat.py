"""The wire for Chat Completions: OpenAI, and all the servers that speak like it. Its dialect and its decoder.

Reasoning that such a server shows is kept and not sent back: the API has no word for it. Servers differ in what they
stream; the decoder accepts every form that is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from tertulia.models import wire as w
from tertulia.models.http.encoding import (
    HttpDialect,
    MessageSeam,
    SeamJoiner,
    argument_text,
    encode,
    encode_bare,
    encode_item,
    json_member,
    schema_of,
    summary_text,
    tool_description,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.provider_error import ProviderAddress, reported_failure, stream_cut
from tertulia.models.http.stream_decoder import (
    EMPTY_RAW,
    AnswerBudget,
    AnswerLimits,
    ArgumentDraft,
    Draft,
    StreamDecoder,
    parse,
    read_loosely,
    usage_of_parts,
)
from tertulia.protocol import items as i
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_spec import ToolSpec

_STOPS: dict[str, w.StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}
_OPENAI_HOSTS = (".openai.com", ".openai.azure.com")
_NO_IMAGE = "(a picture that this API does not take from a tool)"
# The API wants what the model said and all its calls in one message, many servers want users and model to take turns,
# and encoding is free of context. So each item is a message of its own, written with spaces where JSON of ours has none
# elsewhere, and messages that belong together are joined at these spaces when a request is put together.
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
# A message holds one text and one list of calls; joined messages may have more: a text after calls, or between them.
# That is rare, so the texts are gathered only then.
_TEXT_AFTER_CALLS = _SEAMS[-1].inside
_history = SeamJoiner(*_SEAMS)
_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_MEMBER = rb'"content":"(%b)"|"tool_calls":\[((?:[^"\]]++|"%b")*+)\]' % (_STRING, _STRING)
_MEMBERS = re.compile(_MEMBER)
_ANSWER = re.compile(rb'\{ "role":"assistant"(?:,(?:%b))++ \}' % _MEMBER)


class _FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = EMPTY_RAW
    error: msgspec.Raw = EMPTY_RAW


_chunk = msgspec.json.Decoder(_Chunk)


class _Call:
    """A tool call that is not complete yet."""

    __slots__ = ("arguments", "call_id", "name")

    def __init__(self, room: AnswerBudget) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments = ArgumentDraft(room)


class ChatDecoder(StreamDecoder):
    """One text, one reasoning and any number of calls grow side by side, and become items at the end."""

    __slots__ = ("_by_index", "_calls", "_stop", "_text", "_thought", "_usage")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        super().__init__(place, dialect, limits)
        self._text: Draft | None = None
        self._thought: Draft | None = None
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._usage: i.Usage = i.NO_USAGE
        self._stop: w.StopReason | None = None

    def take(self, data: bytes | bytearray) -> Iterable[w.AnswerPiece]:
        if data == b"[DONE]":
            self.whole = True
            return ()
        chunk = parse(_chunk, data, self._place)
        if chunk.error is not EMPTY_RAW and read_loosely(chunk.error) is not None:
            raise reported_failure(self._place, data)
        if chunk.usage is not EMPTY_RAW and (counts := read_loosely(chunk.usage)) is not None:
            self._usage = usage_of_parts(counts, "prompt_tokens", "completion_tokens")
        return self._choose(chunk.choices[0]) if chunk.choices else ()

    def end(self) -> Iterable[w.AnswerPiece]:
        # Some servers close the stream after the reason why they stopped, others give no reason.
        if not self.whole and self._stop is None:
            raise stream_cut(self._place, "the stream ended before the answer did")
        if self._thought is not None:
            yield w.AnswerItem(i.Reasoning(self._thought.item_id, self._thought.text, self._dialect))
        if self._text is not None:
            yield w.AnswerItem(i.AssistantMessage(self._text.item_id, i.text_parts(self._text.text)))
        for call in self._calls:
            item_id = call.arguments.item_id
            call_id = CallId(call.call_id or f"call_{item_id}")
            yield w.AnswerItem(i.ToolCall(item_id, call_id, call.name, call.arguments.text or "{}"))
        yield w.AnswerEnd(self._usage, "tool_calls" if self._calls else self._stop or "stop")

    def _choose(self, choice: _Choice) -> Iterable[w.AnswerPiece]:
        if choice.finish_reason is not None and self._stop != "refusal":
            self._stop = _STOPS.get(choice.finish_reason, "other")
        delta = choice.delta
        if delta is None:
            return ()
        # A list and no generator: this is done for every word of an answer.
        pieces: list[w.AnswerPiece] = []
        if thought := delta.reasoning_content or delta.reasoning:
            self._thought = self._thought or Draft(self._room)
            self._thought.add(thought)
            pieces.append(w.ReasoningDelta(self._thought.item_id, thought))
        if delta.refusal:
            self._stop = "refusal"
        if text := delta.content or delta.refusal:
            self._text = self._text or Draft(self._room)
            self._text.add(text)
            pieces.append(w.TextDelta(self._text.item_id, text))
        for call in delta.tool_calls or ():
            self._call(call)
        return pieces

    def _call(self, delta: _CallDelta) -> None:
        call = self._meant(delta)
        call.call_id = call.call_id or self._room.take(delta.id or "")
        if delta.function is not None:
            call.name = call.name or self._room.take(delta.function.name or "")
            call.arguments.add(delta.function.arguments or "")

    def _meant(self, delta: _CallDelta) -> _Call:
        """The call that a piece belongs to: the last of its index, or the last of all where a server sends no index."""
        call = self._calls[-1] if self._calls and delta.index is None else self._by_index.get(delta.index)
        # Another id is another call, because some servers give every call the same index.
        if call is None or (delta.id and call.call_id and delta.id != call.call_id):
            call = self._by_index[delta.index] = _Call(self._room)
            self._calls.append(call)
        return call


class ChatDialect(HttpDialect):
    """Each item as a message; neighbouring messages are joined when a request is put together."""

    __slots__ = ()
    api = "chat"

    def encode_items(self, items: Sequence[i.Item]) -> bytes:
        """Each as one JSON value, reasoning left out."""
        return b",".join(spelled for item in items if (spelled := _spell(item)))

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """All as functions; what the provider would have to host is left out."""
        return encode([_spell_tool(tool) for tool in tools if tool.kind != "hosted"])


class ChatWire(HttpWire):
    """One model over Chat Completions."""

    path = "/chat/completions"
    dialect_type = ChatDialect

    def body_of(self, request: w.ModelRequest) -> list[bytes]:
        """The request. Fields that only OpenAI has are sent only to OpenAI: other servers may refuse them."""
        parts = [b'{"stream":true,"stream_options":{"include_usage":true},"model":', encode(self.model)]
        is_openai = self.provider_name == "openai" or f".{self.place.host}".endswith(_OPENAI_HOSTS)
        if is_openai:
            parts += [
                json_member("store", encode(request.store)),
                json_member("prompt_cache_key", encode(request.cache_key)),
            ]
        settings = self.settings_of(request.settings)
        if settings.reasoning_effort is not None:
            parts.append(json_member("reasoning_effort", encode(settings.reasoning_effort)))
        if settings.temperature is not None:
            parts.append(json_member("temperature", encode(settings.temperature)))
        if settings.max_output_tokens is not None:
            most = "max_completion_tokens" if is_openai else "max_tokens"
            parts.append(json_member(most, encode(settings.max_output_tokens)))
        if request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":%b}}'
            parts.append(json_member("response_format", form % request.output_schema.encode()))
        messages = _in_order(_history.join(request.chunks), request.chunks)
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
    return b'%b%b","tool_calls":[%b%b' % (_TEXT, texts, calls, _CALLS_END)


def _spell(item: i.Item) -> bytes:
    match item:
        case i.UserMessage():
            return _spell_user(item.parts)
        case i.Summary():
            return encode_bare(_USER, summary_text(item), _USER_END)
        case i.AssistantMessage():
            return encode_bare(_TEXT, item.text, _TEXT_END) if item.text else b""
        case i.ToolCall():
            function = {"name": item.name, "arguments": argument_text(item)}
            return _CALLS + encode_item({"id": item.call_id, "type": "function", "function": function}) + _CALLS_END
        case i.ToolOutput():
            text = "\n".join(part.text if isinstance(part, i.TextPart) else _NO_IMAGE for part in item.parts)
            return encode_item({"role": "tool", "tool_call_id": item.call_id, "content": text})
        case i.Reasoning():
            return b""


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
