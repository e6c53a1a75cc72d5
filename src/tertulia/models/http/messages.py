"""The wire for the Anthropic Messages API, as Anthropic and others serve it: its dialect and its decoder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

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
    legal_call_id,
    schema_of,
    summary_text,
    tool_description,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.provider_error import ProviderAddress, stream_cut
from tertulia.models.http.stream_decoder import (
    EMPTY_RAW,
    AnswerBudget,
    AnswerLimits,
    ArgumentDraft,
    Draft,
    TypedEventDecoder,
    count_at,
    make_usage,
    object_fields,
    read_loosely,
)
from tertulia.protocol import items as i
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_spec import ToolSpec

SIGNED, REDACTED = "signature:", "redacted:"
"""How encrypted reasoning begins, for each of the two block types that hold it."""
_COUNTED = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
)
_STOPS: dict[str, w.StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
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


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str = ""
    input: msgspec.Raw = EMPTY_RAW


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    content_block: _Block | None = None
    delta: _Delta | None = None
    message: msgspec.Raw = EMPTY_RAW
    usage: msgspec.Raw = EMPTY_RAW


class _Open:
    """A content block that is not complete yet."""

    __slots__ = ("block", "draft", "input", "signature")

    def __init__(self, block: _Block, room: AnswerBudget) -> None:
        # Before anything of it is stored: blocks that never close must not fill the memory either.
        self.block = block
        room.take(block.id + block.name + block.data)
        self.input = room.take(bytes(block.input).decode("utf-8", "replace"))
        room.check_argument(len(self.input))
        self.draft = Draft(room) if block.type == "thinking" else ArgumentDraft(room)
        self.signature = Draft(room)
        self.signature.add(block.signature or "")


class MessagesDecoder(TypedEventDecoder):
    """Blocks open, grow and close. Texts that follow one another directly are one text: citations cut them up."""

    __slots__ = ("_counts", "_open", "_stop", "_text")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        super().__init__(place, dialect, limits)
        self._text: Draft | None = None
        self._open: dict[int, _Open] = {}
        self._counts: dict[str, object] = {}
        self._stop: w.StopReason | None = None

    def end(self) -> Iterable[w.AnswerPiece]:
        # Some servers close the stream after the reason why they stopped.
        if not self.whole and self._stop is None:
            raise stream_cut(self._place, "the stream ended before the answer did")
        for index in list(self._open):
            yield from self._close(index)
        yield from self._close_text()
        counts = self._counts
        cached = count_at(counts, "cache_read_input_tokens")
        # This API does not count what was read from or written to the cache as input.
        read = count_at(counts, "input_tokens") + count_at(counts, "cache_creation_input_tokens") + cached
        thought = count_at(counts, "output_tokens_details", "thinking_tokens")
        yield w.AnswerEnd(make_usage(read, cached, count_at(counts, "output_tokens"), thought), self._stop or "stop")

    def _on_start(self, event: _Event) -> Iterable[w.AnswerPiece]:
        self._count(object_fields(read_loosely(event.message)).get("usage"))
        return ()

    def _on_block(self, event: _Event) -> Iterable[w.AnswerPiece]:
        block = event.content_block
        if block is None:
            return
        if block.type == "text":
            yield from self._say(block.text or "")
            return
        yield from self._close_text()
        yield from self._close(event.index)
        opened = self._open[event.index] = _Open(block, self._room)
        if block.type == "server_tool_use":
            yield w.ProviderSearch(CallId(block.id))
        elif block.type == "thinking":
            yield from self._think(opened, block.thinking or "")

    def _on_delta(self, event: _Event) -> Iterable[w.AnswerPiece]:
        delta = event.delta
        if delta is None:
            return ()
        if delta.type == "text_delta":
            return self._say(delta.text)
        opened = self._open.get(event.index)
        if opened is None:
            return ()
        match delta.type:
            case "thinking_delta" if opened.block.type == "thinking":
                return self._think(opened, delta.thinking)
            case "input_json_delta" if opened.block.type != "thinking":
                opened.draft.add(delta.partial_json)
            case "signature_delta":
                opened.signature.add(delta.signature)
            case _:
                pass
        return ()

    def _on_block_stop(self, event: _Event) -> Iterable[w.AnswerPiece]:
        return self._close(event.index)

    def _on_reason(self, event: _Event) -> Iterable[w.AnswerPiece]:
        if event.delta is not None and event.delta.stop_reason is not None:
            self._stop = _STOPS.get(event.delta.stop_reason, "other")
        self._count(read_loosely(event.usage))
        return ()

    def _on_stop(self, event: _Event) -> Iterable[w.AnswerPiece]:
        self.whole = True
        return ()

    def _say(self, text: str) -> Iterable[w.AnswerPiece]:
        if text:
            self._text = self._text or Draft(self._room)
            self._text.add(text)
            yield w.TextDelta(self._text.item_id, text)

    def _think(self, opened: _Open, text: str) -> Iterable[w.AnswerPiece]:
        if text:
            opened.draft.add(text)
            yield w.ReasoningDelta(opened.draft.item_id, text)

    def _close_text(self) -> Iterable[w.AnswerPiece]:
        if self._text is not None:
            yield w.AnswerItem(i.AssistantMessage(self._text.item_id, i.text_parts(self._text.text)))
            self._text = None

    def _close(self, index: int) -> Iterable[w.AnswerPiece]:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        block, item_id, text = opened.block, opened.draft.item_id, opened.draft.text
        match block.type:
            case "thinking":
                signature = opened.signature.text
                yield w.AnswerItem(i.Reasoning(item_id, text, self._dialect, SIGNED + signature if signature else None))
            case "redacted_thinking":
                yield w.AnswerItem(i.Reasoning(item_id, "", self._dialect, REDACTED + block.data))
            case "tool_use":
                arguments = text or opened.input or "{}"
                yield w.AnswerItem(i.ToolCall(item_id, CallId(block.id or f"call_{item_id}"), block.name, arguments))
            case "server_tool_use":
                query = object_fields(read_loosely(msgspec.Raw(text.encode("utf-8", "replace")))).get("query")
                yield w.ProviderSearch(CallId(block.id), query if isinstance(query, str) else "")
            case _:
                pass

    def _count(self, counts: object) -> None:
        """A later event replaces the counts that it mentions; the others stay."""
        fields = object_fields(counts)
        self._counts |= {name: fields[name] for name in _COUNTED if fields.get(name) is not None}

    _event = msgspec.json.Decoder(_Event)
    _acts: ClassVar[Mapping[str, Callable[..., Iterable[w.AnswerPiece]]]] = {
        "content_block_delta": _on_delta,
        "message_start": _on_start,
        "content_block_start": _on_block,
        "content_block_stop": _on_block_stop,
        "message_delta": _on_reason,
        "message_stop": _on_stop,
    }


class MessagesDialect(HttpDialect):
    """Each item as a message; neighbouring messages are joined when a request is put together."""

    __slots__ = ()
    api = "messages"

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
        sealed = item.opaque or ""
        if item.dialect != self.name:
            return []
        if sealed.startswith(SIGNED):
            return [{"type": "thinking", "thinking": item.text, "signature": sealed.removeprefix(SIGNED)}]
        if sealed.startswith(REDACTED):
            return [{"type": "redacted_thinking", "data": sealed.removeprefix(REDACTED)}]
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

    def body_of(self, request: w.ModelRequest) -> list[bytes]:
        """The request. What stays the same from one to the next is marked for the provider's cache."""
        settings = self.settings_of(request.settings)
        most = settings.max_output_tokens or min(_MAX_OUTPUT, self.context_window // 4)
        parts = [b'{"stream":true,"model":', encode(self.model), json_member("max_tokens", encode(most))]
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
        messages = _history.join(request.chunks)
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
    return {"name": tool.name, "description": tool_description(tool), "input_schema": schema_of(tool)}
