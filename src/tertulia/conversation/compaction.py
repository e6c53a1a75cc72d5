"""When a history is made smaller: on request, near the end of the model's window, over a limit, after an overflow.

On request and near the end of the window the model writes notes that replace the older part. The compact text is the
instruction of that one request; the conversation's own instructions are not touched, whatever becomes of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tertulia.conversation.model_answer import charge_request, request_answer, require_room
from tertulia.conversation.task_scope import TaskScope, terms_in_use
from tertulia.errors import ModelError
from tertulia.history.compaction import Compaction, compact, droppable_tokens, shorten_outputs, trim
from tertulia.history.sanitiser import mend
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.history.summariser import ExtractiveSummariser
from tertulia.history.view import HistoryView
from tertulia.models.choice import NO_MODEL
from tertulia.prompt.request import RequestInputs, build_request, builtin_text, fingerprint_request
from tertulia.prompt.tool_list import NO_TOOLS
from tertulia.protocol.events import BackgroundEvent, HistoryCompacted, WarningEvent
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import AssistantMessage, Item, TextPart, UserMessage
from tertulia.protocol.records import recorded_model

CompactionTrigger = Literal["request", "limit", "overflow", "window"]
_OVERFLOW_SHARE = 0.5
"""After an overflow the history is trimmed to this share of the window: the provider counts tokens differently."""


_GOAL_SHARE = 0.6
"""Near the end of the window the history is brought down to this part of where compaction begins: each rewrite
invalidates the provider's prompt cache, so rewrites should be rare."""
_GROWTH_SHARE = 0.05
"""Less than this part of the window is not worth a rewrite, and a history that could not be brought down must grow by
as much before the next attempt."""


async def make_room(scope: TaskScope, begins_at: int, beside: int) -> None:
    """Bring a history near the end of the model's window down: first old tool outputs, then old turns.

    `begins_at`: the tokens of a history above which this is done; `beside`: those of the instructions and tools. An
    event says so before anything is changed.
    """
    conversation, window = scope.conversation, terms_in_use(scope).wire.context_window
    history, goal, least = conversation.history, int(begins_at * _GOAL_SHARE), int(window * _GROWTH_SHARE)
    # One message may be as long as the window: nothing else is worth a rewrite then, or the model's time.
    is_worth_it = droppable_tokens(history) >= least
    if is_worth_it:
        scope.publish(BackgroundEvent(_notice(history.approx_tokens + beside, window)))
        done = shorten_outputs(history)
        if done.compacted:
            _publish_compaction(scope, done, "window")
        if history.approx_tokens > goal and droppable_tokens(history) >= least:
            _publish_compaction(scope, await _summarise(scope, goal, newest_round=True), "window")
    is_still_full = history.approx_tokens > begins_at
    conversation.compact_above = history.approx_tokens + least if is_still_full else 0


def _notice(tokens: int, window: int) -> str:
    return (
        f"the conversation fills {100 * tokens // window} % of the model's window of {window:,} tokens: older tool "
        "outputs are shortened and, if that is not enough, older turns are replaced by notes"
    )


def trim_to_limits(scope: TaskScope) -> None:
    """Trim when a configured limit is exceeded, and publish that."""
    history = scope.conversation.history
    if history.over_limit():
        _publish_compaction(scope, trim(history), "limit")


def trim_for_overflow(scope: TaskScope) -> bool:
    """Trim because the model refused the history as too long; returns whether anything could be removed."""
    history = scope.conversation.history
    window = terms_in_use(scope).wire.context_window
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
        done.compacted,
        done.before_tokens,
        done.after_tokens,
        done.removed_items,
        trigger,
        done.reason,
        done.shortened_outputs,
    )


_COMPACT_REQUEST = "<compact>\nWrite the notes now.\n</compact>"


class ModelSummariser:
    """Asks the conversation's own model, without tools."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        """The notes. ModelError where the model has none, BudgetExceeded where it may not be asked."""
        scope, terms = self._scope, terms_in_use(self._scope)
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
        require_room(scope, terms.wire)
        request = build_request(asking, older, [question])
        scope.conversation.note(
            fingerprint_request(
                (scope.conversation.id, scope.task_id),
                request.instructions,
                request.tools_json,
                older.snapshot(),
                override=asking.override,
                storage=scope.storage(),
                model=None if scope.fallback is None else recorded_model(terms.wire.name),
                summarises=_ranges(scope.conversation.history.snapshot(), items),
            )
        )
        answer = await request_answer(scope, terms.wire, request, aloud=False)
        charge_request(scope, terms.wire, answer.finished.usage, request.cache_key)
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
    """Replace all but the newest round by notes, or leave the history as it is and say why."""
    done = await _summarise(scope, 0, newest_round=False)
    _publish_compaction(scope, done, "request")
    return done


async def _summarise(scope: TaskScope, target_tokens: int, *, newest_round: bool) -> Compaction:
    """Replace older turns by the model's notes, or by a local summary where it writes none: the room is needed."""
    history = scope.conversation.history
    try:
        return await compact(history, ModelSummariser(scope), target_tokens=target_tokens, newest_round=newest_round)
    except ModelError as error:
        scope.publish(
            WarningEvent(f"the model wrote no notes ({error.message}); a local summary replaces them", error.code)
        )
        return await compact(history, ExtractiveSummariser(), target_tokens=target_tokens, newest_round=newest_round)
