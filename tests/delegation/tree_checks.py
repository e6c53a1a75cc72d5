"""What must hold of the events and histories of any tree of conversations, and which kinds of endings occurred."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from tertulia.conversation.state import ConversationState
from tertulia.protocol.events import Event
from tertulia.protocol.items import ToolCall, ToolOutput
from tertulia.scheduler.queue import Scheduler

LIMITS = {
    "max_interrupt_chain_depth": 3,
    "max_task_interrupts": 8,
    "max_chain_conversations": 5,
    "max_conversations": 8,
    "target_timeout_s": 30,
    "target_wait_s": 20,
}


class MovableLoop(asyncio.SelectorEventLoop):
    """A loop whose time can be moved on: what waits for seconds does so without waiting."""

    ahead = 0.0

    def time(self) -> float:
        """Seconds, as every loop counts them, and those that were skipped."""
        return super().time() + self.ahead


def has_wait_cycle(scheduler: Scheduler) -> bool:
    """Whether a conversation waits for itself, however many others lie between."""
    branches = [branch for chain in scheduler.active for branch in chain.branches if branch.state == "waiting"]
    return any(
        scheduler.occupancy.would_never_end(branch.conversation_id, awaited)
        for branch in branches
        for awaited in branch.awaited
    )


def each_call_has_one_output(conversation: ConversationState) -> None:
    items = list(conversation.history.snapshot())
    calls = [item.call_id for item in items if isinstance(item, ToolCall)]
    outputs = [item.call_id for item in items if isinstance(item, ToolOutput)]
    assert sorted(calls) == sorted(outputs)


def check_order(events: Iterable[Event]) -> None:
    """With one slot, inner before outer: a caller goes on when nothing above it has an unanswered call.

    A conversation that was closed takes its calls with it; they are answered, but no branch waits for that.
    """
    events = list(events)
    closed = {event.conversation_id for event in events if event.type == "conversation_closed"}
    open_calls: set[tuple[Any, Any]] = set()
    stack: list[Any] = []
    for event in events:
        data: Any = event.data
        match event.type, getattr(data, "kind", getattr(data, "reason", None)):
            case "tool_call_begin", _ if event.conversation_id not in closed:
                open_calls.add((event.conversation_id, data.call_id))
            case "tool_call_end", _:
                open_calls.discard((event.conversation_id, data.call_id))
            case "turn_aborted", "replaced":
                stack.append(event.conversation_id)
                assert sum(call[0] in stack for call in open_calls) <= 2 * LIMITS["max_interrupt_chain_depth"]
            case "task_started", "continuation":
                while (above := stack.pop()) != event.conversation_id:
                    assert not [call for call in open_calls if call[0] == above]
            case "task_started", "user":
                assert not open_calls
                stack.clear()
            case _:
                pass
    assert not open_calls


def check_bounds(events: Iterable[Event]) -> None:
    """With one slot: what a message causes is bounded, and those that one answer opens run in the order of its calls.

    Not where one of them was stopped before its turn, and perhaps asked again later.
    """
    events = list(events)
    in_order = not kinds_of(events).keys() & {"answered: timeout", "answered: cancelled"}
    caused = opened = 0
    queues: dict[Any, list[Any]] = {}
    closed = {event.conversation_id for event in events if event.type == "conversation_closed"}
    for event in events:
        match event.type, getattr(event.data, "kind", None):
            case "conversation_opened", _ if event.task_id is not None:
                opened += 1
                queues.setdefault(event.task_id, []).append(event.conversation_id)
            case "task_started", "user":
                caused = opened = 0
                queues.clear()
            case "task_started", "target":
                caused += 1
                for queue in queues.values():
                    if event.conversation_id in queue:
                        before = queue[: queue.index(event.conversation_id)]
                        assert not in_order or not [other for other in before if other not in closed]
                        queue.remove(event.conversation_id)
            case _:
                pass
        assert caused <= LIMITS["max_task_interrupts"]
        assert opened <= LIMITS["max_chain_conversations"]


def kinds_of(events: Iterable[Event]) -> Counter[str]:
    """How often each kind of ending occurred, and how many tasks ran at once at most."""
    seen: Counter[str] = Counter()
    running = most = 0
    for event in events:
        data: Any = event.data
        match event.type:
            case "task_started":
                running += 1
                most = max(most, running)
            case "turn_aborted":
                running -= 1
                seen[f"aborted: {data.reason}"] += 1
            case "task_complete":
                running -= 1
                seen[f"task: {data.status}"] += 1
            case "tool_call_end" if not data.success:
                seen[f"answered: {_code(data.output)}"] += 1
            case _:
                pass
    seen[f"at once: {most}"] += 1
    return seen


def _code(output: str) -> str:
    try:
        return str(msgspec.json.decode(output).get("code"))
    except msgspec.DecodeError:
        return "text"
