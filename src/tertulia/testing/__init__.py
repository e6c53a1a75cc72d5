"""A session for your tests: a scripted model, a clock you move, recorded events, assertions on their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from tertulia.events.subscription import Subscription
from tertulia.models.scripted.script import (
    Match,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedReply,
    ScriptedRequest,
    call,
    fail,
    say,
)
from tertulia.models.scripted.scripted_model import ScriptedModel
from tertulia.protocol.events import Event
from tertulia.protocol.tool_events import ToolCallBegin, ToolCallEnd
from tertulia.session.session import Session

__all__ = [
    "FakeClock",
    "Match",
    "RecordedEvents",
    "ScriptedAnswer",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedReply",
    "ScriptedRequest",
    "assert_order",
    "call",
    "check_invariants",
    "fail",
    "say",
]


class FakeClock:
    """Time that stands still until you move it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        """Read the wall clock.

        Returns:
            Seconds since 1970.
        """
        return self._now

    def monotonic(self) -> float:
        """Read the clock that is never set back.

        Returns:
            Seconds since it was made.
        """
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks.

        Args:
            seconds: How much.
        """
        self._now += seconds
        self._monotonic += seconds

    def set_wall(self, now: float) -> None:
        """Change the date; the monotonic clock stays as it is.

        Args:
            now: Seconds since 1970.
        """
        self._now = now


class RecordedEvents:
    """Everything a session tells from the moment this is entered, as a list to look at.

    async with RecordedEvents(session) as events:
        await session.root.message("hi")
        await events.until("task_complete")
    """

    def __init__(self, session: Session, *, conversation: str | None = None) -> None:
        self._session = session
        self._conversation = conversation
        self._news: Subscription | None = None
        self.seen: list[Event] = []

    async def __aenter__(self) -> Self:
        self._news = self._session.events(conversation=self._conversation, limit=100_000)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drain()
        if self._news is not None:
            self._news.close()

    def drain(self) -> list[Event]:
        """Take in what has been told so far.

        Returns:
            All events since the beginning.
        """
        while self._news is not None and (event := self._news.next_nowait()) is not None:
            self.seen.append(event)
        return self.seen

    async def until(self, kind: str, *, timeout: float = 10.0) -> Event:
        """Wait for the next event of a type that was not waited for before.

        Args:
            kind: The type, such as `task_complete`.
            timeout: How many seconds at most.

        Returns:
            The event.

        Raises:
            TimeoutError: None came; it says what came instead.
        """
        looked_at = len(self.seen)
        try:
            async with asyncio.timeout(timeout):
                assert self._news is not None, "enter the recorder first"
                while True:
                    event = await anext(self._news)
                    self.seen.append(event)
                    if event.type == kind:
                        return event
        except TimeoutError:
            came = [event.type for event in self.seen[looked_at:]]
            raise TimeoutError(f"no {kind} within {timeout} s; there came {came}") from None

    def types(self, *, deltas: bool = False) -> list[str]:
        """List the types of all events so far.

        Args:
            deltas: Whether deltas are among them.

        Returns:
            The types, in order.
        """
        return [event.type for event in self.drain() if deltas or event.seq is not None]


def assert_order(events: Iterable[Event], expected: Sequence[str]) -> None:
    """Fail unless events of these types occur in this order, whatever stands between them.

    Args:
        events: What was recorded.
        expected: The types.

    Raises:
        AssertionError: One does not follow; says which, and what came.
    """
    came = [event.type for event in events]
    position = 0
    for number, kind in enumerate(expected):
        try:
            position = came.index(kind, position) + 1
        except ValueError:
            raise AssertionError(
                f"{kind!r} (number {number} of {list(expected)}) does not follow; there came {came}"
            ) from None


def check_invariants(events: Iterable[Event], slots: int = 1) -> None:
    """Fail unless the events of a whole session keep its promises.

    Numbers without gaps; at most `slots` tasks running, one in a conversation; each started task ended exactly once,
    and nothing of it after its end but the ends of calls that it had handed over and what it caused in other
    conversations; each call begun once and ended once.

    Args:
        events: All events of the session, the first one first.
        slots: The setting that the session had.

    Raises:
        AssertionError: A promise was broken; it says which.
    """
    last = 0
    running: dict[str | None, str | None] = {}
    ended: dict[str | None, str | None] = {}
    calls: dict[tuple[str | None, str], int] = {}
    for event in events:
        if event.seq is not None:
            assert event.seq == last + 1 or last == 0, f"event {event.seq} follows {last}"
            last = event.seq
        match event.type:
            case "task_started":
                assert len(running) < slots, f"task {event.task_id} started while {list(running)} run"
                assert event.conversation_id not in running.values(), f"{event.conversation_id} runs two tasks"
                running[event.task_id] = event.conversation_id
            case "task_complete" | "turn_aborted":
                assert event.task_id not in ended, f"task {event.task_id} ended twice"
                ended[event.task_id] = event.conversation_id
                running.pop(event.task_id, None)
            case kind if kind != "tool_call_end" and ended.get(event.task_id, "") == event.conversation_id:
                raise AssertionError(f"{kind} of task {event.task_id} comes after its end")
            case "tool_call_begin":
                key = (event.conversation_id, _call_id(event))
                assert calls.get(key, 0) == 0, f"call {key} began twice"
                calls[key] = 1
            case "tool_call_end":
                key = (event.conversation_id, _call_id(event))
                assert calls.get(key) == 1, f"call {key} ended without a beginning"
                calls[key] = 0
            case _:
                pass
    assert not running, f"tasks that never ended: {list(running)}"
    assert not any(calls.values()), f"calls without an end: {[key for key, open in calls.items() if open]}"


def _call_id(event: Event) -> str:
    assert isinstance(event.data, ToolCallBegin | ToolCallEnd)
    return event.data.call_id
