"""Reads one answer of a model: publishes deltas as they come, and returns the whole.

Sampling is a single question to the same model: without tools, without history, and nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from tertulia.conversation.task_scope import TaskScope, terms_in_use
from tertulia.errors import ModelError
from tertulia.history.segment import utf8_size
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.mcp.server_connection import SamplingRequest, SamplingResult
from tertulia.models.wire import (
    AnswerEnd,
    AnswerFailure,
    AnswerItem,
    AnswerPiece,
    AnswerWarning,
    ModelRequest,
    ProviderSearch,
    ReasoningDelta,
    RetryNotice,
    TextDelta,
    Wire,
)
from tertulia.prompt.request import RequestInputs, build_request
from tertulia.prompt.tool_list import NO_TOOLS
from tertulia.protocol.events import AgentMessageDelta, AgentReasoningDelta, BackgroundEvent, TokenCount, WarningEvent
from tertulia.protocol.ids import CallId, ItemId, new_item_id
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import (
    NO_USAGE,
    AssistantMessage,
    ImagePart,
    Item,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
)
from tertulia.protocol.records import LONG_CHARACTERS, MAX_COST, TOO_MANY, escape_cost
from tertulia.protocol.tool_events import WebSearchBegin, WebSearchEnd
from tertulia.protocol.tool_spec import canonical_name
from tertulia.tools.output_truncation import bound

AnswerHistoryItem = AssistantMessage | Reasoning | ToolCall
_DELTAS = (TextDelta, ReasoningDelta)
_CALL_COST = 1_000
"""Characters that a tool call counts for besides its arguments, so that their number is bounded too."""
_MAX_REASON_BYTES = 10_000
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.-]")


class ModelAnswer(msgspec.Struct, frozen=True):
    """The whole answer, in order."""

    items: tuple[AnswerHistoryItem, ...]
    finished: AnswerEnd

    @property
    def calls(self) -> list[ToolCall]:
        """The tools it asks for."""
        return [item for item in self.items if isinstance(item, ToolCall)]


class ProviderError(ModelError):
    """The wire said that there will be no answer, and under which code."""

    def __init__(self, failed: AnswerFailure) -> None:
        super().__init__(bound(failed.message, _MAX_REASON_BYTES).text)
        self.code = _valid(failed.code)
        self.overflow = failed.overflow
        """The history does not fit the model's window: trimmed once, then reported."""
        self.another_may_help = failed.another_may_help
        """Another model may answer the same request, see `fallback.py`."""


async def request_answer(scope: TaskScope, wire: Wire, request: ModelRequest, *, aloud: bool = True) -> ModelAnswer:
    """Send a request and read its answer; ModelError when there is none. Without `aloud` no deltas are published.

    Nothing of an answer counts before it is whole: items are given back at the end, so that a stream that is
    cut or made again leaves no call behind.
    """
    reader = _AnswerReader(scope, aloud=aloud)
    # The generator is closed here, not by the garbage collector: closing it ends the request.
    async with aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            if isinstance(piece, _DELTAS):
                if len(piece.text) > LONG_CHARACTERS:
                    await reader.take_long(piece)
                else:
                    reader.hear(piece)
            elif (finished := reader.take(piece)) is not None:
                return ModelAnswer(tuple(reader.items), finished)
    raise ModelError(f"the stream of {wire.name} ended before the answer did")


def require_room(scope: TaskScope, wire: Wire) -> None:
    """Raise BudgetExceeded where the session may use no more: to be called before a request is recorded and sent."""
    spending = scope.around.spending
    if spending is None:
        return
    spending.require_room()
    if spending.budget.usd is not None:
        # A resumed conversation may have a model that was opened without a budget.
        spending.budget.require_price(wire.name, is_known=scope.around.cost(wire.name, NO_USAGE) is not None)


def charge_request(scope: TaskScope, wire: Wire, usage: Usage, cache_key: str) -> None:
    """Count what a request cost, and publish it."""
    cost = scope.around.cost(wire.name, usage)
    scope.charge(usage, cost)
    scope.publish(TokenCount(usage, wire.context_window, cache_key, cost))


class _AnswerReader:
    """Sorts the pieces of one stream."""

    def __init__(self, scope: TaskScope, *, aloud: bool) -> None:
        self.items: list[AnswerHistoryItem] = []
        self._scope = scope
        self._aloud = aloud
        self._offsets: dict[ItemId, int] = {}
        self._delta_bytes = self._item_bytes = self._delta_escapes = self._item_escapes = 0

    async def take_long(self, piece: TextDelta | ReasoningDelta) -> None:
        """A long piece as several short ones, so that the loop is not held."""
        for start in range(0, len(piece.text), LONG_CHARACTERS):
            self.hear(replace(piece, text=piece.text[start : start + LONG_CHARACTERS]))
            await asyncio.sleep(0)

    def take(self, piece: AnswerPiece) -> AnswerEnd | None:
        """Take anything but a delta; the end of the answer where this is it."""
        match piece:
            case AnswerItem(item):
                self._item_bytes = _bounded(self._item_bytes + _size(item))
                self._item_escapes = _bounded_escapes(self._item_escapes + sum(map(escape_cost, _texts(item))))
                self.items.append(_clean(item))
            case ProviderSearch(call_id, query):
                call_id = CallId(_valid(call_id))
                self._scope.publish(WebSearchBegin(call_id) if query is None else WebSearchEnd(call_id, _valid(query)))
            case RetryNotice(message):
                self.items.clear()
                self._scope.partial = None
                message = bound(message, _MAX_REASON_BYTES).text
                self._scope.publish(BackgroundEvent(message, discard_deltas=True))
            case AnswerWarning(message):
                self._scope.publish(WarningEvent(bound(_valid(message), _MAX_REASON_BYTES).text))
            case AnswerEnd():
                self._scope.partial = None
                return piece
            case AnswerFailure():
                raise ProviderError(piece)
            case _:
                pass
        return None

    def hear(self, piece: TextDelta | ReasoningDelta) -> None:
        """Take a delta: count it, and publish it where `aloud`. Called for every word of an answer."""
        text, item_id = piece.text, piece.item_id
        self._delta_bytes = _bounded(self._delta_bytes + len(text))
        if cost := escape_cost(text):
            self._delta_escapes = _bounded_escapes(self._delta_escapes + cost)
        if not self._aloud:
            return
        if not (text.isascii() and item_id.isascii()):
            text, item_id = _valid(text), ItemId(_valid(item_id))
        if isinstance(piece, TextDelta):
            self._scope.publish_passing(AgentMessageDelta(text, item_id, self._scope.hear(item_id, text)))
        else:
            offset = self._offsets.get(item_id, 0)
            self._offsets[item_id] = offset + len(text)
            self._scope.publish_passing(AgentReasoningDelta(text, item_id, offset))


def _bounded(size: int) -> int:
    if size > MAX_TEXT_BYTES:
        raise ModelError(f"the answer is longer than {MAX_TEXT_BYTES:,} characters")
    return size


def _bounded_escapes(cost: int) -> int:
    if cost > MAX_COST:
        raise ModelError(f"the answer has {TOO_MANY}")
    return cost


def _size(item: AnswerHistoryItem) -> int:
    return sum(map(len, _texts(item))) + (_CALL_COST if isinstance(item, ToolCall) else 0)


def _texts(item: AnswerHistoryItem) -> tuple[str, ...]:
    match item:
        case AssistantMessage():
            texts = [part.text if isinstance(part, TextPart) else part.image_url for part in item.parts]
            return *texts, item.opaque or ""
        case Reasoning():
            return item.text, item.opaque or ""
        case ToolCall():
            return item.call_id, item.arguments, item.opaque or ""


def _valid(text: str) -> str:
    """Text that can be encoded: a lone surrogate becomes a question mark."""
    if text.isascii():
        return text
    try:
        utf8_size(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _clean(item: AnswerHistoryItem) -> AnswerHistoryItem:
    """The item with only valid text, and calls that can be sent back: a legal name, an id that is not empty."""
    match item:
        case AssistantMessage():
            parts = tuple(_clean_part(part) for part in item.parts)
            return replace(item, id=ItemId(_valid(item.id)), parts=parts, opaque=_whole(item.opaque))
        case Reasoning():
            return replace(item, id=ItemId(_valid(item.id)), text=_valid(item.text), opaque=_whole(item.opaque))
        case ToolCall():
            name = canonical_name(_ILLEGAL.sub("_", item.name)[:64]) or "unnamed"
            call_id = CallId(_valid(item.call_id) or f"call_{item.id}")
            item_id, arguments = ItemId(_valid(item.id)), _valid(item.arguments)
            return replace(
                item, id=item_id, name=name, call_id=call_id, arguments=arguments, opaque=_whole(item.opaque)
            )


def _whole(opaque: str | None) -> str | None:
    """A provider's own form as it came; None where it would have to be changed."""
    return opaque if opaque is None or _valid(opaque) == opaque else None


def _clean_part(part: Part) -> Part:
    return TextPart(_valid(part.text)) if isinstance(part, TextPart) else ImagePart(_valid(part.image_url))


_CHARACTERS = 4
"""The estimated number of characters of a token."""


async def sample(scope: TaskScope, question: SamplingRequest) -> SamplingResult:
    """The answer, cut at about so many tokens. What it cost is charged to the task, and to its chain."""
    wire, storage = terms_in_use(scope).wire, scope.rights().storage_policy
    history = HistoryStore(HistoryLimits())
    history.kept_by = scope.conversation.history.kept_by
    history.append([_item(role, text) for role, text in question.messages])
    asking = RequestInputs(
        conversation_id=scope.conversation.id,
        wire=wire,
        override=question.system or "",
        tools=NO_TOOLS,
        storage=storage,
    )
    request = build_request(asking, history)
    characters = sum(len(text) for _, text in question.messages) + len(request.instructions)
    require_room(scope, wire)
    text, usage = await _stream_text(wire, request, question.max_tokens, characters // _CHARACTERS)
    scope.check_wanted()
    charge_request(scope, wire, usage, request.cache_key)
    return SamplingResult(text, wire.name)


async def _stream_text(wire: Wire, request: ModelRequest, max_tokens: int, input_tokens: int) -> tuple[str, Usage]:
    streamed, whole, room = "", "", max_tokens * _CHARACTERS
    async with aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            match piece:
                case TextDelta(text=text):
                    streamed += text
                    if len(streamed) > room:
                        # Closing the connection works as a limit with every provider; the cost is an estimate then.
                        return streamed[:room], Usage(input_tokens, 0, max_tokens, 0, input_tokens + max_tokens)
                case AnswerItem(item=AssistantMessage() as item):
                    whole += item.text
                case RetryNotice():
                    streamed = whole = ""
                case AnswerEnd(usage=usage):
                    return whole[:room], usage
                case AnswerFailure():
                    raise ProviderError(piece)
                case _:
                    pass
    raise ModelError(f"the stream of {wire.name} ended before the answer did")


def _item(role: str, text: str) -> Item:
    parts = (TextPart(text),)
    return UserMessage(new_item_id(), parts) if role == "user" else AssistantMessage(new_item_id(), parts)
