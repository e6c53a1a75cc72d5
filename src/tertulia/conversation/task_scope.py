"""The access of a running task to its conversation's history, events and journal. Revoked when the task is over.

A tool or wire that ignores cancellation may go on after its task was given up. Whatever it then tries to publish
through the scope raises CancelledError: a task has one end, and nothing of it comes after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tertulia.conversation.state import ConversationState
from tertulia.conversation.terms import Terms
from tertulia.conversation.toolbox import Toolbox
from tertulia.errors import InvalidParamsError, TaskCancelledError, TertuliaError
from tertulia.events.bus import CleanTexts, EventBus, EventScope
from tertulia.events.clock import Clock
from tertulia.models.wire import Wire
from tertulia.policy.rights import Rights
from tertulia.protocol.events import AgentMessage, AgentReasoning, Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId, TaskId, new_item_id
from tertulia.protocol.items import (
    NO_USAGE,
    AssistantMessage,
    Item,
    Reasoning,
    TextPart,
    ToolCall,
    ToolOutput,
    Usage,
    readable_arguments,
)
from tertulia.protocol.records import LONG_CHARACTERS
from tertulia.protocol.storage import StoragePolicy, strictest
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS, canonical_name
from tertulia.protocol.validation_text import NOT_JSON
from tertulia.protocol.worktree import WorktreeReport
from tertulia.tools.dispatch import CheckedCall, refusal
from tertulia.tools.tool import CallHooks, ChainView, Result

if TYPE_CHECKING:
    from tertulia.policy.session_budget import SessionSpending


class CostTotals:
    """What a task, or a whole chain, has cost so far."""

    __slots__ = ("tool_calls", "usage")

    def __init__(self) -> None:
        self.usage: Usage = NO_USAGE
        self.tool_calls = 0


def no_wire(model: str) -> Wire:
    """Raise InvalidParams: where no other models are known."""
    raise InvalidParamsError(f"{model} cannot be reached from here")


class TaskServices(msgspec.Struct, frozen=True):
    """The parts of the session that every task uses."""

    bus: EventBus
    clock: Clock
    toolbox: Toolbox
    tool_timeout_s: float
    shell_environment: dict[str, object]
    make_ready: Callable[[TaskScope], Awaitable[object]] | None = None
    """Awaited before a task's first request: the place for changes that happen only between tasks."""
    report_worktree: Callable[[TaskScope], Awaitable[WorktreeReport | None]] | None = None
    """Awaited after a task: what its conversation has come to in a worktree, committed. Raises nothing."""
    expect_approver: Callable[[ConversationId], AbstractContextManager[object]] = nullcontext
    """Entered where a question is asked again that waited when a crash came: it waits for an approver to come back."""
    cost: Callable[[str, Usage], float | None] = lambda model, usage: None
    """US dollars of a request to `provider/model`; None where the price is not known."""
    find_wire: Callable[[str], Wire] = no_wire
    """A wire to `provider/model` that conversations share; InvalidParams where there is none."""
    spending: SessionSpending | None = None
    """What all requests of the session have used, and may use; None where that is not limited."""
    before_change: Callable[[TaskScope, Sequence[CheckedCall]], Awaitable[object]] | None = None
    """Awaited before calls that may change something run. Raises nothing."""
    at_end: Callable[[TaskScope, str], Awaitable[object]] | None = None
    """Awaited when a task has stopped, before its terminal event, with how it ends. Raises nothing."""
    hooks: CallHooks | None = None
    """What the user has set up to be asked about calls."""


class PartialAnswer:
    """An answer that is not whole yet."""

    __slots__ = ("_bytes", "item_id", "length")

    def __init__(self, item_id: ItemId) -> None:
        self.item_id = item_id
        # One block of bytes: thousands of small texts would leave memory behind that is not given back, and a text that
        # was sent takes twice its room as long as it is held.
        self._bytes = bytearray()
        self.length = 0

    def add(self, text: str) -> int:
        offset = self.length
        self._bytes += text.encode()
        self.length += len(text)
        return offset

    @property
    def text(self) -> str:
        return self._bytes.decode()


class TaskScope:
    """What one task publishes and records through: with unfinished answers, and the calls that have begun."""

    __slots__ = (
        "_has_answer",
        "_on_break",
        "_revoked",
        "_unsure",
        "around",
        "begun",
        "chain",
        "clean_texts",
        "conversation",
        "fallback",
        "fallbacks",
        "last_text",
        "outputs",
        "partial",
        "repaired",
        "rights",
        "scope",
        "spent",
        "storage",
        "tally",
        "task_id",
    )  # fmt: skip

    def __init__(
        self,
        task_id: TaskId,
        conversation: ConversationState,
        scope: EventScope,
        around: TaskServices,
        rights: Callable[[], Rights],
        tally: CostTotals,
        *,
        chain: Callable[[], ChainView] = ChainView,
        storage: Callable[[], StoragePolicy] | None = None,
    ) -> None:
        self.task_id = task_id
        self.conversation = conversation
        self.scope = scope
        self.around = around
        self.rights = rights
        """The strictest rights of the whole chain, computed at each use."""
        self.chain = chain
        """Where in its chain this task stands, computed at each use."""
        self.storage = storage or (lambda: rights().storage_policy)
        """The storage policy of those rights; separate, because it is needed for every delta."""
        self.tally = tally
        self.spent: Usage = NO_USAGE
        """The cost of this task alone; `tally` is that of the chain."""
        self.last_text: str | None = None
        self._has_answer = False
        """Whether `last_text` is an answer, and not a remark on the way to it."""
        """The last whole answer of this task."""
        self.fallback: Wire | None = None
        """The model that answers instead of the conversation's own, see `fallback.py`."""
        self.fallbacks = 0
        """How many of the fallback models this task has tried."""
        self.repaired = False
        """Whether the model was asked to repair its answer, see `output_check.py`."""
        self._on_break: Callable[[], None] | None = None
        self.partial: PartialAnswer | None = None
        """The part so far of an answer that is not complete; None when it has become so, or is asked for again."""
        self.begun: dict[CallId, float] = {}
        """The calls that are told to have begun and have no end, and when each began."""
        self.clean_texts: CleanTexts = ()
        """What may be published of long texts, see the function of that name."""
        self.outputs: dict[CallId, ToolOutput] = {}
        """Of calls that have ended, see `settle_calls`."""
        self._unsure: list[tuple[Event, StoragePolicy | None]] = []
        """Beginnings and ends of calls that may not be written down yet."""
        self._revoked = False

    def publish(self, data: EventData, storage: StoragePolicy | None = None) -> Event:
        """Publish an event under this task's ids; stored by the chain's policy, or by the stricter one given."""
        self._check()
        return self.around.bus.publish(data, self.scope, storage or self.storage(), self.clean_texts)

    def publish_passing(self, data: EventData) -> None:
        """Publish a passing event, such as a delta, to the subscriptions that there are."""
        self._check()
        self.around.bus.publish_passing(data, self.scope)

    def call_at_break(self, tell_ends: Callable[[], None]) -> None:
        """Have this called first at an unplanned end: a backend publishes the ends of what it has begun."""
        self._on_break = tell_ends

    def pass_on(self, data: EventData) -> None:
        """Publish an event of a tool. Refused are ends, what persons say or do, and what cannot be stored or sent."""
        self._check()
        try:
            msgspec.json.encode(data)
        except (TypeError, ValueError, RecursionError):
            raise InvalidParamsError(f"{type(data).__name__} cannot be published as JSON: {NOT_JSON}") from None
        if data.terminal or data.of_persons:
            raise InvalidParamsError(f"a tool cannot publish {data.type}")
        self.publish(data)

    def say(self, items: Sequence[Item]) -> None:
        """Add items to the history, with the storage policy of the chain."""
        self._check()
        self.conversation.say(items, storage=self.storage())

    def take_pending(self) -> bool:
        """Move pending input into the history; returns whether there was any."""
        self._check()
        return self.conversation.take_pending(self.storage())

    async def commit(self) -> None:
        """Wait until all items and events are stored. A task that was cancelled ends here at the latest."""
        try:
            await self.around.bus.flush()
        except TertuliaError:
            self._tell_again()
            raise
        self._unsure.clear()
        self.check_wanted()

    def check_wanted(self) -> None:
        """Raise CancelledError in a task that was cancelled, even if a tool or wire swallowed the cancellation."""
        self._check()
        job = asyncio.current_task()
        if job is not None and job.cancelling():
            raise asyncio.CancelledError

    def charge(self, usage: Usage, cost_usd: float | None = None) -> None:
        """Count what a model request cost: here, for the chain and for the session."""
        self.spent += usage
        self.tally.usage += usage
        if self.around.spending is not None:
            self.around.spending.add(usage.total_tokens, cost_usd)

    def hear(self, item_id: ItemId, text: str) -> int:
        """Keep a piece of an answer that may never be completed; returns its offset."""
        self._check()
        partial = self.partial
        if partial is None or partial.item_id != item_id:
            partial = self.partial = PartialAnswer(item_id)
        return partial.add(text)

    def announce(self, item: Item) -> None:
        """Publish what the model said as a durable event."""
        match item:
            case AssistantMessage():
                # A remark on the way, or an empty message, takes the place of no answer.
                if item.phase != "commentary" and item.parts:
                    self.last_text, self._has_answer = item.text, True
                elif not self._has_answer:
                    self.last_text = item.text or self.last_text
                self.publish(AgentMessage(item.text, item.id, item.phase))
            case Reasoning() if item.text:
                self.publish(AgentReasoning(item.text, item.id))
            case _:
                pass

    def begin(self, call: ToolCall) -> None:
        """A call is being handled from now on; one that a crash cut has been told to begin before."""
        if call.call_id in self.begun:
            return
        event = self.publish(ToolCallBegin(call.call_id, call.name, readable_arguments(call)))
        self._unsure.append((event, None))
        self.begun[call.call_id] = self.around.clock.monotonic()
        self.tally.tool_calls += 1

    def end(self, call: ToolCall, result: Result, *, truncated: bool = False) -> None:
        """The one end of a call that has begun. Its output waits for its turn, see `settle_calls`."""
        self._check()
        elapsed = round((self.around.clock.monotonic() - self.begun.pop(call.call_id)) * 1000)
        parts = (TextPart(result.text), *result.parts)
        storage = strictest(self.storage(), result.storage or self.storage())
        output = ToolOutput(new_item_id(), call.call_id, parts, result.success, call.kind)
        self.outputs[call.call_id] = self.conversation.has_ended(output, storage)
        end = ToolCallEnd(call.call_id, call.name, result.success, result.text, truncated, elapsed)
        self._unsure.append((self.publish(end, storage), storage))

    def leave(self, call: ToolCall) -> float:
        """A continuation will end this call; returns when it began."""
        return self.begun.pop(call.call_id)

    def settle_calls(self) -> None:
        """Write the outputs of all calls that have ended, in the order of the calls."""
        outputs, self.outputs = self.outputs, {}
        self.say([outputs[call_id] for call_id in self.conversation.history.open_calls if call_id in outputs])

    def tidy(self, reason: str) -> None:
        """Repair the history at an unplanned end.

        An unfinished answer is kept, each open call gets its one output, and each call its begin and end.
        """
        if self._on_break is not None:
            self._on_break()
        if self.partial is not None and self.partial.length:
            item = AssistantMessage(self.partial.item_id, (TextPart(self.partial.text),))
            self.partial = None
            self.say([item])
            self.announce(item)
        self.settle_calls()
        for call in self.conversation.history.open_call_items():
            if call.call_id not in self.begun:
                self.begin(call)
            # The answer of a conversation tool is JSON, in every ending.
            is_conv = canonical_name(call.name) in ALL_CONV_TOOLS
            self.end(call, refusal(TaskCancelledError(reason)) if is_conv else Result(reason, success=False))
        self.settle_calls()

    def revoke(self) -> None:
        """The task is over: from now on the scope raises CancelledError."""
        self._revoked = True
        self._on_break = None

    def _tell_again(self) -> None:
        """Publish again the begins and ends of calls that the journal could not store: they have happened."""
        unsure, self._unsure = self._unsure, []
        last = self.around.bus.last_seq
        for event, storage in unsure:
            if event.seq is not None and event.seq > last:
                self.publish(event.data, storage)

    def _check(self) -> None:
        if self._revoked:
            raise asyncio.CancelledError("this task is over")


def terms_in_use(scope: TaskScope) -> Terms:
    """The terms of the task's conversation, with the model that answers now."""
    terms = scope.conversation.terms
    return terms if scope.fallback is None else replace(terms, wire=scope.fallback)


async def clean_texts(scope: TaskScope, texts: Iterable[str]) -> None:
    """Of texts that a task is about to publish, redact the long ones in steps; publishing then takes no time.

    Nothing is said or published here: a task that is stopped meanwhile has not said them.
    """
    clean = scope.around.bus.clean_text
    scope.clean_texts = [(text, await clean(text)) for text in texts if len(text) > LONG_CHARACTERS]


async def clean_partial(scope: TaskScope) -> None:
    """The same for an answer that did not become whole, before `tidy` publishes it."""
    partial = scope.partial
    if partial is not None and partial.length > LONG_CHARACTERS:
        await clean_texts(scope, [partial.text])
