"""Events as notifications: turns, words, and what is not as it should be."""

from __future__ import annotations

from typing import Any

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId, ItemId, SessionId, TaskId
from tertulia.protocol.items import NO_USAGE, Usage, UserMessage, text_parts
from tertulia.server.codex.active_turn import ActiveTurn, CodexNotification, CodexToolCalls
from tertulia.server.codex.items import user_message
from tertulia.server.codex.notifications import ThreadNotifications

ROOT, CHILD = ConversationId("root"), ConversationId("child")
T1, T2 = TaskId("t1"), TaskId("t2")
M1 = ItemId("m1")


class Follower:
    """A session's news, by hand."""

    def __init__(self, *waiting: TaskId) -> None:
        active_turn = ActiveTurn(SessionId("s"))
        item = user_message(UserMessage(ItemId("u"), text_parts("hi")))
        seen = dict.fromkeys(waiting, item)
        self.news = ThreadNotifications(
            active_turn,
            CodexToolCalls(active_turn, ROOT, lambda conversation: "/"),
            ROOT,
            lambda task: seen.pop(task, None),
        )

    def hear(
        self, data: e.EventData, conversation: ConversationId = ROOT, task: TaskId | None = T1
    ) -> list[CodexNotification]:
        ts = "2026-01-01T00:00:00.000Z"
        return self.news.of(e.Event(1, 1, ts, data.type, SessionId("s"), "sub", conversation, task, None, None, data))

    def names(self, data: e.EventData, **where: Any) -> list[str]:
        return [method for method, _ in self.hear(data, **where)]


def begun() -> Follower:
    follower = Follower(T1)
    follower.hear(e.TaskStarted("user"))
    return follower


def test_a_turn_begins_with_what_was_said_and_ends_once() -> None:
    """Issue 10 (5)."""
    follower = Follower(T1)
    assert follower.names(e.TaskStarted("user")) == [
        "thread/status/changed",
        "turn/started",
        "item/started",
        "item/completed",
    ]
    done = e.TaskComplete("completed", "hello", NO_USAGE)
    assert follower.names(done) == ["thread/status/changed", "turn/completed"]
    assert not follower.hear(done)


def test_a_handover_is_no_end_and_a_continuation_no_beginning() -> None:
    """Issue 10 (5): one message, one turn."""
    follower = begun()
    assert not follower.hear(e.TurnAborted("replaced"))
    assert not follower.hear(e.TaskStarted("target"), conversation=CHILD, task=TaskId("t3"))
    assert not follower.hear(e.TaskComplete("completed", "child", NO_USAGE), conversation=CHILD, task=TaskId("t3"))
    assert not follower.hear(e.TaskStarted("continuation"), task=T2)
    ((_, _), (method, params)) = follower.hear(e.TaskComplete("completed", "root", NO_USAGE), task=T2)
    assert (method, params["turn"]["id"]) == ("turn/completed", T1)


def test_every_other_ending_has_its_status() -> None:
    """Issue 10 (5): interrupted, failed by time or limit, failed by an error."""
    endings = {"interrupted": "interrupted", "shutdown": "interrupted", "timeout": "failed", "limit": "failed"}
    for reason, status in endings.items():
        turn = begun().hear(e.TurnAborted(reason))[-1][1]["turn"]
        assert (turn["status"], turn["error"] is None) == (status, status == "interrupted")
    follower = begun()
    ((method, params),) = follower.hear(e.ErrorEvent("model_error", "no luck"))
    assert (method, params["willRetry"]) == ("error", False)
    turn = follower.hear(e.TaskComplete("failed", None, NO_USAGE))[-1][1]["turn"]
    assert (turn["status"], turn["error"]["message"]) == ("failed", "no luck")


def test_a_turn_that_was_stopped_while_it_waited_has_an_end_too() -> None:
    """Issue 10 (5): and the one that runs goes on."""
    follower = Follower(T1, T2)
    follower.hear(e.TaskStarted("user"))
    ((method, params),) = follower.hear(e.TurnAborted("interrupted"), task=T2)
    assert (method, params["turn"]["id"], params["turn"]["status"]) == ("turn/completed", T2, "interrupted")
    assert follower.news._active_turn.turn_id == T1
    assert not follower.hear(e.TurnAborted("interrupted"), task=TaskId("somebody else's"))


def test_a_turn_whose_beginning_got_lost_ends_all_the_same() -> None:
    """Issue 10 (5): a client that reads too slowly is never left waiting for the end."""
    follower = Follower(T1)
    ((method, params),) = follower.hear(e.TaskComplete("completed", "x", NO_USAGE))
    assert (method, params["turn"]["status"]) == ("turn/completed", "completed")


def test_words_come_in_pieces_and_whole() -> None:
    """Issue 10 (5): a piece that got lost is in the whole."""
    follower = begun()
    first = follower.names(e.AgentMessageDelta("hel", M1, 0))
    assert first == ["item/started", "item/agentMessage/delta"]
    assert not follower.hear(e.AgentMessageDelta("you", M1, 6))
    ((method, params),) = follower.hear(e.AgentMessage("hello you", M1))
    assert (method, params["item"]["text"]) == ("item/completed", "hello you")
    assert follower.names(e.AgentReasoning("hm", ItemId("r1"))) == ["item/started", "item/completed"]
    assert follower.names(e.AgentReasoningDelta("hm", ItemId("r2"), 0))[-1] == "item/reasoning/summaryTextDelta"


def test_what_another_conversation_says_and_plans_stays_with_it() -> None:
    """Issue 10 (5)."""
    follower = begun()
    for data in (
        e.AgentMessageDelta("x", M1, 0),
        e.AgentMessage("x", M1),
        t.PlanUpdate([t.PlanStep("x", "pending")]),
        e.HistoryCompacted(compacted=True, before_tokens=9, after_tokens=1, removed_items=3, trigger="limit"),
    ):
        assert not follower.hear(data, conversation=CHILD)


def test_costs_add_up() -> None:
    """Issue 10 (5): thread/tokenUsage/updated."""
    follower = begun()
    count = e.TokenCount(Usage(10, 0, 5, 0, 15), 1_000, "key")
    follower.hear(count)
    ((_, params),) = follower.hear(count)
    usage = params["tokenUsage"]
    assert (usage["total"]["totalTokens"], usage["last"]["totalTokens"]) == (30, 15)


def test_what_is_not_as_asked_is_a_warning_and_a_retry_is_an_error_that_is_not_the_last() -> None:
    """Issue 10 (5)."""
    follower = begun()
    assert follower.names(e.WarningEvent("careful")) == ["warning"]
    assert follower.names(e.BackgroundEvent("narrowed", [{"field": "sandbox"}])) == ["warning"]
    assert not follower.hear(e.BackgroundEvent("just so"))
    ((method, params),) = follower.hear(e.BackgroundEvent("again", discard_deltas=True))
    assert (method, params["willRetry"]) == ("error", True)
    vain = e.HistoryCompacted(compacted=False, before_tokens=1, after_tokens=1, removed_items=0, trigger="request")
    assert follower.names(vain) == ["warning"]


def test_servers_say_how_they_start() -> None:
    """Issue 10 (5): mcpServer/startupStatus/updated; what Codex has no word for is left out."""
    follower = Follower()
    ((method, params),) = follower.hear(t.McpServerStatus("files", "untrusted", "not trusted"), task=None)
    assert (method, params["status"]) == ("mcpServer/startupStatus/updated", "failed")
    assert not follower.hear(t.McpServerStatus("files", "disabled"), task=None)


def test_between_turns_nothing_belongs_to_one() -> None:
    """Issue 10 (5)."""
    follower = Follower()
    assert not follower.hear(e.TokenCount(NO_USAGE, 1, "key"))
    assert not follower.hear(e.ErrorEvent("internal", "x"))
    assert not follower.hear(e.SubscriberLagged(None, None, 3))
    assert not follower.hear(t.PlanUpdate([]))
