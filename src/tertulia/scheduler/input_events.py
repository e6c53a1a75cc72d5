"""Publishes what a task was asked: each message of its input once, whole, right after the task's beginning."""

from __future__ import annotations

from tertulia.conversation.task_scope import TaskScope, clean_texts
from tertulia.conversation.user_message import announce
from tertulia.protocol.message_events import MessageWay, UserMessageEvent
from tertulia.protocol.records import LONG_CHARACTERS
from tertulia.scheduler.plan import Branch

LongInput = list[UserMessageEvent]
"""Events that are not published yet, because redacting their texts takes a while."""

_NOTHING: LongInput = []


def publish_input(scope: TaskScope, branch: Branch) -> LongInput:
    """Publish the messages at once, with the beginning of the task; returns those that are too long for that."""
    plan = branch.plan
    if not plan.input:
        return _NOTHING
    how: MessageWay = "delegated" if plan.kind == "target" else "queued" if branch.chain.queued else "message"
    caller = None if branch.caller is None else branch.caller.conversation_id
    events = [announce(message, how, caller) for message in plan.input]
    if any(len(event.text) > LONG_CHARACTERS for event in events):
        return events
    for event in events:
        scope.publish(event)
    return _NOTHING


async def publish_long_input(scope: TaskScope, events: LongInput) -> None:
    """Publish the rest. Called again after a cancellation it goes on where it was stopped: none is lost or repeated."""
    while events:
        await clean_texts(scope, [events[0].text])
        scope.publish(events.pop(0))
