"""The OpenAI Responses API, as OpenAI and others serve it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from tertulia.models.http_wire import HttpWire
from tertulia.models.reading import NOTHING, Draft, Room, count, parse, parse_known, read_loosely, usage
from tertulia.models.spelling import encode, fitting, joined, member
from tertulia.models.trouble import Place, cut, reported
from tertulia.models.wire import (
    Finished,
    Piece,
    ReasoningDelta,
    Request,
    Said,
    Searched,
    StopReason,
    TextDelta,
)
from tertulia.protocol.ids import CallId, new_item_id
from tertulia.protocol.items import (
    AssistantMessage,
    Item,
    Part,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_parts,
)
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.protocol.usage import NO_USAGE, Usage

_LEGAL_ID = re.compile(r".{1,64}", re.DOTALL)
_CANNOT_REASON = ("gpt-3", "gpt-4", "chatgpt")
"""Models that refuse to be asked for the sealed form of their reasoning."""


class ResponsesDialect:
    """Items as `input` items. A message of one text is that text; pictures make it a list."""

    __slots__ = ("name",)

    def __init__(self, provider_name: str) -> None:
        self.name = f"responses/{provider_name}"

    def encode_items(self, items: Sequence[Item]) -> bytes:
        """Each as one JSON value. Reasoning only in the form that this provider sealed."""
        return b",".join(encode(spelled) for item in items if (spelled := self._spell(item)) is not None)

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """Functions, custom tools with their grammar, and the search that the provider hosts."""
        return encode([_spell_tool(tool) for tool in tools])

    def _spell(self, item: Item) -> dict[str, object] | None:
        match item:
            case UserMessage():
                return {"role": "user", "content": _content(item.parts)}
            case Summary():
                return {"role": "user", "content": item.text}
            case AssistantMessage():
                return {"role": "assistant", "content": item.text} if item.text else None
            case Reasoning():
                return self._spell_reasoning(item)
            case ToolCall(kind="custom"):
                call_id = fitting(item.call_id, _LEGAL_ID)
                return {"type": "custom_tool_call", "call_id": call_id, "name": item.name, "input": item.arguments}
            case ToolCall():
                call_id = fitting(item.call_id, _LEGAL_ID)
                return {"type": "function_call", "call_id": call_id, "name": item.name, "arguments": item.arguments}
            case ToolOutput():
                kind = "custom_tool_call_output" if item.kind == "custom" else "function_call_output"
                call_id = fitting(item.call_id, _LEGAL_ID)
                return {"type": kind, "call_id": call_id, "output": _content(item.parts)}

    def _spell_reasoning(self, item: Reasoning) -> dict[str, object] | None:
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

    def headers_for(self, key: str | None) -> dict[str, str]:
        """The key as a bearer token."""
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def body_of(self, request: Request) -> bytes:
        """The request; reasoning comes back sealed, so that it can be sent again whoever stores what."""
        parts = [b'{"stream":true,"model":', encode(self.model), member("store", encode(request.store))]
        parts.append(member("prompt_cache_key", encode(request.cache_key)))
        if not self.model.startswith(_CANNOT_REASON):
            parts.append(member("include", b'["reasoning.encrypted_content"]'))
        if request.instructions:
            parts.append(member("instructions", encode(request.instructions)))
        if request.tools_json != b"[]":
            parts.append(member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"format":{"type":"json_schema","name":"answer","strict":true,"schema":%b}}'
            parts.append(member("text", form % request.output_schema.encode()))
        parts += [b',"input":[', joined(request.chunks), b"]}"]
        return b"".join(parts)

    def reader(self) -> _Reader:
        """One who understands an answer."""
        return _Reader(self.place, self.dialect.name)


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, str]]:
    match parts:
        case ():
            return ""
        case (TextPart(text),):
            return text
        case _:
            return [_spell_part(part) for part in parts]


def _spell_part(part: Part) -> dict[str, str]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": part.image_url, "detail": "auto"}


def _spell_tool(tool: ToolSpec) -> dict[str, object]:
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


# ---- reading an answer


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: str = ""
    item: msgspec.Raw = NOTHING
    response: msgspec.Raw = NOTHING


class _ContentPart(msgspec.Struct):
    text: str = ""
    refusal: str = ""


class _Action(msgspec.Struct):
    query: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    arguments: str = ""
    input: str = ""
    content: list[_ContentPart] | None = None
    summary: list[_ContentPart] | None = None
    encrypted_content: str | None = None
    action: _Action | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    usage: msgspec.Raw = NOTHING
    incomplete_details: _Incomplete | None = None


_event = msgspec.json.Decoder(_Event)
_item = msgspec.json.Decoder(_Item)
_response = msgspec.json.Decoder(_Response)


class _Reader:
    """Deltas become drafts, whole items take their place, and the last event has the tokens."""

    __slots__ = ("_dialect", "_place", "_room", "_stop", "_texts", "_thoughts", "_usage", "whole")

    def __init__(self, place: Place, dialect: str) -> None:
        self.whole = False
        self._place = place
        self._dialect = dialect
        self._room = Room(place)
        # By their place in the output and not by the provider's ids: some gateways change these on the way.
        self._texts: dict[int, Draft] = {}
        self._thoughts: dict[int, Draft] = {}
        self._usage: Usage = NO_USAGE
        self._stop: StopReason = "stop"

    def take(self, data: bytes) -> Iterable[Piece]:
        event = parse_known(_event, data, self._place, _ACTS)
        act = None if event is None else _ACTS.get(event.type)
        return () if event is None or act is None else act(self, event)

    def end(self) -> Iterable[Piece]:
        if not self.whole:
            raise cut(self._place, "the stream ended before the answer did")
        # A server that ends an answer without ending its items has said them nevertheless.
        for draft in self._thoughts.values():
            yield Said(Reasoning(draft.item_id, draft.text, self._dialect))
        for draft in self._texts.values():
            yield Said(AssistantMessage(draft.item_id, text_parts(draft.text)))
        yield Finished(self._usage, self._stop)

    def text(self, event: _Event) -> Iterable[Piece]:
        if not event.delta:
            return ()
        draft = self._texts.get(event.output_index)
        if draft is None:
            draft = self._texts[event.output_index] = Draft(self._room)
        draft.add(event.delta)
        return (TextDelta(draft.item_id, event.delta),)

    def refusal(self, event: _Event) -> Iterable[Piece]:
        self._stop = "refusal"
        return self.text(event)

    def thought(self, event: _Event) -> Iterable[Piece]:
        if not event.delta:
            return ()
        draft = self._thoughts.get(event.output_index)
        if draft is None:
            draft = self._thoughts[event.output_index] = Draft(self._room)
        draft.add(event.delta)
        return (ReasoningDelta(draft.item_id, event.delta),)

    def next_thought(self, event: _Event) -> Iterable[Piece]:
        """A summary comes in parts; between two of them stands an empty line."""
        if event.output_index not in self._thoughts:
            return ()
        return self.thought(msgspec.structs.replace(event, delta="\n\n"))

    def began(self, event: _Event) -> Iterable[Piece]:
        item = parse(_item, event.item, self._place)
        return (Searched(CallId(item.id or "")),) if item.type == "web_search_call" else ()

    def ended(self, event: _Event) -> Iterable[Piece]:
        item = parse(_item, event.item, self._place)
        match item.type:
            case "message":
                draft = self._texts.pop(event.output_index, None) or self._drafted(item.content)
                if text := draft.text:
                    yield Said(AssistantMessage(draft.item_id, text_parts(text)))
            case "reasoning":
                draft = self._thoughts.pop(event.output_index, None) or self._drafted(item.summary or item.content)
                if (text := draft.text) or item.encrypted_content:
                    yield Said(Reasoning(draft.item_id, text, self._dialect, item.encrypted_content))
            case "function_call":
                yield self._called(item, item.arguments, "function")
            case "custom_tool_call":
                yield self._called(item, item.input, "custom")
            case "web_search_call":
                query = item.action.query if item.action else None
                yield Searched(CallId(item.id or ""), query or "")
            case _:
                pass

    def finished(self, event: _Event) -> Iterable[Piece]:
        self.whole = True
        response = parse(_response, event.response, self._place)
        counts = read_loosely(response.usage)
        self._usage = usage(
            count(counts, "input_tokens"),
            count(counts, "input_tokens_details", "cached_tokens"),
            count(counts, "output_tokens"),
            count(counts, "output_tokens_details", "reasoning_tokens"),
            count(counts, "total_tokens"),
        )
        if event.type == "response.incomplete":
            reason = response.incomplete_details and response.incomplete_details.reason
            self._stop = _INCOMPLETE.get(reason or "", "other")
        return ()

    def failed(self, event: _Event) -> Iterable[Piece]:
        raise reported(self._place, bytes(event.response))

    def _called(self, item: _Item, arguments: str, kind: Literal["function", "custom"]) -> Said:
        self._stop = "tool_calls"
        item_id = new_item_id()
        call_id = CallId(item.call_id or f"call_{item_id}")
        return Said(ToolCall(item_id, call_id, item.name, self._room.take(arguments), kind))

    def _drafted(self, parts: list[_ContentPart] | None) -> Draft:
        draft = Draft(self._room)
        for part in parts or ():
            if part.refusal:
                self._stop = "refusal"
            draft.add(part.text or part.refusal)
        return draft


_INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_ACTS: dict[str, Callable[[_Reader, _Event], Iterable[Piece]]] = {
    "response.output_text.delta": _Reader.text,
    "response.refusal.delta": _Reader.refusal,
    "response.reasoning_summary_text.delta": _Reader.thought,
    "response.reasoning_text.delta": _Reader.thought,
    "response.reasoning_summary_part.added": _Reader.next_thought,
    "response.output_item.added": _Reader.began,
    "response.output_item.done": _Reader.ended,
    "response.completed": _Reader.finished,
    "response.incomplete": _Reader.finished,
    "response.failed": _Reader.failed,
    "error": _Reader.failed,
}
