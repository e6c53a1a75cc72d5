"""Compaction on request: a turn of its own, in which the model writes the notes that replace the older part.

The compact text is the instruction of that one request. The conversation's own instructions are not touched,
whatever becomes of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tertulia.conversation.model_answer import request_answer
from tertulia.conversation.task_scope import TaskScope
from tertulia.errors import ModelError
from tertulia.history.compaction import Compaction, compact, trim
from tertulia.history.sanitiser import mend
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.history.summariser import ExtractiveSummariser
from tertulia.history.view import HistoryView
from tertulia.models.choice import NO_MODEL
from tertulia.prompt.request import RequestInputs, build_request, builtin_text, fingerprint_request
from tertulia.prompt.tool_list import NO_TOOLS
from tertulia.protocol.events import HistoryCompacted, TokenCount, WarningEvent
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import AssistantMessage, Item, TextPart, UserMessage

CompactionTrigger = Literal["request", "limit", "overflow"]
_OVERFLOW_SHARE = 0.5
"""After an overflow the history may fill this part of the window: the provider's count is not ours."""


def trim_to_limits(scope: TaskScope) -> None:
    """Trim when a configured limit is exceeded, and publish that."""
    history = scope.conversation.history
    if history.over_limit():
        _publish_compaction(scope, trim(history), "limit")


def trim_for_overflow(scope: TaskScope) -> bool:
    """Trim because the model refused the history as too long; returns whether anything could be removed."""
    history = scope.conversation.history
    window = scope.conversation.terms.wire.context_window
    target = min(int(window * _OVERFLOW_SHARE), int(history.approx_tokens * _OVERFLOW_SHARE))
    done = trim(history, limits=HistoryLimits(max_tokens=target))
    _publish_compaction(scope, done, "overflow")
    return done.compacted


def _publish_compaction(scope: TaskScope, done: Compaction, trigger: CompactionTrigger) -> None:
    scope.conversation.note_rewrites(done.rewrites)
    scope.publish(compacted_event(done, trigger))


def compacted_event(done: Compaction, trigger: CompactionTrigger) -> HistoryCompacted:
    """The event that reports a compaction."""
    return HistoryCompacted(
        done.compacted, done.before_tokens, done.after_tokens, done.removed_items, trigger, done.reason
    )


_COMPACT_REQUEST = "<compact>\nWrite the notes now.\n</compact>"


class ModelSummariser:
    """Asks the conversation's own model, without tools."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        """The notes. ModelError where the model has none."""
        scope, terms = self._scope, self._scope.conversation.terms
        if terms.wire.name == NO_MODEL:
            raise ModelError("no model is set up")
        older = history_to_summarise(items)
        older.kept_by = scope.conversation.history.kept_by
        question = UserMessage(new_item_id(), (TextPart(_COMPACT_REQUEST),), injected=True)
        asking = RequestInputs(
            conversation_id=scope.conversation.id,
            wire=terms.wire,
            override=builtin_text("compact"),
            tools=NO_TOOLS,
            storage=scope.rights().storage_policy,
        )
        request = build_request(asking, older, [question])
        scope.conversation.note(
            fingerprint_request(
                (scope.conversation.id, scope.task_id),
                request.instructions,
                request.tools_json,
                older.snapshot(),
                override=asking.override,
                storage=scope.storage(),
                summarises=_ranges(scope.conversation.history.snapshot(), items),
            )
        )
        answer = await request_answer(scope, terms.wire, request, aloud=False)
        scope.charge(answer.finished.usage)
        usage, wire = answer.finished.usage, terms.wire
        cost = scope.around.cost(wire.name, usage)
        scope.publish(TokenCount(usage, wire.context_window, request.cache_key, cost))
        return "\n\n".join(item.text for item in answer.items if isinstance(item, AssistantMessage))


def history_to_summarise(items: Sequence[Item]) -> HistoryStore:
    """What is to be summarised, as the model reads it."""
    older = HistoryStore(HistoryLimits())
    older.append(mend(items, "no result was recorded"))
    return older


def _ranges(history: HistoryView, items: Sequence[Item]) -> tuple[tuple[int, int], ...]:
    """Where these items stand in the history."""
    wanted = set(map(id, items))
    ranges: list[tuple[int, int]] = []
    for at, item in enumerate(item for segment in history.segments() for item in segment.items):
        if id(item) in wanted:
            begins = ranges.pop()[0] if ranges and ranges[-1][1] == at else at
            ranges.append((begins, at + 1))
    return tuple(ranges)


async def compact_by_model(scope: TaskScope) -> Compaction:
    """Replace all but the newest round by notes, or leave the history as it is and say why.

    The model's notes, or a local summary where it has none: the caller needs the room.
    """
    history = scope.conversation.history
    try:
        done = await compact(history, ModelSummariser(scope), target_tokens=0)
    except ModelError as error:
        scope.publish(
            WarningEvent(f"the model wrote no notes ({error.message}); a local summary stands in", error.code)
        )
        done = await compact(history, ExtractiveSummariser(), target_tokens=0)
    scope.conversation.note_rewrites(done.rewrites)
    scope.publish(compacted_event(done, "request"))
    return done
