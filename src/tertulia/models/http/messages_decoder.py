"""An answer of the Anthropic Messages API, read as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import msgspec

from tertulia.models import wire as w
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
from tertulia.protocol.ids import CallId
from tertulia.protocol.items import AssistantMessage, Reasoning, ToolCall, text_parts

SIGNED, REDACTED = "signature:", "redacted:"
"""How a sealed thought begins, for each of the two blocks that hold one."""


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str = ""
    input: msgspec.Raw = EMPTY_RAW


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    content_block: _Block | None = None
    delta: _Delta | None = None
    message: msgspec.Raw = EMPTY_RAW
    usage: msgspec.Raw = EMPTY_RAW


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


class _Open:
    """A block while it is being said."""

    __slots__ = ("block", "draft", "input", "signature")

    def __init__(self, block: _Block, room: AnswerBudget) -> None:
        # Before anything is kept of it: blocks that never close must not fill the memory either.
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
        # Here what came from the cache, or went into it, is not counted among the input.
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
            yield w.AnswerItem(AssistantMessage(self._text.item_id, text_parts(self._text.text)))
            self._text = None

    def _close(self, index: int) -> Iterable[w.AnswerPiece]:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        block, item_id, text = opened.block, opened.draft.item_id, opened.draft.text
        match block.type:
            case "thinking":
                signature = opened.signature.text
                yield w.AnswerItem(Reasoning(item_id, text, self._dialect, SIGNED + signature if signature else None))
            case "redacted_thinking":
                yield w.AnswerItem(Reasoning(item_id, "", self._dialect, REDACTED + block.data))
            case "tool_use":
                arguments = text or opened.input or "{}"
                yield w.AnswerItem(ToolCall(item_id, CallId(block.id or f"call_{item_id}"), block.name, arguments))
            case "server_tool_use":
                query = object_fields(read_loosely(msgspec.Raw(text.encode("utf-8", "replace")))).get("query")
                yield w.ProviderSearch(CallId(block.id), query if isinstance(query, str) else "")
            case _:
                pass

    def _count(self, counts: object) -> None:
        """The later event counts on from the earlier; what it does not mention stands."""
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
