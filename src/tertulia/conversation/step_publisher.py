"""Publishes the steps of an executor as events of a task, several at once where they come quickly."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from tertulia.conversation.task_scope import TaskScope, clean_texts
from tertulia.executors.executor import AgentDelta, AgentText, RunInterrupted, Step, Thought, ThoughtDelta
from tertulia.executors.step_events import StepEvents
from tertulia.protocol.events import AgentMessage, AgentMessageDelta, AgentReasoningDelta, EventData
from tertulia.protocol.items import AssistantMessage, text_parts
from tertulia.protocol.records import LONG_CHARACTERS
from tertulia.protocol.tool_events import ToolCallBegin

BATCH_EVENTS = 5
BATCH_PERIOD_S = 0.2


class StepPublisher:
    """Publishes the steps of one run through the task scope, in order; a whole answer is published at once."""

    __slots__ = ("_characters", "_scope", "_step_events", "_timer", "_waiting")

    def __init__(self, scope: TaskScope, step_events: StepEvents) -> None:
        self._scope = scope
        self._step_events = step_events
        self._waiting: list[EventData] = []
        self._characters = 0
        """Of the texts that wait: each is searched for tokens when it is published, which holds the loop."""
        self._timer: asyncio.TimerHandle | None = None
        scope.call_at_break(self.break_off)

    async def tell_any(self, step: Step) -> None:
        """The same for a step of which a text may be long: a piece of one becomes several, and the loop is not held."""
        match step:
            case AgentDelta(text=text) | ThoughtDelta(text=text) if len(text) > LONG_CHARACTERS:
                for start in range(0, len(text), LONG_CHARACTERS):
                    self._scope.check_wanted()
                    self.tell(replace(step, text=text[start : start + LONG_CHARACTERS]))
                    await asyncio.sleep(0)
            case AgentText(text=text) | Thought(text=text):
                await clean_texts(self._scope, [text])
                self._scope.check_wanted()
                self.tell(step)
            case _:
                self.tell(step)

    def tell(self, step: Step) -> None:
        """Add the events of this step."""
        for event in self._step_events.tell(step):
            self._add(event)

    def close(self) -> None:
        """Publish the events that still wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting, self._characters = self._waiting, [], 0
        for event in waiting:
            self._tell(event)

    def break_off(self) -> None:
        """The run ended without saying so: publish the ends of what it began. Calling it twice has no effect."""
        self.tell(RunInterrupted())
        self.close()

    def _add(self, event: EventData) -> None:
        self._waiting.append(event)
        if isinstance(event, AgentMessageDelta | AgentReasoningDelta):
            self._characters += len(event.text)
        many = len(self._waiting) >= BATCH_EVENTS or self._characters >= LONG_CHARACTERS
        if many or isinstance(event, AgentMessage):
            self.close()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_PERIOD_S, self.close)

    def _tell(self, event: EventData) -> None:
        scope = self._scope
        match event:
            case AgentMessage(text, item_id):
                scope.partial = None
                item = AssistantMessage(item_id, text_parts(text))
                scope.say([item])
                scope.announce(item)
            case AgentMessageDelta(text, item_id):
                scope.hear(item_id, text)
                scope.publish(event)
            case ToolCallBegin():
                scope.tally.tool_calls += 1
                scope.publish(event)
            case _:
                scope.publish(event)
