"""The one way in: a message is checked, queued, followed and answered here, whichever surface it came from.

Python, JSON-RPC, ACP, Codex, MCP and the command line submit through `submit`, so what they promise is the same: a
refused message leaves nothing behind, an answer comes after every event of its task and carries no session token, and
a caller answers approvals only where it said so. `SessionActivity` says which tasks run and wait. Not here: reading a
request and writing an answer, which each surface does in its own format.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, nullcontext

from tertulia.conversation.output_check import OutputCheck, check_by_schema
from tertulia.conversation.state import ConversationState
from tertulia.conversation.task_scope import TaskScope
from tertulia.conversation.terms import NATIVE
from tertulia.conversation.user_message import announce, to_user_message
from tertulia.errors import InvalidParamsError, NoModelError, NotFoundError, NotRunningError
from tertulia.events.bus import EventScope
from tertulia.events.metrics import MetricsTotals
from tertulia.events.subscription import Subscription
from tertulia.models.choice import NoModel
from tertulia.protocol.events import (
    AgentMessage,
    ConversationContextChanged,
    Event,
    HistoryCompacted,
    TaskComplete,
    TaskStarted,
    TurnAborted,
)
from tertulia.protocol.ids import ConversationId, TaskId, new_item_id
from tertulia.protocol.inputs import CancelTask, ImageInput, Message, StopScope, check_text
from tertulia.protocol.items import ImagePart, UserMessage
from tertulia.protocol.message_events import MessageTakenBack, UserMessageEvent
from tertulia.protocol.records import LONG_CHARACTERS, SubmissionRecord
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.protocol.tool_events import ToolCallEnd
from tertulia.scheduler.plan import Chain, TaskPlan
from tertulia.scheduler.reply import Reply
from tertulia.session import describe
from tertulia.session.answers import Answer, CompactAnswer, TaskInfo
from tertulia.session.inputs import parse
from tertulia.session.parts import SessionParts

MAX_MESSAGE_ID = 256


class Submission:
    """A message that was accepted: its task, its events and its one answer.

    Its chain runs as long as at least one caller waits for the reply or reads the events; the last one that gives up
    stops it, unless it was detached.
    """

    def __init__(
        self,
        parts: SessionParts,
        chain: Chain,
        *,
        item: UserMessage | None = None,
        subscription: Subscription | None = None,
        presence: AbstractContextManager[None] | None = None,
    ) -> None:
        self._parts = parts
        self._chain = chain
        self.item = item
        """What the model will read; None where the same message id was submitted before."""
        self._subscription = subscription
        self._presence = presence or nullcontext()

    @property
    def task_id(self) -> TaskId:
        """The first task of the chain."""
        return self._chain.task_id

    async def reply(self) -> Reply:
        """Wait for the whole chain. All its events were published before; what is returned has no session tokens."""
        chain = self._chain
        chain.waiters += 1
        try:
            reply = await chain.wait()
        except asyncio.CancelledError:
            if chain.waiters == 1:
                self.stop()
            raise
        finally:
            chain.waiters -= 1
        return await self._parts.redactor.without_tokens_in_steps(reply)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Every event of the message and of all that it causes, up to the last; for one submitted with `follow`."""
        chain, subscription = self._chain, self._subscription
        assert subscription is not None, "submitted without `follow`"
        chain.answer.add_done_callback(lambda _: subscription.finish())
        chain.waiters += 1
        try:
            with self._presence:
                async for event in subscription:
                    if event.task_id in chain.tasks or event.type == "subscriber_lagged":
                        yield event
        finally:
            subscription.close()
            chain.waiters -= 1
            if not chain.answer.done() and not chain.waiters:
                self.stop()

    def stop(self) -> bool:
        """Stop the chain, whether it runs or still waits; False where it was over."""
        return self._parts.scheduler.stop(self._chain)

    def detach(self) -> None:
        """Let it run to its end, even if every caller gives up."""
        self._chain.waiters += 1

    async def record(self) -> None:
        """Return when it is committed that the message was accepted, so that a task id given out outlives a crash."""
        chain = self._chain
        if not chain.answer.done():
            conversation = self._parts.conversations.find(chain.conversation_id)
            conversation.note(SubmissionRecord(conversation.id, chain.task_id, chain.trace_id, chain.message))
            await self._parts.journal.settle()


def submit(
    parts: SessionParts,
    conversation: ConversationState,
    message: Message,
    *,
    output: OutputCheck | None = None,
    follow: bool = False,
    approver: bool = False,
) -> Submission:
    """Queue a message. Refused (empty, too long, busy, closed) it leaves nothing behind.

    `output`: what the answer must be, where the message itself does not say it. `follow`: its events will be read.
    `approver`: and their reader answers the approvals that show there.
    """
    plan = _plan(conversation, message, output)
    _require_model(conversation)
    # Subscribed before it is submitted: no event can be missed.
    subscription = parts.bus.subscribe() if follow else None
    try:
        chain = parts.scheduler.submit(plan, message_id=message.message_id, if_busy=message.if_busy or "wait")
    except BaseException:
        if subscription is not None:
            subscription.close()
        raise
    presence = parts.command_services.approvals.attended(conversation.id) if approver else None
    item = plan.input[0] if chain.task_id == plan.task_id else None
    return Submission(parts, chain, item=item, subscription=subscription, presence=presence)


def _require_model(conversation: ConversationState) -> None:
    wire = conversation.terms.wire
    if isinstance(wire, NoModel) and conversation.terms.backend == NATIVE:
        raise NoModelError(wire.reason)


def submit_plan(parts: SessionParts, plan: TaskPlan) -> Submission:
    """Queue a task that is not a client's message: a compaction, a conversation tool called from outside."""
    return Submission(parts, parts.scheduler.submit(plan))


def _plan(conversation: ConversationState, message: Message, output: OutputCheck | None) -> TaskPlan:
    message_id = message.message_id
    if message_id is not None and not 0 < len(check_text(message_id, "message_id")) <= MAX_MESSAGE_ID:
        raise InvalidParamsError(f"message_id must have 1 to {MAX_MESSAGE_ID} characters")
    override = message.base_instructions_override
    if override is not None:
        check_text(override, "base_instructions_override")
    item = to_user_message(message.text, message.items, cwd=conversation.terms.cwd, sender=message.sender)
    if message.output_schema is not None:
        if output is not None:
            raise InvalidParamsError("give output_schema or output_type, not both")
        output = check_by_schema(message.output_schema)
    return TaskPlan(
        conversation.id,
        "user",
        (item,),
        base_instructions_override=override,
        output=output,
        task_type=message.task_type,
        previous_result=message.previous_result,
        sub_id=new_sub_id(),
    )


def new_sub_id() -> str:
    """The id of one submission; its first task's events carry it."""
    return f"sub/{new_item_id()}"


async def steer(parts: SessionParts, conversation: ConversationState, text: str) -> None:
    """Add a message to the task that runs; the model reads it before its next request. NotRunning where none does."""
    _require_task(conversation)
    message = to_user_message(text, None, cwd=conversation.terms.cwd)
    clean = [(text, await parts.bus.clean_text(text))] if len(text) > LONG_CHARACTERS else ()
    _require_task(conversation)
    conversation.queue_input(message)
    parts.bus.publish(announce(message, "steer"), _scope_of_task(parts, conversation), clean_texts=clean)
    await parts.journal.settle()


def _require_task(conversation: ConversationState) -> None:
    if not conversation.awaiting and (conversation.task is None or conversation.task.over):
        raise NotRunningError("there is no running task to steer; send a message instead")


def _scope_of_task(parts: SessionParts, conversation: ConversationState) -> EventScope:
    """The ids of the task that runs in a conversation, or of the one that waits there for others."""
    branch = parts.scheduler.occupancy.holder(conversation.id)
    if branch is None:
        return EventScope("", conversation.id)
    plan = branch.plan
    task_id = plan.task_id if branch.state == "running" else None
    return EventScope(plan.sub_id or f"conv/{plan.task_id}", conversation.id, task_id, branch.chain.trace_id)


async def compact(parts: SessionParts, conversation: ConversationState) -> CompactAnswer:
    """Have the model replace the older part of the history by notes, as a task of its own."""
    # Imported here, as with a history that is too long: most sessions are shorter.
    from tertulia.conversation.compaction import compact_by_model
    from tertulia.history.compaction import Compaction

    results: list[Compaction] = []

    async def work(scope: TaskScope) -> None:
        results.append(await compact_by_model(scope))

    reply = await submit_plan(parts, TaskPlan(conversation.id, "user", work=work, sub_id=new_sub_id())).reply()
    if results and reply.status == "completed":
        done = results[0]
        return CompactAnswer(done.compacted, done.before_tokens, done.after_tokens, done.reason)
    tokens = conversation.history.approx_tokens
    reason = reply.error.message if reply.error else reply.status
    return CompactAnswer(compacted=False, before_tokens=tokens, after_tokens=tokens, reason=reason)


class SessionActivity:
    """Event numbers, tasks, and whether the session is idle."""

    __slots__ = ("_parts",)

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    @property
    def began_after(self) -> int:
        """The number of the last event before this run of the session; 0 for a new one."""
        return self._parts.began_after

    @property
    def last_seq(self) -> int:
        """The number of the last event that was committed and delivered."""
        return self._parts.bus.last_seq

    @property
    def is_idle(self) -> bool:
        """Whether no client follows the events, and no task runs or waits."""
        scheduler = self._parts.scheduler
        return not (self._parts.bus.followed or scheduler.active or scheduler.queued())

    @property
    def storage(self) -> StoragePolicy:
        """The strictest storage policy of all its conversations."""
        return strictest(*(conversation.storage for conversation in self._parts.conversations))

    @property
    def totals(self) -> MetricsTotals:
        """What the session did and cost since it was entered."""
        return self._parts.bus.metrics.session

    @property
    def conversations(self) -> int:
        """How many conversations are open."""
        return len(self._parts.conversations)

    @property
    def running(self) -> int:
        """The number of tasks that run now."""
        return len(self._parts.registry)

    @property
    def questions(self) -> int:
        """How many approvals and elicitations wait for a person."""
        services = self._parts.made.command_services
        return 0 if services is None else len(services.approvals.pending()) + len(services.elicitations.pending())

    @property
    def current_task(self) -> TaskId | None:
        """The first task of the chain that runs; None where none does."""
        active = self._parts.scheduler.active
        return active[0].task_id if active else None

    @property
    def tasks(self) -> list[TaskInfo]:
        """What runs, then what waits, the next one first."""
        return describe.tasks(self._parts)

    async def task(self, task_id: str) -> TaskInfo:
        """A task that runs, waits or has ended lately; NotFound."""
        return describe.task(self._parts, task_id)

    def cancel(self, task_id: str, *, scope: StopScope = "chain") -> bool:
        """Stop the chain of a task, or its branch, whether it runs or waits; False where there was nothing to stop.

        InvalidParams for another scope.
        """
        params = parse(CancelTask, {"task_id": task_id, "scope": scope})
        return self._parts.scheduler.cancel(TaskId(params.task_id), params.scope)

    def watch_conversations(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called when the list of conversations or a title in it has changed; returns what ends that.

        Not by events: a reader of those keeps an idle session from being closed.
        """
        return self._parts.conversations.watchers.add(changed)

    def watch_content(self, changed: Callable[[ConversationId], None]) -> Callable[[], None]:
        """Have `changed` called with the id of each conversation in which something was said or that changed otherwise.

        Returns what ends that. It keeps no idle session from being closed, and ends with the session.
        """
        events = self._parts.bus.subscribe(background=True, passing=False, types=_CONTENT)
        self._parts.nursery.start(_tell_changes(events, changed), "watch conversations")
        return events.close

    def call_at_close(self, callback: Callable[[], object]) -> None:
        """Have this called once, as soon as the session begins to close and before its record is free for others."""
        self._parts.at_close.append(callback)

    @property
    def continued(self) -> list[Submission]:
        """The messages whose tasks a crash cut and that go on, or went on, in this run; each gives its reply."""
        return [Submission(self._parts, chain) for chain in self._parts.scheduler.cut_chains.chains]

    def go_on(self) -> list[Submission]:
        """Let what a crash cut run, where entering the session did not, as its client was to attend first."""
        self._parts.scheduler.cut_chains.begin()
        return self.continued

    async def flush(self) -> None:
        """Return when all events so far are committed and delivered, and all else that is kept is committed."""
        await self._parts.bus.flush()
        await self._parts.journal.settle()


_TURNS = (UserMessageEvent, AgentMessage, ToolCallEnd, TaskStarted, TaskComplete, TurnAborted)
_CONTENT = frozenset(kind.type for kind in (*_TURNS, HistoryCompacted, ConversationContextChanged))
"""The types of the events by which the record of a conversation, or its status, becomes another."""


async def _tell_changes(events: Subscription, changed: Callable[[ConversationId], None]) -> None:
    async for event in events:
        if event.conversation_id is not None:
            changed(event.conversation_id)


# ── taking one back ─────────────────────────────────────────────────────────────────────────────────────────────


class TakeBackAnswer(Answer, frozen=True):
    """`conversation/take_back`: the message as it was sent, so that it can be changed and sent again."""

    task_id: TaskId
    text: str
    attachments: list[ImageInput]
    """Its pictures, in the form of items of a message."""


async def take_back(parts: SessionParts, conversation: ConversationState, task_id: str | None) -> TakeBackAnswer:
    """Withdraw the newest message that waits, or that of a task, once; NotFound where it does not wait."""
    waiting = [chain for chain in parts.scheduler.queued() if _is_meant(chain, conversation, task_id)]
    if not waiting:
        why = "it has begun or was taken back, or there was none; interrupt the conversation to stop what has begun"
        whose = "message" if task_id is None else f"message of task {task_id:.64}"
        raise NotFoundError(f"no {whose} waits in this conversation: {why}")
    # From the look to the act nothing waits: it cannot begin in between, nor be given to two.
    chain = waiting[-1]
    message = chain.root.plan.input[-1]
    parts.bus.publish(MessageTakenBack(message.id), chain.scope)
    parts.scheduler.stop(chain)
    pictures = [ImageInput(part.image_url) for part in message.parts if isinstance(part, ImagePart)]
    await parts.bus.flush()
    return TakeBackAnswer(chain.task_id, message.text, pictures)


def _is_meant(chain: Chain, conversation: ConversationState, task_id: str | None) -> bool:
    own = chain.conversation_id == conversation.id and bool(chain.root.plan.input)
    return own and task_id in (None, chain.task_id)
