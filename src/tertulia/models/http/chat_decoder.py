"""Decodes answers of Chat Completions. Servers differ in what they stream; every known form is accepted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from tertulia.models import wire as w
from tertulia.models.http.encoding import encode
from tertulia.models.http.provider_error import ProviderAddress, reported_failure, stream_cut
from tertulia.models.http.stream_decoder import (
    EMPTY_RAW,
    AnswerBudget,
    AnswerLimits,
    ArgumentDraft,
    Draft,
    StreamDecoder,
    object_fields,
    parse,
    read_loosely,
    usage_of_parts,
)
from tertulia.protocol import items as i
from tertulia.protocol.ids import CallId

_STOPS: dict[str, w.StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}
DETAILS = "reasoning_details"
_GROWING = ("text", "summary")
"""Members of a reasoning detail that come in pieces."""
_Loose = str | dict[str, Any] | list[Any] | None
"""A text; some servers send an object or a list that contains it."""


class _FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: _Loose = None


class _CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None
    extra_content: msgspec.Raw = EMPTY_RAW


class _Delta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning_content: _Loose = None
    reasoning: _Loose = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    """In place of `delta`, from a server that does not stream."""
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = EMPTY_RAW
    error: msgspec.Raw = EMPTY_RAW


_chunk = msgspec.json.Decoder(_Chunk)


class _Call:
    """A tool call that is not complete yet."""

    __slots__ = ("arguments", "call_id", "extra", "name")

    def __init__(self, room: AnswerBudget) -> None:
        self.call_id = ""
        self.name = ""
        self.extra = ""
        """What the provider wants to have back with it, as JSON."""
        self.arguments = ArgumentDraft(room)

    @property
    def has_arguments(self) -> bool:
        """Whether its arguments are complete."""
        return read_loosely(msgspec.Raw(self.arguments.text.encode("utf-8", "replace"))) is not None


class ChatDecoder(StreamDecoder):
    """One text, one reasoning and any number of calls grow side by side, and become items at the end."""

    __slots__ = ("_by_index", "_calls", "_details", "_stop", "_text", "_thought", "_thought_name", "_usage")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        super().__init__(place, dialect, limits)
        self._text: Draft | None = None
        self._thought: Draft | None = None
        self._thought_name: str | None = None
        """The member that the reasoning came in, if that was a text: it goes back in the same."""
        self._details: list[dict[str, Any]] = []
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

    def take_whole(self, data: bytes | bytearray) -> Iterable[w.AnswerPiece]:
        """An answer that came as one JSON value: its message is all of it."""
        pieces = self.take(data)
        self.whole = True
        return pieces

    def end(self) -> Iterable[w.AnswerPiece]:
        # Some servers close the stream after the reason why they stopped, others give no reason.
        if not self.whole and self._stop is None:
            raise stream_cut(self._place, "the stream ended before the answer did")
        yield from self._reasoning()
        if self._text is not None:
            yield w.AnswerItem(i.AssistantMessage(self._text.item_id, i.text_parts(self._text.text)))
        for call in self._calls:
            item_id = call.arguments.item_id
            call_id = CallId(call.call_id or f"call_{item_id}")
            item = i.ToolCall(item_id, call_id, call.name, call.arguments.text or "{}")
            if call.extra and (extra := self._keep_opaque(call.extra, "the signature of a tool call")):
                item = msgspec.structs.replace(item, dialect=self._dialect, opaque=extra)
            yield w.AnswerItem(item)
        yield w.AnswerEnd(self._usage, "tool_calls" if self._calls else self._stop or "stop")

    def _reasoning(self) -> Iterable[w.AnswerPiece]:
        """The reasoning, and how it goes back. Of an answer that has nothing else it does not."""
        opaque = self._thought_name if self._text is not None or self._calls else None
        if opaque is not None and self._details:
            opaque = self._keep_opaque(encode({DETAILS: self._details}).decode(), "the reasoning")
        # An empty one that was sent is wanted back with calls, like any other.
        if self._thought is None and (self._details or (opaque and self._calls)):
            self._thought = Draft(self._room)
        if self._thought is not None:
            yield w.AnswerItem(i.Reasoning(self._thought.item_id, self._thought.text, self._dialect, opaque))

    def _choose(self, choice: _Choice) -> Iterable[w.AnswerPiece]:
        if choice.finish_reason is not None and self._stop != "refusal":
            self._stop = _STOPS.get(choice.finish_reason, "other")
        delta = choice.delta or choice.message
        if delta is None:
            return ()
        # A list and no generator: this is done for every word of an answer.
        pieces: list[w.AnswerPiece] = []
        if delta.reasoning_content is not None or delta.reasoning is not None or delta.reasoning_details:
            self._reason(delta, pieces)
        if delta.refusal:
            self._stop = "refusal"
        if text := delta.content or delta.refusal:
            if isinstance(text, str):
                # As `_say` does, without a call for each word.
                draft = self._text
                if draft is None:
                    draft = self._text = Draft(self._room)
                draft.add(text)
                pieces.append(w.TextDelta(draft.item_id, text))
            else:
                self._take_parts(text, pieces)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._call(call)
        return pieces

    def _reason(self, delta: _Delta, pieces: list[w.AnswerPiece]) -> None:
        if delta.reasoning_content is not None:
            self._think(delta.reasoning_content, "reasoning_content", pieces)
        elif delta.reasoning is not None:
            self._think(delta.reasoning, "reasoning", pieces)
        if delta.reasoning_details:
            self._add_details(delta.reasoning_details)

    def _say(self, text: str, pieces: list[w.AnswerPiece]) -> None:
        self._text = self._text or Draft(self._room)
        self._text.add(text)
        pieces.append(w.TextDelta(self._text.item_id, text))

    def _take_parts(self, parts: list[Any], pieces: list[w.AnswerPiece]) -> None:
        """Content as a list, the form of Mistral: texts, and thoughts that are lists of texts."""
        for part in map(object_fields, parts):
            if (thought := part.get("thinking")) is not None:
                self._think(cast("_Loose", thought), None, pieces)
            elif isinstance(text := part.get("text"), str) and text:
                self._say(text, pieces)

    def _think(self, thought: _Loose, name: str | None, pieces: list[w.AnswerPiece]) -> None:
        text = thought if isinstance(thought, str) else _loose_text(thought)
        if self._thought_name is None and isinstance(thought, str):
            self._thought_name = name
        if text:
            self._thought = self._thought or Draft(self._room)
            self._thought.add(text)
            pieces.append(w.ReasoningDelta(self._thought.item_id, text))

    def _add_details(self, details: list[Any]) -> None:
        """Keep what comes of them. Pieces of one detail have its type and index, and follow one another."""
        self._thought_name = DETAILS
        for detail in map(object_fields, details):
            for value in detail.values():
                self._room.announce(value if isinstance(value, str) else "")
            last = self._details[-1] if self._details else {}
            if detail.get("index") is None or any(last.get(key) != detail.get(key) for key in ("type", "index")):
                self._room.item()
                self._details.append(dict(detail))
                continue
            for key, value in detail.items():
                before = last.get(key)
                if key in _GROWING and isinstance(before, str) and isinstance(value, str):
                    last[key] = before + value
                elif value is not None:
                    last[key] = value

    def _call(self, delta: _CallDelta) -> None:
        call = self._meant(delta)
        call.call_id = call.call_id or self._room.take(delta.id or "")
        if delta.extra_content is not EMPTY_RAW and (extra := object_fields(read_loosely(delta.extra_content))):
            call.extra = self._room.take(encode({"extra_content": extra}).decode())
        if delta.function is not None:
            call.name = call.name or self._room.take(delta.function.name or "")
            arguments = delta.function.arguments or ""
            call.arguments.add(arguments if isinstance(arguments, str) else encode(arguments).decode())

    def _meant(self, delta: _CallDelta) -> _Call:
        """The call that a piece belongs to: the last of its index, or the last of all where a server sends no index."""
        call = self._calls[-1] if self._calls and delta.index is None else self._by_index.get(delta.index)
        # Another id is another call, because some servers give every call the same index.
        if (
            call is None
            or (delta.id and call.call_id and delta.id != call.call_id)
            or (not delta.id and _begins_anew(call, delta))
        ):
            call = self._by_index[delta.index] = _Call(self._room)
            self._calls.append(call)
        return call


def _begins_anew(call: _Call, delta: _CallDelta) -> bool:
    """Whether a piece without an id is of another call: it has another name, or arguments for a call that has all.

    A server may also repeat the name with every piece of a call.
    """
    function = delta.function
    if function is None or not (function.name and call.name):
        return False
    return function.name != call.name or (bool(function.arguments) and call.has_arguments)


def _loose_text(value: object) -> str:
    """The text in an object or a list, at any depth."""
    texts: list[str] = []
    for entry in cast("list[Any]", value) if isinstance(value, list) else [value]:
        text = entry if isinstance(entry, str) else object_fields(entry).get("text")
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts)
