"""From a message to its answer: checked, queued, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import InvalidParamsError
from tertulia.events.bus import EventBus
from tertulia.protocol.events import Event
from tertulia.protocol.ids import new_item_id
from tertulia.protocol.inputs import Message, check_text
from tertulia.scheduler.plan import Chain, TaskPlan
from tertulia.scheduler.queue import Scheduler
from tertulia.scheduler.reply import Reply

MAX_MESSAGE_ID = 256


def submit(scheduler: Scheduler, conversation: ConversationState, message: Message) -> Chain:
    """Queue a message. Refused (empty, too long, busy, closed) it leaves nothing behind."""
    message_id = message.message_id
    if message_id is not None and not 0 < len(check_text(message_id, "message_id")) <= MAX_MESSAGE_ID:
        raise InvalidParamsError(f"message_id must have 1 to {MAX_MESSAGE_ID} characters")
    override = message.base_instructions_override
    if override is not None:
        check_text(override, "base_instructions_override")
    said = to_user_message(message.text, message.items, cwd=conversation.terms.cwd, sender=message.sender)
    schema = None if message.output_schema is None else _as_text(message.output_schema)
    plan = TaskPlan(
        conversation.id,
        "user",
        (said,),
        base_instructions_override=override,
        output_schema=schema,
        task_type=message.task_type,
        previous_result=message.previous_result,
        sub_id=new_sub_id(),
    )
    return scheduler.submit(plan, message_id=message_id, if_busy=message.if_busy or "wait")


def _as_text(schema: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(schema).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParamsError(f"output_schema is not a JSON object: {error}") from None


def new_sub_id() -> str:
    """The id of one submission; its first task's events carry it."""
    return f"sub/{new_item_id()}"


async def wait_for_reply(scheduler: Scheduler, chain: Chain) -> Reply:
    """Wait for the whole chain. The last one who gives up waiting stops it."""
    chain.waiters += 1
    try:
        return await asyncio.shield(chain.answer)
    except asyncio.CancelledError:
        if chain.waiters == 1:
            scheduler.stop(chain)
        raise
    finally:
        chain.waiters -= 1


async def submit_and_wait(
    scheduler: Scheduler,
    bus: EventBus,
    conversation: ConversationState,
    message: Message,
    hear: Callable[[Event], None],
) -> Reply:
    """The answer to a message; `hear` is told every event of it first. The last one who gives up waiting stops it."""
    async with bus.subscribe() as news:
        chain = submit(scheduler, conversation, message)
        chain.answer.add_done_callback(lambda _: news.finish())
        chain.waiters += 1
        try:
            async for event in news:
                if event.task_id in chain.task_ids:
                    hear(event)
        finally:
            chain.waiters -= 1
            if not chain.answer.done() and not chain.waiters:
                scheduler.stop(chain)
    return await wait_for_reply(scheduler, chain)


async def submit_and_stream(
    scheduler: Scheduler, bus: EventBus, conversation: ConversationState, message: Message
) -> AsyncGenerator[Event, None]:
    """The events of a message and of everything it causes, up to its last one. Leaving early stops the chain."""
    # Subscribed before it is submitted: nothing can be missed.
    async with bus.subscribe() as news:
        chain = submit(scheduler, conversation, message)
        chain.waiters += 1
        chain.answer.add_done_callback(lambda _: news.finish())
        try:
            async for event in news:
                if event.task_id in chain.task_ids or event.type == "subscriber_lagged":
                    yield event
        finally:
            chain.waiters -= 1
            if not chain.answer.done() and not chain.waiters:
                scheduler.stop(chain)
