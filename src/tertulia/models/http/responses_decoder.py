"""Decodes answers of the Responses API, from OpenAI and from servers that leave out some of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from typing import Any, ClassVar, Literal

import msgspec

from tertulia.models import wire as w
from tertulia.models.http.encoding import encode
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
from tertulia.protocol.tool_spec import LOCAL_SHELL

_INCOMPLETE: dict[str, w.StopReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_CALLS = ("function_call", "custom_tool_call")
_KINDS = ("message", "reasoning", *_CALLS, "web_search_call", "local_shell_call")


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int | None = None
    delta: str | None = None
    arguments: str | dict[str, Any] | None = None
    item: msgspec.Raw = EMPTY_RAW
    response: msgspec.Raw = EMPTY_RAW


class _ContentPart(msgspec.Struct, gc=False):
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None
    content: list[_ContentPart] | str | None = None
    summary: list[_ContentPart] | None = None
    phase: str | None = None
    encrypted_content: str | None = None
    action: msgspec.Raw = EMPTY_RAW


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    usage: msgspec.Raw = EMPTY_RAW
    status: str | None = None
    output: list[msgspec.Raw] | None = None
    incomplete_details: _Incomplete | None = None


_item = msgspec.json.Decoder(_Item)
_response = msgspec.json.Decoder(_Response)


class ResponsesDecoder(TypedEventDecoder):
    """Collects deltas as drafts, replaces them by the complete items, and reads the usage from the last event.

    What a server leaves out on the way is taken from where it has it: arguments of calls from their deltas, whole
    items from the last event.
    """

    __slots__ = (
        "_arguments",
        "_begun",
        "_call_ids",
        "_empty",
        "_ended",
        "_keeps_ids",
        "_kinds",
        "_stop",
        "_texts",
        "_thoughts",
        "_usage",
    )

    def __init__(
        self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None, *, keeps_ids: bool = False
    ) -> None:
        """`keeps_ids`: whether the provider wants sealed reasoning back with its id."""
        super().__init__(place, dialect, limits)
        self._keeps_ids = keeps_ids
        # By their place in the output and not by the provider's ids: some gateways change these on the way.
        self._texts: dict[int, Draft] = {}
        self._thoughts: dict[int, Draft] = {}
        self._arguments: dict[int, StringIO] = {}
        """Of the calls that are coming; most come again, whole, at their end."""
        self._begun: dict[int, _Item] = {}
        """Calls that have no end yet."""
        self._ended: set[int] = set()
        self._kinds: set[str | None] = set()
        """Of items that have ended."""
        self._call_ids: set[str] = set()
        self._empty: i.AssistantMessage | None = None
        """A message without text, while nothing has come after it."""
        self._usage: i.Usage = i.NO_USAGE
        self._stop: w.StopReason = "stop"

    def take_whole(self, data: bytes | bytearray) -> Iterable[w.AnswerPiece]:
        """An answer that came as one JSON value."""
        response = parse(_response, data, self._place)
        if response.output is None:
            raise reported_failure(self._place, data)
        kind = "response.incomplete" if response.status == "incomplete" else "response.completed"
        return self._on_finished(_Event(kind, response=msgspec.Raw(data)))

    def end(self) -> Iterable[w.AnswerPiece]:
        if not self.whole:
            raise stream_cut(self._place, "the stream ended before the answer did")
        # A server may end an answer without ending its items: they count all the same.
        for draft in self._thoughts.values():
            yield w.AnswerItem(i.Reasoning(draft.item_id, draft.text, self._dialect))
        for draft in self._texts.values():
            yield w.AnswerItem(i.AssistantMessage(draft.item_id, i.text_parts(draft.text)))
        for index, item in list(self._begun.items()):
            yield from self._end_item(index, item)
        if self._empty is not None and self._stop == "stop":
            # Beside calls and before other items it says nothing; at the end it is the answer.
            yield w.AnswerItem(self._empty)
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
        text = event.delta
        if not text:
            return ()
        index = event.output_index or 0
        draft = drafts.get(index)
        if draft is None:
            draft = drafts[index] = Draft(self._room)
        draft.add(text)
        return (delta(draft.item_id, text),)

    def _on_next_thought(self, event: _Event) -> Iterable[w.AnswerPiece]:
        """A summary comes in parts; between two of them stands an empty line."""
        if (event.output_index or 0) not in self._thoughts:
            return ()
        return self._on_thought(msgspec.structs.replace(event, delta="\n\n"))

    def _on_argument(self, event: _Event) -> Iterable[w.AnswerPiece]:
        piece = event.delta
        if not piece:
            return ()
        self._room.announce(piece)
        arguments = self._arguments.setdefault(event.output_index or 0, StringIO())
        arguments.write(piece)
        self._room.check_argument(arguments.tell())
        return ()

    def _on_arguments(self, event: _Event) -> Iterable[w.AnswerPiece]:
        """All arguments of a call, where no piece of them came."""
        index, text = event.output_index or 0, _text_of(event.arguments)
        if text and index not in self._arguments:
            self._on_argument(msgspec.structs.replace(event, delta=text))
        return ()

    def _on_began(self, event: _Event) -> Iterable[w.AnswerPiece]:
        item = parse(_item, event.item, self._place)
        if item.type in _CALLS:
            self._room.take((item.name or "") + (item.call_id or ""))
            self._room.item()
            self._begun[event.output_index or 0] = item
        return (w.ProviderSearch(self._search(item)),) if item.type == "web_search_call" else ()

    def _on_ended(self, event: _Event) -> Iterable[w.AnswerPiece]:
        return self._end_item(event.output_index or 0, parse(_item, event.item, self._place))

    def _end_item(self, index: int, item: _Item) -> Iterable[w.AnswerPiece]:
        if item.type not in _KINDS:
            return
        self._ended.add(index)
        self._empty = None
        self._kinds.add(item.type)
        self._begun.pop(index, None)
        pieces = self._arguments.pop(index, None)
        streamed = "" if pieces is None else pieces.getvalue()
        match item.type:
            case "message":
                yield from self._end_message(index, item)
            case "reasoning":
                draft = self._thoughts.pop(index, None) or self._drafted(item.summary or item.content)
                sealed = self._keep_opaque(
                    self._room.take(_sealed(item, with_id=self._keeps_ids)), "the sealed reasoning"
                )
                if (text := draft.text) or sealed:
                    yield w.AnswerItem(i.Reasoning(draft.item_id, text, self._dialect, sealed or None))
            case "function_call":
                yield self._called(item, _text_of(item.arguments) or streamed or "{}", "function")
            case "custom_tool_call":
                yield self._called(item, item.input or streamed, "custom")
            case "web_search_call":
                query = object_fields(read_loosely(item.action)).get("query")
                yield w.ProviderSearch(self._search(item), self._room.take(query if isinstance(query, str) else ""))
            case _:
                action = bytes(item.action).decode() or "{}"
                yield self._called(msgspec.structs.replace(item, name=LOCAL_SHELL), action, "function")

    def _end_message(self, index: int, item: _Item) -> Iterable[w.AnswerPiece]:
        draft = self._texts.pop(index, None) or self._drafted(item.content)
        text = draft.text
        message = i.AssistantMessage(draft.item_id, i.text_parts(text) if text else ())
        if item.phase and (phase := self._keep_opaque(self._room.take(item.phase), "the phase of a message")):
            message = msgspec.structs.replace(message, dialect=self._dialect, opaque=phase)
        if text:
            yield w.AnswerItem(message)
        else:
            self._empty = message

    def _on_finished(self, event: _Event) -> Iterable[w.AnswerPiece]:
        self.whole = True
        response = parse(_response, event.response, self._place)
        self._usage = usage_of_parts(read_loosely(response.usage), "input_tokens", "output_tokens")
        pieces: list[w.AnswerPiece] = []
        for index, raw in enumerate(response.output or ()):
            if index not in self._ended and self._is_new(index, item := parse(_item, raw, self._place)):
                pieces += self._end_item(index, item)
        if event.type == "response.incomplete":
            reason = response.incomplete_details and response.incomplete_details.reason
            self._stop = _INCOMPLETE.get(reason or "", "other")
            # What was cut off is no call.
            self._begun.clear()
        return pieces

    def _is_new(self, index: int, item: _Item) -> bool:
        """Whether an item of the last event is no other than one that came before, at another place."""
        match item.type:
            case "message":
                drafts = self._texts
            case "reasoning":
                drafts = self._thoughts
            case _:
                return (item.call_id or item.id or "") not in self._call_ids
        return index in drafts or not (drafts or item.type in self._kinds)

    def _on_failed(self, event: _Event) -> Iterable[w.AnswerPiece]:
        raise reported_failure(self._place, bytes(event.response))

    def _called(self, item: _Item, arguments: str, kind: Literal["function", "custom"]) -> w.AnswerItem:
        self._stop = "tool_calls"
        self._room.check_argument(len(arguments))
        item_id = self._room.item()
        call_id = CallId(item.call_id or f"call_{item_id}")
        self._call_ids.add(call_id)
        name = item.name or ""
        self._room.take(call_id + name + arguments)
        return w.AnswerItem(i.ToolCall(item_id, call_id, name, arguments, kind))

    def _search(self, item: _Item) -> CallId:
        search_id = CallId(self._room.take(item.id or ""))
        self._call_ids.add(search_id)
        return search_id

    def _drafted(self, parts: list[_ContentPart] | str | None) -> Draft:
        draft = Draft(self._room)
        for part in [_ContentPart(parts)] if isinstance(parts, str) else parts or ():
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
        "response.function_call_arguments.done": _on_arguments,
        "response.custom_tool_call_input.delta": _on_argument,
        "response.output_item.added": _on_began,
        "response.output_item.done": _on_ended,
        "response.completed": _on_finished,
        "response.incomplete": _on_finished,
        "response.failed": _on_failed,
    }


def _sealed(item: _Item, *, with_id: bool) -> str:
    sealed = item.encrypted_content or ""
    return f"{item.id} {sealed}" if sealed and item.id and with_id else sealed


def _text_of(arguments: str | dict[str, Any] | None) -> str:
    """Arguments as the text of JSON, which some servers send as the object itself."""
    return arguments or "" if arguments is None or isinstance(arguments, str) else encode(arguments).decode()
