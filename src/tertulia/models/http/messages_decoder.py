"""Decodes answers of the Messages API, as Anthropic and others serve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

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
    TypedEventDecoder,
    count_at,
    make_usage,
    object_fields,
    parse,
    read_loosely,
)
from tertulia.protocol import items as i
from tertulia.protocol.ids import CallId

SIGNED, REDACTED = "signature:", "redacted:"
"""How encrypted reasoning begins, for each of the two block types that hold it."""
BLOCKS = "blocks:"
"""How the blocks begin in which the provider keeps what it did itself: a search, and what it found."""
SERVER_CALL, SERVER_RESULT = "server_tool_use", "_tool_result"
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
    "pause_turn": "pause",
}


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
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
    content_block: msgspec.Raw = EMPTY_RAW
    delta: _Delta | None = None
    message: msgspec.Raw = EMPTY_RAW
    usage: msgspec.Raw = EMPTY_RAW


class _Message(msgspec.Struct, gc=False):
    content: list[msgspec.Raw] | None = None
    stop_reason: str | None = None
    usage: msgspec.Raw = EMPTY_RAW


_block = msgspec.json.Decoder(_Block)
_message = msgspec.json.Decoder(_Message)


class _Open:
    """A content block that is not complete yet."""

    __slots__ = ("block", "draft", "input", "raw", "signature")

    def __init__(self, block: _Block, raw: msgspec.Raw, room: AnswerBudget) -> None:
        # Before anything of it is stored: blocks that never close must not fill the memory either.
        self.block = block
        room.take((block.id or "") + (block.name or "") + (block.data or ""))
        self.raw = b""
        """All of it, where the provider did something itself and wants to have that back."""
        if block.type == SERVER_CALL or block.type.endswith(SERVER_RESULT):
            self.raw = room.take(bytes(raw).decode("utf-8", "replace")).encode()
        self.input = room.take(bytes(block.input).decode("utf-8", "replace"))
        room.check_argument(len(self.input))
        self.draft = Draft(room) if block.type == "thinking" else ArgumentDraft(room)
        self.signature = Draft(room)
        self.signature.add(block.signature or "")


class MessagesDecoder(TypedEventDecoder):
    """Blocks open, grow and close. Texts that follow one another directly are one text: citations cut them up."""

    __slots__ = ("_counts", "_open", "_server_blocks", "_stop", "_text")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        super().__init__(place, dialect, limits)
        self._text: Draft | None = None
        self._open: dict[int, _Open] = {}
        self._server_blocks: list[dict[str, object]] = []
        """What the provider did itself, until it is complete: calls, and what came of each."""
        self._counts: dict[str, object] = {}
        self._stop: w.StopReason | None = None

    def take_whole(self, data: bytes | bytearray) -> Iterable[w.AnswerPiece]:
        """An answer that came as one JSON value."""
        message = parse(_message, data, self._place)
        if message.content is None:
            raise reported_failure(self._place, data)
        self.whole = True
        pieces: list[w.AnswerPiece] = []
        for index, raw in enumerate(message.content):
            pieces += self._on_block(_Event(index=index, content_block=raw))
            pieces += self._close(index)
        self._on_reason(_Event(delta=_Delta(stop_reason=message.stop_reason), usage=message.usage))
        return pieces

    def end(self) -> Iterable[w.AnswerPiece]:
        # Some servers close the stream after the reason why they stopped.
        if not self.whole and self._stop is None:
            raise stream_cut(self._place, "the stream ended before the answer did")
        for index in list(self._open):
            yield from self._close(index)
        yield from self._close_text()
        if self._stop == "pause":
            # A call without its result is what the provider goes on with.
            yield from self._keep_server_blocks()
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
        if event.content_block is EMPTY_RAW:
            return
        block = parse(_block, event.content_block, self._place)
        if block.type == "text":
            yield from self._say(block.text or "")
            return
        yield from self._close_text()
        yield from self._close(event.index)
        opened = self._open[event.index] = _Open(block, event.content_block, self._room)
        if block.type == SERVER_CALL:
            yield w.ProviderSearch(CallId(block.id or ""))
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
                sealed = self._keep_opaque(SIGNED + signature, "a signature") if signature else None
                yield w.AnswerItem(i.Reasoning(item_id, text, self._dialect, sealed))
            case "redacted_thinking":
                yield w.AnswerItem(i.Reasoning(item_id, "", self._dialect, REDACTED + (block.data or "")))
            case "tool_use":
                arguments = text or opened.input or "{}"
                call_id = CallId(block.id or f"call_{item_id}")
                yield w.AnswerItem(i.ToolCall(item_id, call_id, block.name or "", arguments))
            case "server_tool_use":
                search = object_fields(read_loosely(msgspec.Raw((text or opened.input).encode("utf-8", "replace"))))
                self._server_blocks.append({**_fields(opened.raw), "input": search})
                query = search.get("query")
                yield w.ProviderSearch(CallId(block.id or ""), query if isinstance(query, str) else "")
            case _ if opened.raw:
                self._server_blocks.append(_fields(opened.raw))
                calls = sum(block.get("type") == SERVER_CALL for block in self._server_blocks)
                if 2 * calls <= len(self._server_blocks):
                    yield from self._keep_server_blocks()
            case _:
                pass

    def _keep_server_blocks(self) -> Iterable[w.AnswerPiece]:
        """What the provider did itself, as an item that goes back to it. Calls and their results, or none of them."""
        blocks, self._server_blocks = self._server_blocks, []
        if blocks and (opaque := self._keep_opaque(BLOCKS + encode(blocks).decode(), "the result of a search")):
            yield w.AnswerItem(i.Reasoning(self._room.item(), "", self._dialect, opaque))

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


def _fields(raw: bytes) -> dict[str, object]:
    return object_fields(read_loosely(msgspec.Raw(raw)))
