"""Turns out of a history, and what a thread may do in Codex's words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tertulia.errors import NotFoundError
from tertulia.policy.approval_policy import ApprovalPolicy, approval_from_wire
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.items import (
    AssistantMessage,
    Item,
    Reasoning,
    Summary,
    ToolCall,
    ToolOutput,
    UserMessage,
    text_parts,
)
from tertulia.server.codex.items import rights_fields, round_number, thread_preview, turn_objects
from tertulia.session.settings.settings import Settings
from tests.tables import each_row


def user(id: str, text: str, *, injected: bool = False) -> UserMessage:
    return UserMessage(ItemId(id), text_parts(text), injected=injected)


CONVERSATION: list[Item] = [
    user("i1", "<environment>", injected=True),
    user("u1", "first  words"),
    Reasoning(ItemId("r1"), "hm"),
    Reasoning(ItemId("r2"), ""),
    ToolCall(ItemId("x1"), CallId("c1"), "shell", '{"command": ["ls"]}'),
    ToolCall(ItemId("x2"), CallId("c2"), "mine", "{}"),
    ToolOutput(ItemId("o2"), CallId("c2"), text_parts("second"), success=False),
    ToolOutput(ItemId("o1"), CallId("c1"), text_parts("a.txt")),
    AssistantMessage(ItemId("a1"), text_parts("there is one")),
    user("u2", "more"),
    AssistantMessage(ItemId("a2"), text_parts("no more")),
]


def test_each_message_of_a_person_begins_a_turn() -> None:
    """Issue 10 (5): what we put in ourselves is left out; each call has its own output."""
    first, second = turn_objects(CONVERSATION, "/work", {"u2": "task-2"})
    assert (first["id"], second["id"]) == ("u1", "task-2")
    kinds = [item["type"] for item in first["items"]]
    assert kinds == ["userMessage", "reasoning", "commandExecution", "dynamicToolCall", "agentMessage"]
    assert [item.get("status") for item in first["items"][2:4]] == ["completed", "failed"]
    assert first["items"][2]["aggregatedOutput"] == "a.txt"
    assert thread_preview(CONVERSATION) == "first words"


def test_a_turn_is_found_by_its_name() -> None:
    """Issue 10 (5): lastTurnId of a fork."""
    assert (round_number(CONVERSATION, "u1"), round_number(CONVERSATION, "task-2", {"u2": "task-2"})) == (1, 2)
    with pytest.raises(NotFoundError):
        round_number(CONVERSATION, "u2", {"u2": "task-2"})


def test_what_was_summarised_stands_at_the_beginning() -> None:
    """Issue 10 (5): contextCompaction."""
    (turn,) = turn_objects([CONVERSATION[0], Summary(ItemId("s1"), "in short"), CONVERSATION[8]], "/")
    assert [item["type"] for item in turn["items"]] == ["contextCompaction", "agentMessage"]
    assert turn_objects([CONVERSATION[0]], "/") == []
    assert thread_preview([CONVERSATION[0]]) == ""


@each_row(
    ("policy", "named"),
    [
        ("untrusted", "untrusted"),
        ("on-failure", "on-request"),
        ("never", "never"),
        (ApprovalPolicy("trusted", may_ask=False, retry_outside_on_failure=False), "never"),
    ],
)
def test_a_policy_has_the_nearest_name_that_codex_knows(policy: Any, named: str) -> None:
    """Issue 10 (5)."""
    rights = replace(Settings().rights, approval_policy=approval_from_wire(policy))
    assert rights_fields(rights)["approvalPolicy"] == named


@pytest.mark.parametrize(
    ("mode", "named"),
    [("read_only", "readOnly"), ("workspace_write", "workspaceWrite"), ("danger_full_access", "dangerFullAccess")],
)
def test_a_sandbox_has_codexs_name(mode: Any, named: str) -> None:
    """Issue 10 (5)."""
    assert rights_fields(replace(Settings().rights, sandbox=mode))["sandbox"]["type"] == named
