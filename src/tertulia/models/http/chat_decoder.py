"""An answer of Chat Completions, read as it comes. Servers differ, and this reads them all as well as it can."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tertulia.models import wire as w
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
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import NO_USAGE, AssistantMessage, Reasoning, ToolCall, Usage, text_parts


class _FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = EMPTY_RAW
    error: msgspec.Raw = EMPTY_RAW


_chunk = msgspec.json.Decoder(_Chunk)

_STOPS: dict[str, w.StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}


class _Call:
    """A tool call while it is being said."""

    __slots__ = ("arguments", "call_id", "name")

    def __init__(self, room: AnswerBudget) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments = ArgumentDraft(room)


class ChatDecoder(StreamDecoder):
    """One text, one row of thoughts and any number of calls grow side by side and are said at the end."""

    __slots__ = ("_by_index", "_calls", "_stop", "_text", "_thought", "_usage")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        super().__init__(place, dialect, limits)
        self._text: Draft | None = None
        self._thought: Draft | None = None
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        self._usage: Usage = NO_USAGE
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
            yield w.AnswerItem(Reasoning(self._thought.item_id, self._thought.text, self._dialect))
        if self._text is not None:
            yield w.AnswerItem(AssistantMessage(self._text.item_id, text_parts(self._text.text)))
        for call in self._calls:
            item_id = call.arguments.item_id
            call_id = CallId(call.call_id or f"call_{item_id}")
            yield w.AnswerItem(ToolCall(item_id, call_id, call.name, call.arguments.text or "{}"))
        yield w.AnswerEnd(self._usage, "tool_calls" if self._calls else self._stop or "stop")

    def _choose(self, choice: _Choice) -> Iterable[w.AnswerPiece]:
        if choice.finish_reason is not None and self._stop != "refusal":
            self._stop = _STOPS.get(choice.finish_reason, "other")
        delta = choice.delta
        if delta is None:
            return
        if thought := delta.reasoning_content or delta.reasoning:
            self._thought = self._thought or Draft(self._room)
            self._thought.add(thought)
            yield w.ReasoningDelta(self._thought.item_id, thought)
        if delta.refusal:
            self._stop = "refusal"
        if text := delta.content or delta.refusal:
            self._text = self._text or Draft(self._room)
            self._text.add(text)
            yield w.TextDelta(self._text.item_id, text)
        for call in delta.tool_calls or ():
            self._call(call)

    def _call(self, delta: _CallDelta) -> None:
        call = self._meant(delta)
        call.call_id = call.call_id or self._room.take(delta.id or "")
        if delta.function is not None:
            call.name = call.name or self._room.take(delta.function.name or "")
            call.arguments.add(delta.function.arguments or "")

    def _meant(self, delta: _CallDelta) -> _Call:
        """The call that a piece belongs to: the last of its index, or the last of all where a server does not count."""
        call = self._calls[-1] if self._calls and delta.index is None else self._by_index.get(delta.index)
        # Another id is another call, because some servers give every call the same index.
        if call is None or (delta.id and call.call_id and delta.id != call.call_id):
            call = self._by_index[delta.index] = _Call(self._room)
            self._calls.append(call)
        return call
