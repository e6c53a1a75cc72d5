"""Where a thread stands, and when."""

from __future__ import annotations

from tertulia.protocol.events import AgentMessage, Event
from tertulia.protocol.ids import ItemId, SessionId, TaskId
from tertulia.server.codex.active_turn import ActiveTurn, event_time_ms, turn_object


def event(ts: str = "1970-01-01T00:00:01.234Z") -> Event:
    data = AgentMessage("hi", ItemId("m1"))
    return Event(1, 1, ts, data.type, SessionId("s"), "sub", None, None, None, None, data)


def test_a_thread_is_idle_active_or_waits() -> None:
    """Issue 10 (5): thread/status/changed."""
    moment = ActiveTurn(SessionId("s"))
    assert moment.state() == {"type": "idle"}
    moment.turn_id = TaskId("t")
    assert moment.state() == {"type": "active", "activeFlags": []}
    moment.waiting = True
    assert moment.status()[1]["status"] == {"type": "active", "activeFlags": ["waitingOnApproval"]}


def test_items_carry_the_time_of_their_event() -> None:
    """Issue 10 (5): startedAtMs, completedAtMs."""
    moment = ActiveTurn(SessionId("s"))
    assert moment.started(event(), {"id": "x"})[1]["startedAtMs"] == event_time_ms(event()) == 1234
    assert moment.completed(event(), {"id": "x"})[0] == "item/completed"


def test_a_turn_knows_how_long_it_took_once_it_is_over() -> None:
    """Issue 10 (5)."""
    assert turn_object("t")["durationMs"] is None
    ended = turn_object("t", "completed", began_ms=1_500, ended_ms=3_750)
    assert (ended["startedAt"], ended["completedAt"], ended["durationMs"]) == (1, 3, 2_250)
