"""Compaction on request: a turn of its own, in which the model writes the notes that replace the older part.

The compact text is the instruction of that one request. The conversation's own instructions are not touched,
whatever becomes of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from tertulia.conversation.answer import ask
from tertulia.conversation.context import NATIVE
from tertulia.conversation.floor import Floor
from tertulia.conversation.trimming import compacted_event
from tertulia.errors import ModelError
from tertulia.history.compaction import Compaction, compact
from tertulia.history.sanitiser import mend
from tertulia.history.store import HistoryLimits, HistoryStore
from tertulia.history.summariser import ExtractiveSummariser
from tertulia.history.view import HistoryView
from tertulia.models.wire import TOUR
from tertulia.prompt.assembly import Asking, build_request
from tertulia.prompt.fingerprint import fingerprint
from tertulia.prompt.instructions import builtin
from tertulia.prompt.tool_list import NO_TOOLS
from tertulia.protocol.events import TokenCount, WarningEvent
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.items import AssistantMessage, Item, TextPart, UserMessage

_ASK = "<compact>\nWrite the notes now.\n</compact>"


class ModelSummariser:
    """Asks the conversation's own model, without tools."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    async def summarise(self, items: Sequence[Item], budget_tokens: int) -> str:
        """The notes. ModelError where the model has none."""
        floor, terms = self._floor, self._floor.talk.terms
        if terms.backend != NATIVE and terms.wire.name == TOUR:
            # What was said was said by a real agent: nothing may take its place that a script makes up.
            raise ModelError("no model is set up")
        older = older_part(items)
        older.kept_by = floor.talk.history.kept_by
        question = UserMessage(new_item_id(), (TextPart(_ASK),), injected=True)
        asking = Asking(
            conversation_id=floor.talk.id,
            wire=terms.wire,
            override=builtin("compact"),
            tools=NO_TOOLS,
            storage=floor.rights().storage_policy,
        )
        request = build_request(asking, older, [question])
        floor.talk.note(
            fingerprint(
                (floor.talk.id, floor.task_id),
                request.instructions,
                request.tools_json,
                older.snapshot(),
                override=asking.override,
                storage=floor.storage(),
                summarises=_ranges(floor.talk.history.snapshot(), items),
            )
        )
        answer = await ask(floor, terms.wire, request, aloud=False)
        floor.charge(answer.finished.usage)
        floor.publish(TokenCount(answer.finished.usage, terms.wire.context_window, request.cache_key))
        return "\n\n".join(item.text for item in answer.items if isinstance(item, AssistantMessage))


def older_part(items: Sequence[Item]) -> HistoryStore:
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


async def compact_by_model(floor: Floor) -> Compaction:
    """Replace all but the newest round by notes, or leave the history as it is and say why.

    The model's notes, or a local summary where it has none: whoever compacts needs the room.
    """
    history = floor.talk.history
    try:
        done = await compact(history, ModelSummariser(floor), target_tokens=0)
    except ModelError as error:
        floor.publish(
            WarningEvent(f"the model wrote no notes ({error.message}); a local summary stands in", error.code)
        )
        done = await compact(history, ExtractiveSummariser(), target_tokens=0)
    floor.talk.note_rewrites(done.rewrites)
    floor.publish(compacted_event(done, "request"))
    return done
