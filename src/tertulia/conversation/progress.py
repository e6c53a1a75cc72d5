"""What an agent does, told in batches: five events, or what came within a fifth of a second."""

from __future__ import annotations

import asyncio

from tertulia.conversation.floor import Floor
from tertulia.executors.executor import RunInterrupted, Step
from tertulia.executors.step_events import StepEvents
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, EventData
from tertulia.protocol.items import AssistantMessage, text_parts
from tertulia.protocol.tool_events import ToolCallBegin

BATCH = 5
PERIOD_S = 0.2


class Progress:
    """The way from the steps of one run to the floor. Order is kept; a whole answer waits for nothing."""

    __slots__ = ("_floor", "_newsroom", "_timer", "_waiting")

    def __init__(self, floor: Floor, newsroom: StepEvents) -> None:
        self._floor = floor
        self._newsroom = newsroom
        self._waiting: list[EventData] = []
        self._timer: asyncio.TimerHandle | None = None
        floor.last_words = self.break_off

    def tell(self, step: Step) -> None:
        """What this step comes to."""
        for event in self._newsroom.tell(step):
            self._add(event)

    def close(self) -> None:
        """Nothing waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._tell(event)

    def break_off(self) -> None:
        """The run has ended and did not say so: what it began is over. Again is nothing."""
        self.tell(RunInterrupted())
        self.close()

    def _add(self, event: EventData) -> None:
        self._waiting.append(event)
        if len(self._waiting) >= BATCH or isinstance(event, AgentMessage):
            self.close()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self.close)

    def _tell(self, event: EventData) -> None:
        floor = self._floor
        match event:
            case AgentMessage(text, item_id):
                floor.forget_partial()
                item = AssistantMessage(item_id, text_parts(text))
                floor.say([item])
                floor.announce(item)
            case AgentMessageDelta(text, item_id):
                floor.hear(item_id, text)
                floor.publish(event)
            case ToolCallBegin():
                floor.tally.tool_calls += 1
                floor.publish(event)
            case _:
                floor.publish(event)
