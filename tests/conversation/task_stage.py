"""One task of one conversation, without a scheduler."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import CostTotals, TaskScope, TaskServices
from tertulia.conversation.toolbox import Toolbox
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.journal import Journal, NoJournal
from tertulia.events.subscription import Subscription
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.models.wire import AnswerPiece, ModelRequest
from tertulia.protocol.events import Event
from tertulia.protocol.ids import TaskId
from tertulia.tools.registry import ToolRegistry
from tests.conversation.conversations import make_conversation, terms
from tests.events.scripted import SESSION, StillClock, drain

SCOPE = EventScope("sub/1", None, TaskId("task"), "trace", "span")


class TaskStage:
    """The scope of a task, what it stands on, and what was published."""

    def __init__(self, conversation: ConversationState | None = None, journal: Journal | None = None) -> None:
        self.clock = StillClock(10.0)
        self.bus = EventBus(SESSION, self.clock, journal or NoJournal())
        self.conversation = conversation or make_conversation(clock=self.clock)
        around = TaskServices(self.bus, self.clock, Toolbox(ToolRegistry([])), 5.0, {})
        self.tally = CostTotals()
        self.scope = TaskScope(
            TaskId("task"), self.conversation, SCOPE, around, lambda: self.conversation.terms.rights, self.tally
        )
        self._news: Subscription = self.bus.subscribe()

    def told(self) -> list[Event]:
        """What was published since the last time."""
        return drain(self._news)

    def types(self) -> list[str]:
        return [event.type for event in self.told()]


class Pieces(ScriptedModel):
    """A wire that yields exactly these, and knows whether it was hung up."""

    def __init__(self, *pieces: AnswerPiece | BaseException) -> None:
        super().__init__([])
        self._pieces = pieces
        self.hung_up = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:  # type: ignore[override]
        try:
            for piece in self._pieces:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.hung_up = True


def task_stage(**fields: Any) -> TaskStage:
    """With terms made of what is given."""
    clock = StillClock(10.0)
    return TaskStage(make_conversation(terms(**fields), clock=clock))
