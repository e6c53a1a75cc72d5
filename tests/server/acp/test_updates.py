"""Events as updates: what an editor can show of each, and of whom."""

from __future__ import annotations

from typing import Any

from acp import schema as s

from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.events import Event, EventData
from tertulia.protocol.ids import CallId, ConversationId, ItemId, SessionId
from tertulia.protocol.items import (
    AssistantMessage,
    ImagePart,
    Item,
    Reasoning,
    Summary,
    TextPart,
    ToolCall,
    ToolOutput,
    Usage,
    UserMessage,
)
from tertulia.server.acp.tool_calls import AcpToolCalls
from tertulia.server.acp.updates import SessionUpdates, updates_from_history
from tests.tables import each_row

ROOT, CHILD = ConversationId("root"), ConversationId("child")


def updates() -> SessionUpdates:
    return SessionUpdates(
        ROOT,
        AcpToolCalls(
            ROOT,
            lambda conversation: "/",
            lambda conversation: "" if conversation == ROOT else "[helper] ",
            terminal=False,
        ),
    )


def event(data: EventData, conversation: ConversationId | None = ROOT) -> Event:
    return Event(1, None, "", data.type, SessionId("s"), "sub", conversation, None, None, None, data)


@each_row(
    "data",
    [
        e.AgentMessageDelta("x", ItemId("i"), 0),
        e.AgentMessage("x", ItemId("i")),
        e.AgentReasoning("x", ItemId("i")),
        e.TokenCount(Usage(1, 0, 2, 0, 3), 100, "key"),
        t.PlanUpdate([t.PlanStep("x", "pending")]),
    ],
)
def test_only_the_root_speaks_plans_and_counts(data: EventData) -> None:
    """Issue 10 (4): what a child says is for its caller."""
    assert len(updates().of(event(data))) == 1
    assert updates().of(event(data, CHILD)) == []


def test_calls_of_a_child_are_shown_with_its_name() -> None:
    """Issue 10 (4)."""
    (update,) = updates().of(event(t.ToolCallBegin(CallId("c"), "shell", {"command": ["ls"]}), CHILD))
    assert update["title"] == "[helper] ls"


def test_thoughts_and_words_are_told_apart() -> None:
    """Issue 10 (4)."""
    made = updates()
    (thought,) = made.of(event(e.AgentReasoningDelta("hm", ItemId("r"), 0)))
    assert (thought["sessionUpdate"], thought["messageId"]) == ("agent_thought_chunk", "r")
    (rest,) = made.of(event(e.AgentReasoning("hmm", ItemId("r"))))
    assert (rest["sessionUpdate"], rest["content"]) == ("agent_thought_chunk", {"type": "text", "text": "m"})
    assert made.of(event(e.AgentMessageDelta("hello", ItemId("m"), 0)))[0]["sessionUpdate"] == "agent_message_chunk"
    assert made.of(event(e.AgentMessage("hello", ItemId("m")))) == []


def test_an_answer_that_begins_again_is_said_to() -> None:
    """DESIGN, Models: discard_deltas; ACP cannot take back what was shown."""
    made, again = updates(), e.BackgroundEvent("again", discard_deltas=True)
    assert made.of(event(again)) == []
    made.of(event(e.AgentMessageDelta("half an ans", ItemId("i"), 0)))
    (remark,) = made.of(event(again))
    assert remark["sessionUpdate"] == "agent_thought_chunk"
    assert made.of(event(e.AgentMessageDelta("half an answer", ItemId("i"), 0)))


def test_usage_is_what_the_last_request_filled_of_the_window() -> None:
    """Issue 10 (4): usage_update."""
    (update,) = updates().of(event(e.TokenCount(Usage(10, 5, 2, 1, 12), 100, "key")))
    assert update == {"sessionUpdate": "usage_update", "used": 12, "size": 100}


@each_row(
    ("data", "expected"),
    [
        (e.WarningEvent("mind the gap"), "mind the gap"),
        (t.McpServerStatus("x", "failed", "it died"), "it died"),
        (t.McpServerStatus("x", "untrusted"), "no reason is known"),
        (e.HistoryCompacted(True, 900, 100, 5, "limit"), "900 tokens are 100"),
    ],
)
def test_what_a_person_may_want_to_know_is_said_beside_the_answer(data: EventData, expected: str) -> None:
    """LIBRARIES: status and error of each server, in ACP too."""
    (update,) = updates().of(event(data, None))
    assert update["sessionUpdate"] == "agent_thought_chunk"
    assert expected in update["content"]["text"]


def test_a_server_that_fails_again_as_before_is_no_news() -> None:
    """LIBRARIES: it is tried again for every turn; said once, and once more when it had worked in between."""
    made = updates()
    failed, ready = t.McpServerStatus("x", "failed", "it died"), t.McpServerStatus("x", "ready")
    counts = [len(made.of(event(data, None))) for data in (failed, failed, ready, failed, failed)]
    assert counts == [1, 0, 0, 1, 0]
    assert len(made.of(event(t.McpServerStatus("x", "failed", "it is gone"), None))) == 1
    assert len(made.of(event(t.McpServerStatus("y", "failed", "it is gone"), None))) == 1


@each_row(
    "data",
    [
        t.McpServerStatus("x", "ready"),
        e.HistoryCompacted(True, 900, 100, 5, "request"),
        e.HistoryCompacted(False, 900, 900, 0, "limit", "too little"),
        e.BackgroundEvent("narrowed"),
        e.BackgroundEvent("again", discard_deltas=True),
        e.TaskStarted("user"),
        e.ErrorEvent("model_error", "it is the prompt's answer"),
        e.ForeignEvent("codex", {"a": 1}),
    ],
)
def test_everything_else_is_not_for_an_editor(data: Any) -> None:
    """Issue 10 (4)."""
    assert updates().of(event(data)) == []


def test_an_answer_that_begins_again_is_said_to_once_something_was_shown() -> None:
    """DESIGN, Models: discard_deltas."""
    made = updates()
    made.of(event(e.AgentMessageDelta("half", ItemId("i"), 0)))
    (update,) = made.of(event(e.BackgroundEvent("again", discard_deltas=True)))
    assert "begins again" in update["content"]["text"]


CONVERSATION = ConversationId("talk")


def test_every_kind_of_item_is_told_in_order_and_in_the_schemas_words() -> None:
    """Issue 10 (4): session/load."""
    pictures = (ImagePart("data:image/png;base64,AAAA"), ImagePart("https://example.com/a.png"))
    items: list[Item] = [
        UserMessage(ItemId("seed"), (TextPart("<environment>"),), injected=True),
        Summary(ItemId("s"), "we met", 4),
        UserMessage(ItemId("u"), (TextPart("look"), *pictures)),
        Reasoning(ItemId("r"), "hm"),
        Reasoning(ItemId("sealed"), ""),
        ToolCall(ItemId("c"), CallId("1"), "shell", '{"command": ["ls"]}'),
        ToolCall(ItemId("p"), CallId("2"), "update_plan", "{}"),
        ToolOutput(ItemId("o"), CallId("1"), (TextPart("a.py"),)),
        ToolOutput(ItemId("q"), CallId("2"), (TextPart("ok"),)),
        AssistantMessage(ItemId("a"), (TextPart("seen"),)),
    ]
    updates = list(
        updates_from_history(
            items,
            CONVERSATION,
            AcpToolCalls(CONVERSATION, lambda conversation: "/", lambda conversation: "", terminal=False),
        )
    )
    for update in updates:
        s.SessionNotification.model_validate({"sessionId": "x", "update": update})
    assert [(update["sessionUpdate"], update.get("messageId", update.get("status"))) for update in updates] == [
        ("agent_thought_chunk", "s"),
        ("user_message_chunk", "u"),
        ("user_message_chunk", "u"),
        ("user_message_chunk", "u"),
        ("agent_thought_chunk", "r"),
        ("tool_call", "pending"),
        ("tool_call_update", "completed"),
        ("agent_message_chunk", "a"),
    ]
    assert updates[2]["content"] == {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    assert updates[3]["content"] == {"type": "resource_link", "name": "image", "uri": "https://example.com/a.png"}
