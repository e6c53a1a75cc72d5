"""Sessions whose process dies in the middle of a task, and what is held of them in the next life."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import tertulia
from tertulia.events.clock import Clock
from tertulia.protocol.events import Event
from tertulia.protocol.items import ToolOutput
from tertulia.session.session import Session
from tertulia.testing import ScriptedModel, say
from tests.session.lives import Lives, durable_events, until


class Gate:
    """A tool that stops until the test lets it go, and a count of what was done."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.reached: list[str] = []
        self.open = asyncio.Event()

    def tools(self) -> list[Any]:
        async def work(what: str) -> str:
            self.effects[what] += 1
            self.reached.append(what)
            if not self.open.is_set():
                await self.open.wait()
            return f"did {what}"

        act = tertulia.tool(work, name="act", description="once")
        mark = tertulia.tool(work, name="mark", description="twice is fine", retry_safe=True)
        return [act, mark]


def settings(model: Any, gate: Gate | None = None, **fields: Any) -> tertulia.Settings:
    tools = [] if gate is None else gate.tools()
    return tertulia.Settings(
        model=model, tools=tools, **{"on_restart": "continue", "approval_policy": "never", **fields}
    )


async def unfinished(session: Session, text: str = "go", **options: Any) -> asyncio.Task[Any]:
    """A message whose task will be cut."""
    return asyncio.ensure_future(session.root.message(text, message_id="m", **options))


@asynccontextmanager
async def next_life(id: str, using: tertulia.Settings, **fields: Any) -> AsyncIterator[Session]:
    async with Session.resume(id, using, continue_tasks=True, **fields) as session:
        yield session


def of(events: list[Event], *types: str) -> list[Event]:
    return [event for event in events if event.type in types]


def outputs(session: Session, conversation: tertulia.Conversation | None = None) -> list[str]:
    history = session.parts.conversations.find((conversation or session.root).id).history
    return [item.text for item in history.snapshot() if isinstance(item, ToolOutput)]


def hold_to_one_end(session: Session) -> None:
    """Of every task one end, and every call one output, counted over all lives."""
    events = durable_events(session)
    for conversation in session.parts.conversations:
        assert (conversation.task, conversation.awaiting, conversation.history.open_calls) == (None, 0, ())
    ends = Counter(event.task_id for event in of(events, "task_complete", "turn_aborted"))
    assert set(ends.values()) <= {1}
    closed = Counter((event.conversation_id, event.data.call_id) for event in of(events, "tool_call_end"))  # type: ignore[union-attr]
    assert set(closed.values()) <= {1}


async def cut_in_call(lives: Lives, gate: Gate, *calls: Any, clock: Clock | None = None, **fields: Any) -> str:
    """A session whose process dies while the last of these calls runs; its id."""
    model = ScriptedModel([say("I begin", *calls), "never said"])
    return await cut_once(lives, gate, model, 1, clock=clock, **fields)


async def cut_once(
    lives: Lives, gate: Gate, model: ScriptedModel, calls: int, *, clock: Clock | None = None, **fields: Any
) -> str:
    """A session whose process dies once so many calls wait at the gate; its id."""
    session = Session.start(settings(model, gate, **fields), clock=clock)
    await session.__aenter__()
    message = await unfinished(session)
    await until(lambda: len(gate.reached) >= calls)
    await session.activity.flush()
    lives.die()
    gate.open.set()
    await message
    await session.close()
    gate.reached.clear()
    return session.id
