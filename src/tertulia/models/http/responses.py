"""The wire for the OpenAI Responses API, as OpenAI and others serve it: its dialect and its decoder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from tertulia.models import wire as w
from tertulia.models.http.encoding import (
    HttpDialect,
    SeamJoiner,
    argument_text,
    arguments_of,
    encode,
    encode_item,
    json_member,
    legal_call_id,
    summary_text,
)
from tertulia.models.http.http_wire import HttpWire
from tertulia.models.http.provider_error import ProviderAddress, reported_failure, stream_cut
from tertulia.models.http.stream_decoder import (
    EMPTY_RAW,
    AnswerLimits,
    Draft,
    TypedEventDecoder,
    object_fields,
    parse,
    read_loosely,
    usage_of_parts,
)
from tertulia.protocol import items as i
from tertulia.protocol.ids import CallId
from tertulia.protocol.tool_spec import LOCAL_SHELL, ToolSpec

_INCOMPLETE: dict[str, w.StopReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_LEGAL_ID = re.compile(r".{1,64}", re.DOTALL)
_CANNOT_REASON = ("gpt-3", "gpt-4", "chatgpt")
"""Models that refuse requests for their encrypted reasoning."""
_history = SeamJoiner()


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str = ""
    item: msgspec.Raw = EMPTY_RAW
    response: msgspec.Raw = EMPTY_RAW


class _ContentPart(msgspec.Struct, gc=False):
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    arguments: str = ""
    input: str = ""
    content: list[_ContentPart] | None = None
    summary: list[_ContentPart] | None = None
    encrypted_content: str | None = None
    action: msgspec.Raw = EMPTY_RAW


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    usage: msgspec.Raw = EMPTY_RAW
    incomplete_details: _Incomplete | None = None


_item = msgspec.json.Decoder(_Item)
_response = msgspec.json.Decoder(_Response)


class ResponsesDecoder(TypedEventDecoder):
    """Collects deltas as drafts, replaces them by the complete items, and reads the usage from the last event."""

    __slots__ = ("_arguments", "_stop", "_texts", "_thoughts", "_usage")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        super().__init__(place, dialect, limits)
        # By their place in the output and not by the provider's ids: some gateways change these on the way.
        self._texts: dict[int, Draft] = {}
        self._thoughts: dict[int, Draft] = {}
        self._arguments: dict[int, int] = {}
        """Characters of the unfinished calls; their complete text is repeated at their end."""
        self._usage: i.Usage = i.NO_USAGE
        self._stop: w.StopReason = "stop"

    def end(self) -> Iterable[w.AnswerPiece]:
        if not self.whole:
            raise stream_cut(self._place, "the stream ended before the answer did")
        # A server may end an answer without ending its items: they count all the same.
        for draft in self._thoughts.values():
            yield w.AnswerItem(i.Reasoning(draft.item_id, draft.text, self._dialect))
        for draft in self._texts.values():
            yield w.AnswerItem(i.AssistantMessage(draft.item_id, i.text_parts(draft.text)))
        yield w.AnswerEnd(self._usage, self._stop)

    def _on_text(self, event: _Event) -> Iterable[w.AnswerPiece]:
        return self._grown(self._texts, w.TextDelta, event)

    def _on_refusal(self, event: _Event) -> Iterable[w.AnswerPiece]:
        self._stop = "refusal"
        return self._on_text(event)

    def _on_thought(self, event: _Event) -> Iterable[w.AnswerPiece]:
        return self._grown(self._thoughts, w.ReasoningDelta, event)

    def _grown(
        self, drafts: dict[int, Draft], delta: type[w.TextDelta | w.ReasoningDelta], event: _Event
    ) -> Iterable[w.AnswerPiece]:
        if not event.delta:
            return ()
        draft = drafts.get(event.output_index)
        if draft is None:
            draft = drafts[event.output_index] = Draft(self._room)
        draft.add(event.delta)
        return (delta(draft.item_id, event.delta),)

    def _on_next_thought(self, event: _Event) -> Iterable[w.AnswerPiece]:
        """A summary comes in parts; between two of them stands an empty line."""
        if event.output_index not in self._thoughts:
            return ()
        return self._on_thought(msgspec.structs.replace(event, delta="\n\n"))

    def _on_argument(self, event: _Event) -> Iterable[w.AnswerPiece]:
        size = self._arguments.get(event.output_index, 0) + self._room.announce(event.delta)
        self._arguments[event.output_index] = size
        self._room.check_argument(size)
        return ()

    def _on_began(self, event: _Event) -> Iterable[w.AnswerPiece]:
        item = parse(_item, event.item, self._place)
        return (w.ProviderSearch(self._search(item)),) if item.type == "web_search_call" else ()

    def _on_ended(self, event: _Event) -> Iterable[w.AnswerPiece]:
        item = parse(_item, event.item, self._place)
        match item.type:
            case "message":
                draft = self._texts.pop(event.output_index, None) or self._drafted(item.content)
                if text := draft.text:
                    yield w.AnswerItem(i.AssistantMessage(draft.item_id, i.text_parts(text)))
            case "reasoning":
                draft = self._thoughts.pop(event.output_index, None) or self._drafted(item.summary or item.content)
                sealed = self._room.take(item.encrypted_content or "") or None
                if (text := draft.text) or sealed:
                    yield w.AnswerItem(i.Reasoning(draft.item_id, text, self._dialect, sealed))
            case "function_call":
                yield self._called(item, item.arguments or "{}", "function")
            case "custom_tool_call":
                yield self._called(item, item.input, "custom")
            case "web_search_call":
                query = object_fields(read_loosely(item.action)).get("query")
                yield w.ProviderSearch(self._search(item), self._room.take(query if isinstance(query, str) else ""))
            case "local_shell_call":
                action = bytes(item.action).decode() or "{}"
                yield self._called(msgspec.structs.replace(item, name=LOCAL_SHELL), action, "function")
            case _:
                pass

    def _on_finished(self, event: _Event) -> Iterable[w.AnswerPiece]:
        self.whole = True
        response = parse(_response, event.response, self._place)
        self._usage = usage_of_parts(read_loosely(response.usage), "input_tokens", "output_tokens")
        if event.type == "response.incomplete":
            reason = response.incomplete_details and response.incomplete_details.reason
            self._stop = _INCOMPLETE.get(reason or "", "other")
        return ()

    def _on_failed(self, event: _Event) -> Iterable[w.AnswerPiece]:
        raise reported_failure(self._place, bytes(event.response))

    def _called(self, item: _Item, arguments: str, kind: Literal["function", "custom"]) -> w.AnswerItem:
        self._stop = "tool_calls"
        self._room.check_argument(len(arguments))
        item_id = self._room.item()
        call_id = CallId(item.call_id or f"call_{item_id}")
        self._room.take(call_id + item.name + arguments)
        return w.AnswerItem(i.ToolCall(item_id, call_id, item.name, arguments, kind))

    def _search(self, item: _Item) -> CallId:
        return CallId(self._room.take(item.id or ""))

    def _drafted(self, parts: list[_ContentPart] | None) -> Draft:
        draft = Draft(self._room)
        for part in parts or ():
            if part.refusal:
                self._stop = "refusal"
            draft.add(part.text or part.refusal or "")
        return draft

    _event = msgspec.json.Decoder(_Event)
    _acts: ClassVar[Mapping[str, Callable[..., Iterable[w.AnswerPiece]]]] = {
        "response.output_text.delta": _on_text,
        "response.refusal.delta": _on_refusal,
        "response.reasoning_summary_text.delta": _on_thought,
        "response.reasoning_text.delta": _on_thought,
        "response.reasoning_summary_part.added": _on_next_thought,
        "response.function_call_arguments.delta": _on_argument,
        "response.custom_tool_call_input.delta": _on_argument,
        "response.output_item.added": _on_began,
        "response.output_item.done": _on_ended,
        "response.completed": _on_finished,
        "response.incomplete": _on_finished,
        "response.failed": _on_failed,
    }


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
        # Without the provider's id: given one, a provider that stores nothing looks for a stored item.
        summary = [{"type": "summary_text", "text": item.text}] if item.text else []
        return {"type": "reasoning", "summary": summary, "encrypted_content": item.opaque}


class ResponsesWire(HttpWire):
    """One model over the Responses API. Each request has the whole history; nothing stored at the provider is used."""

    path = "/responses"
    dialect_type = ResponsesDialect

    def body_of(self, request: w.ModelRequest) -> list[bytes]:
        """The request.

        It asks for encrypted reasoning, which can be sent again although the provider stores nothing.
        """
        parts = [b'{"stream":true,"model":', encode(self.model), json_member("store", encode(request.store))]
        parts.append(json_member("prompt_cache_key", encode(request.cache_key)))
        if not self.model.startswith(_CANNOT_REASON):
            parts.append(json_member("include", b'["reasoning.encrypted_content"]'))
        settings = self.settings_of(request.settings)
        if settings.reasoning_effort is not None:
            parts.append(json_member("reasoning", encode({"effort": settings.reasoning_effort})))
        if settings.temperature is not None:
            parts.append(json_member("temperature", encode(settings.temperature)))
        if settings.max_output_tokens is not None:
            parts.append(json_member("max_output_tokens", encode(settings.max_output_tokens)))
        if request.instructions:
            parts.append(json_member("instructions", encode_item(request.instructions)))
        if request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"format":{"type":"json_schema","name":"answer","strict":true,"schema":%b}}'
            parts.append(json_member("text", form % request.output_schema.encode()))
        return [*parts, b',"input":[', *_history.join(request.chunks), b"]}"]

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
            # Explicit, because the default is strict, which refuses schemas with optional arguments.
            return {**named, "strict": False, "parameters": msgspec.Raw(tool.schema.encode())}
        case "custom" if tool.grammar:
            return {**named, "format": {"type": "grammar", "syntax": "lark", "definition": tool.grammar}}
        case "custom":
            return {**named, "format": {"type": "text"}}
        case "hosted":
            return {"type": tool.name}
