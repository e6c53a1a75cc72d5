"""A session with a scripted model, recorded from its first event to its last, whose promises are checked at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

import tertulia
from tertulia.events.clock import Clock
from tertulia.events.journal import Journal, NoJournal
from tertulia.protocol.events import Event
from tertulia.protocol.ids import ConversationId
from tertulia.protocol.inputs import NewConversation, TextInput
from tertulia.protocol.items import Item, ToolOutput
from tertulia.protocol.records import ForkRecord, ItemsRecord, Record
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.session.session import Session
from tertulia.testing import RecordedEvents, ScriptedModel, check_invariants
from tertulia.tools.tool import CallContext, Handoff, Outcome, Result, TargetResult
from tests.deadlines import HANG_S
from tests.events.scripted import ScriptedJournal

T = TypeVar("T")

BUILT_IN = ("shell", "apply_patch", "grep", "glob", "update_plan", "view_image")
"""What every conversation is offered that asks for nothing else, before the conversation tools."""


class Stage:
    """What a test acts on."""

    def __init__(self, session: Session, model: ScriptedModel, events: RecordedEvents) -> None:
        self.session = session
        self.root = session.root
        self.model = model
        self.events = events
        self.begun: list[asyncio.Task[Any]] = []

    @property
    def parts(self) -> Any:
        return self.session.parts

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do it beside the test."""
        task = asyncio.create_task(work)
        self.begun.append(task)
        return task

    async def until(self, kind: str) -> Event:
        return await self.events.until(kind)

    async def asked(self, count: int) -> None:
        """Until the model has been asked so often."""
        for _ in range(10_000):
            if len(self.model.requests) >= count:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"the model was asked {len(self.model.requests)} times, not {count}")

    def story(self, *names: tertulia.Conversation) -> list[str]:
        """Tasks and calls in order, as `a started`, `b complete`; conversations are called a, b, c."""
        called = {conversation.id: "abcdefghij"[number] for number, conversation in enumerate(names)}
        return [
            f"{called.get(event.conversation_id, '?')} {text}"
            for event in self.events.drain()
            if (text := _said(event))
        ]

    def outputs(self, conversation: tertulia.Conversation) -> list[ToolOutput]:
        """The outputs in a conversation's history."""
        history = self.parts.conversations.find(conversation.id).history
        return [item for item in history.snapshot() if isinstance(item, ToolOutput)]

    def check_idle(self) -> None:
        """Nothing runs, nothing waits, nothing is half done."""
        assert not self.parts.scheduler.active
        assert not self.parts.scheduler.queued()
        assert len(self.parts.registry) == 0
        for conversation in self.parts.conversations:
            assert (conversation.task, conversation.awaiting, conversation.history.open_calls) == (None, 0, ())


def _said(event: Event) -> str | None:
    match event.type:
        case "task_started":
            return f"started {event.data.kind}"
        case "task_complete":
            return event.data.status
        case "turn_aborted":
            return event.data.reason
        case "tool_call_begin":
            return f"begin {event.data.call_id}"
        case "tool_call_end":
            return f"end {event.data.call_id}"
        case _:
            return None


@asynccontextmanager
async def stage(
    *replies: Any,
    tools: Sequence[Any] = (),
    model: ScriptedModel | None = None,
    clock: Clock | None = None,
    journal: Journal | None = None,
    invariants: bool = True,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A running session; on leaving it is closed, and its events must keep every promise."""
    model = model or ScriptedModel(replies)
    chosen = tertulia.Settings(model=model, tools=list(tools), **settings)
    session = await tertulia.Session.start(chosen, clock=clock, journal=journal or NoJournal()).__aenter__()
    async with RecordedEvents(session) as events:
        acting = Stage(session, model, events)
        try:
            yield acting
        finally:
            await session.close()
            await asyncio.wait_for(asyncio.gather(*acting.begun, return_exceptions=True), HANG_S)
    if invariants:
        check_invariants(events.seen, settings.get("slots", 1))


async def ticks(count: int = 10) -> None:
    """Let the loop run what is due, and what that made due."""
    for _ in range(count):
        await asyncio.sleep(0)


def render_as_json(result: TargetResult) -> Result:
    """All that a continuation hears, as JSON."""
    text = msgspec.json.encode(result).decode()
    return Result(text, success=result.status == "completed")


class Ask:
    """Hands its call to the conversation `to`, or to a new one."""

    parallel_safe = False
    read_only = False

    def __init__(
        self,
        name: str = "ask",
        *,
        render: Callable[[TargetResult], Any] = render_as_json,
        new: NewConversation | None = None,
    ) -> None:
        kinds = {"to": {"type": "string"}, "text": {"type": "string"}}
        self.spec = ToolSpec.define(name, "Ask another conversation.", {"type": "object", "properties": kinds})
        self._render = render
        self._new = new

    def check(self, arguments: Any, call: CallContext) -> None:
        pass

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        target = self._new or ConversationId(arguments["to"])
        return Handoff(target, (TextInput(arguments.get("text", "please")),), self._render)


def heard(output: ToolOutput) -> dict[str, Any]:
    """What `told` made."""
    return msgspec.json.decode(output.text)


class Disk(ScriptedJournal):
    """A journal that the test commits, or breaks; it takes everything at once until it is told to hold."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.holding = False
        self.items: list[Item] = []
        self.forks: list[ForkRecord] = []

    def keep(self, record: Record) -> None:
        if isinstance(record, ItemsRecord):
            self.items.extend(record.items)
        elif isinstance(record, ForkRecord):
            self.forks.append(record)
