"""Metrics: what is counted, for whom, under which label, and how much of it is kept."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tertulia.events import metrics as module
from tertulia.events.bus import EventBus, EventScope
from tertulia.events.journal import NoJournal
from tertulia.events.metrics import COUNTED, OTHER, Metrics, MetricsTotals
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ConversationId
from tertulia.protocol.items import NO_USAGE, Usage
from tests.events.scripted import SESSION, A, B, ScriptedJournal, StillClock, delta, message
from tests.tables import each_row

CALL = CallId("c1")
SPENT = Usage(10, 4, 5, 2, 15)


def a_bus(*known: str) -> EventBus:
    return a_bus_that_knows(known.__contains__)


def a_bus_that_knows(knows_tool: Callable[[str], bool]) -> EventBus:
    return EventBus(SESSION, StillClock(), NoJournal(), knows_tool=knows_tool)


def numbers(tally: MetricsTotals | None) -> dict[str, Any]:
    """What differs from a fresh tally."""
    assert tally is not None
    plain = {name: getattr(tally, name) for name in MetricsTotals.__slots__}
    plain["mcp"] = calls(tally.mcp)
    plain["tools"] = {name: calls(tool) for name, tool in tally.tools.items()}
    return {name: value for name, value in plain.items() if value not in (0, None, {}, NO_USAGE, (0, 0, 0, 0))}


def calls(counted: module.CallTotals) -> tuple[int, int, int, int]:
    return counted.calls, counted.failures, counted.duration_ms, counted.max_ms


def ended(name: str, duration_ms: int = 1, *, success: bool = True) -> t.ToolCallEnd:
    return t.ToolCallEnd(CALL, name, success, "output", False, duration_ms)


def from_server(duration_ms: int, *, success: bool = True) -> t.McpToolCallEnd:
    return t.McpToolCallEnd(CALL, "fs", "read", success, duration_ms)


def compacted(done: bool) -> e.HistoryCompacted:
    return e.HistoryCompacted(done, 100, 10, 5, "request")


@each_row(
    ("published", "counted"),
    [
        ([e.TaskStarted("user", "hello")] * 2, {"started": 2}),
        ([e.TaskComplete("completed", "text", SPENT)], {"completed": 1}),
        ([e.TaskComplete("failed", None, NO_USAGE)] * 3, {"failed": 3}),
        (
            [e.TurnAborted("interrupted"), e.TurnAborted("timeout"), e.TurnAborted("interrupted")],
            {"aborted": {"interrupted": 2, "timeout": 1}},
        ),
        ([e.TokenCount(SPENT, 1000, "key")] * 2, {"requests": 2, "usage": Usage(20, 8, 10, 4, 30)}),
        (
            [ended("add", 5), ended("add", 9, success=False), ended("sub", 2)],
            {"tools": {"add": (2, 1, 14, 9), "sub": (1, 0, 2, 2)}},
        ),
        ([from_server(30), from_server(10, success=False)], {"mcp": (2, 1, 40, 30)}),
        ([compacted(True), compacted(False), compacted(True)], {"compactions": 2}),
    ],
    ids=lambda value: value[0].type if isinstance(value, list) else "",
)
def test_an_event_counts_for_its_conversation_and_for_the_session(
    published: list[e.EventData], counted: dict[str, Any]
) -> None:
    """S002-44: tokens, tools, MCP latency, cancellations, failures."""
    bus = a_bus("add", "sub")
    for data in published:
        bus.publish(data, EventScope("1", A))
    assert numbers(bus.metrics.of(A)) == numbers(bus.metrics.session) == counted
    assert bus.metrics.of(B) is None


def test_the_session_is_the_sum_of_its_conversations_and_of_what_belongs_to_none() -> None:
    bus = a_bus("add")
    for scope in (EventScope("1", A), EventScope("2", B), None):
        bus.publish(ended("add", 3), scope)
    assert numbers(bus.metrics.session) == {"tools": {"add": (3, 0, 9, 3)}}
    assert [(of, numbers(tally), closed) for of, tally, closed in bus.metrics.conversations()] == [
        (A, {"tools": {"add": (1, 0, 3, 3)}}, False),
        (B, {"tools": {"add": (1, 0, 3, 3)}}, False),
    ]


def test_waiting_for_an_mcp_server_counts_whatever_becomes_of_it() -> None:
    """S002-39: no event tells of it, because there may be none."""
    bus = a_bus()
    bus.metrics.waited(A, 1.25)
    bus.metrics.waited(A, 0.5)
    bus.metrics.waited(B, 0.001)
    assert numbers(bus.metrics.of(A)) == {"mcp_waits": 2, "mcp_waited_ms": 1_750}
    assert numbers(bus.metrics.of(B)) == {"mcp_waits": 1, "mcp_waited_ms": 1}
    assert numbers(bus.metrics.session) == {"mcp_waits": 3, "mcp_waited_ms": 1_751}


def test_what_does_not_count_leaves_nothing() -> None:
    """An open conversation costs nothing here before something is counted for it."""
    bus = a_bus()
    others = (delta(), message(), e.ConversationOpened(None, "title", "model", "native"), e.WarningEvent("text"))
    for data in others:
        assert data.type not in COUNTED
        bus.publish(data, EventScope("1", A))
    bus.publish(e.ConversationClosed(), EventScope("1", A))
    bus.publish(e.ConversationClosed())
    assert numbers(bus.metrics.session) == {}
    assert list(bus.metrics.conversations()) == []


def test_only_names_of_tools_that_there_are_become_labels() -> None:
    """HARDENING E6: a model may call anything anything, a key it has seen for instance."""
    bus = a_bus("add", "conv_send")
    for name in ("add", "sk-proj-0123456789", "conv.send", "AKIAIOSFODNN7EXAMPLE", "conv_send"):
        bus.publish(ended(name), EventScope("1", A))
    tally = bus.metrics.of(A)
    assert tally is not None
    assert {name: tool.calls for name, tool in tally.tools.items()} == {"add": 1, OTHER: 2, "conv_send": 2}


def test_a_name_that_was_a_tool_stays_a_label() -> None:
    known = ["add"]
    bus = a_bus_that_knows(known.__contains__)
    bus.publish(ended("add"))
    known.clear()
    bus.publish(ended("add"))
    bus.publish(ended("sub"))
    assert {name: tool.calls for name, tool in bus.metrics.session.tools.items()} == {"add": 2, OTHER: 1}


def test_the_number_of_labels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 2)
    bus = a_bus("a", "b", "c", "d")
    for name in "abcdb":
        bus.publish(ended(name), EventScope("1", A))
    assert {name: tool.calls for name, tool in bus.metrics.session.tools.items()} == {"a": 1, "b": 2, OTHER: 2}


def test_a_bus_without_tools_knows_none() -> None:
    assert Metrics().label("add") == OTHER


def test_a_closed_bus_keeps_its_numbers_and_lets_go_of_the_tools() -> None:
    """Somebody may hold a subscription, and so the bus, long after the session."""

    class Box:
        def knows(self, name: str) -> bool:
            return True

    box = Box()
    gone, bus = weakref.ref(box), a_bus_that_knows(box.knows)
    bus.publish(ended("add"))
    del box
    assert gone() is not None
    bus.close()
    assert gone() is None
    assert numbers(bus.metrics.session) == {"tools": {"add": (1, 0, 1, 1)}}


def test_the_numbers_of_the_newest_closed_conversations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLOSED", 2)
    bus = a_bus()
    ids = [ConversationId(str(number)) for number in range(5)]
    for of in ids:
        bus.publish(e.TaskStarted("user"), EventScope("1", of))
    for of in ids[:4]:
        bus.publish(e.ConversationClosed(), EventScope("1", of))
    assert [(of, closed) for of, _, closed in bus.metrics.conversations()] == [("4", False), ("2", True), ("3", True)]
    assert [bus.metrics.is_closed(of) for of in ids] == [False, False, True, True, False]
    assert bus.metrics.of(ids[0]) is None
    assert numbers(bus.metrics.session) == {"started": 5}


def test_what_ends_after_the_close_counts_for_the_closed_one() -> None:
    bus = a_bus()
    bus.publish(e.TaskStarted("user"), EventScope("1", A))
    bus.publish(e.ConversationClosed(), EventScope("1", A))
    bus.publish(e.TurnAborted("interrupted"), EventScope("1", A))
    assert numbers(bus.metrics.of(A)) == {"started": 1, "aborted": {"interrupted": 1}}
    assert bus.metrics.is_closed(A)


async def test_an_event_counts_when_it_is_delivered_and_not_if_it_is_taken_back() -> None:
    journal = ScriptedJournal(asyncio.get_running_loop())
    bus = EventBus(SESSION, StillClock(), journal)
    bus.publish(e.TaskStarted("user"), EventScope("1", A))
    assert bus.metrics.of(A) is None
    journal.commit()
    await bus.flush()
    assert numbers(bus.metrics.of(A)) == {"started": 1}
    bus.publish(e.TaskComplete("completed", None, NO_USAGE), EventScope("1", A))
    journal.fail(OSError("full"))
    with pytest.raises(Exception, match="full"):
        await bus.flush()
    assert numbers(bus.metrics.of(A)) == {"started": 1}
