"""One question to the model of a conversation, beside it: no tools, no history, nothing of it is kept."""

from __future__ import annotations

from contextlib import aclosing

from tertulia.conversation.model_answer import ProviderError
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import ModelError
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.mcp.server_connection import SamplingRequest, SamplingResult
from tertulia.models.wire import AnswerEnd, AnswerFailure, AnswerItem, ModelRequest, RetryNotice, TextDelta, Wire
from tertulia.prompt.request import RequestInputs, build_request
from tertulia.prompt.tool_list import NO_TOOLS
from tertulia.protocol.events import TokenCount
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import AssistantMessage, Item, TextPart, UserMessage
from tertulia.protocol.usage import Usage

_CHARACTERS = 4
"""Characters of a token, about."""


async def sample(scope: TaskScope, question: SamplingRequest) -> SamplingResult:
    """The answer, cut at about so many tokens. What it cost is charged to the task, and to its chain."""
    wire, storage = scope.conversation.terms.wire, scope.rights().storage_policy
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
    text, usage = await _stream_text(wire, request, question.max_tokens, characters // _CHARACTERS)
    scope.check_wanted()
    scope.charge(usage)
    scope.publish(TokenCount(usage, wire.context_window, request.cache_key))
    return SamplingResult(text, wire.name)


async def _stream_text(wire: Wire, request: ModelRequest, max_tokens: int, input_tokens: int) -> tuple[str, Usage]:
    streamed, whole, room = "", "", max_tokens * _CHARACTERS
    async with aclosing(wire.stream(request)) as stream:
        async for piece in stream:
            match piece:
                case TextDelta(text=text):
                    streamed += text
                    if len(streamed) > room:
                        # Hanging up is the one bound that every provider knows; then the cost is an estimate.
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
