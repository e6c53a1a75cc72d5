"""Screens over a session whose contents do not change from run to run: questions, a list of sessions, a replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tertulia.protocol.events import Event
from tertulia.protocol.ids import CallId, ConversationId, ItemId, TaskId
from tertulia.protocol.items import Item, ToolCall, ToolOutput, UserMessage, text_parts
from tertulia.protocol.records import ModelRequestRecord
from tertulia.session.resume.recorded_prompt import RecordedPrompt
from tertulia.session.resume.replay_verification import RequestVerdict
from tertulia.terminal.sessions.picker import SessionDetails, StoredSession
from tertulia.terminal.sessions.picker_screen import PickerScreen
from tertulia.terminal.sessions.recording import Step
from tertulia.terminal.sessions.replay import ReplayScreen
from tertulia.testing import FakeClock
from tertulia.view.board import Board
from tertulia.view.rewind import Rewind

_PATCH = """*** Begin Patch
*** Update File: app.py
@@ def total(items):
-    return sum(item.price for item in items)
+    return sum(item.price * item.count for item in items)
*** Add File: tests/test_total.py
+def test_two_of_a_thing_cost_twice_as_much() -> None:
+    assert total([Item(price=3, count=2)]) == 6
*** End Patch"""
FORM: dict[str, Any] = {
    "type": "elicitation_request",
    "conversation": "tester",
    "task": "t4",
    "data": {
        "elicitation_id": "e1",
        "server": "tickets",
        "message": "Which ticket is this for?",
        "schema": {
            "type": "object",
            "properties": {
                "ticket": {"type": "string", "title": "Ticket", "minLength": 2, "description": "as in SHOP-12"},
                "urgent": {"type": "boolean", "default": False},
                "part": {"type": "string", "enum": ["basket", "till"]},
            },
            "required": ["ticket"],
        },
        "chain": ["root"],
    },
}
PATCH_QUESTION: dict[str, Any] = {
    "type": "approval_request",
    "conversation": "tester",
    "task": "t4",
    "data": {
        "approval_id": "q2",
        "kind": "patch",
        "conversation_id": "tester",
        "chain": ["root"],
        "title": "apply a patch to 2 files",
        "detail": "\n".join(["The patch:", *(f"│ {line}" for line in _PATCH.split("\n"))]),
        "matches": ["patch: app.py, tests/test_total.py"],
        "scopes": ["once"],
        "files": [
            {"path": "app.py", "kind": "update", "added": 1, "removed": 1},
            {"path": "tests/test_total.py", "kind": "add", "added": 2, "removed": 0},
        ],
        "cwd": "/home/ada/shop",
    },
}
GRANTS = {
    "grants": [
        {"grant_id": "g1", "kind": "exec", "scope": "session", "conversation_id": None, "expires_in_s": 3_540.0,
         "matches": ["exec: python -m pytest -q", "directory: /home/ada/shop"], "uses": 12},
        {"grant_id": "g2", "kind": "exec", "scope": "conversation", "conversation_id": "tester", "expires_in_s": None,
         "matches": ["exec: make lint"], "uses": 0},
    ]
}  # fmt: skip
_ROWS = [
    StoredSession("a1", 1_767_225_640.0, "openai/gpt-5.2", 3),
    StoredSession("b2", 1_767_222_000.0, "anthropic/claude-sonnet-4-5", 1),
    StoredSession("c3", 1_767_000_000.0, "local/small", 12),
    StoredSession("d4", 1_766_000_000.0, problem="its file is damaged: `tertulia sessions check d4`"),
]
_DETAILS = {
    "a1": SessionDetails("The basket's total is wrong when a customer buys two of a thing", in_use=True, cost_usd=0.42),
    "b2": SessionDetails("合計が間違っている: 二つ買うと", cost_usd=0.004),
    "c3": SessionDetails(""),
}


class _PlayedList:
    def rows(self) -> list[StoredSession]:
        return _ROWS

    def details(self, ids: Sequence[str]) -> dict[str, SessionDetails]:
        return {id: _DETAILS[id] for id in ids if id in _DETAILS}


def played_picker(clock: FakeClock) -> PickerScreen:
    """The picker of four sessions."""
    screen: Any = PickerScreen(Path("/nowhere"), clock)
    screen._list = _PlayedList()
    return screen


class _PlayedRecording:
    """What a replay asks of a record, from events that are played."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._rewind = Rewind(events)
        self.steps = [
            Step(number, 1_767_225_600.0 + number, event.type.replace("_", " "), number, event.conversation_id)
            for number, event in enumerate(events, 1)
        ]

    def board(self, place: int) -> Board:
        return self._rewind.board(self.steps[place].count)

    shown = board

    def request_before(self, place: int, conversation_id: ConversationId | None = None) -> int | None:
        return place

    def prompt(self, place: int) -> RecordedPrompt:
        root, task = ConversationId("root"), TaskId("t1")
        digests = [letter * 64 for letter in "abc"]
        # The request before the last one had no answer of a tool yet.
        items: list[Item] = _ITEMS if place == len(self.steps) - 1 else _ITEMS[:1]
        request = ModelRequestRecord(root, task, *digests, len(items), "d" * 64, b'[{"name":"shell"}]')
        verdict = RequestVerdict(place, 0.0, root, task, "same")
        tools = [{"name": name} for name in ("shell", "apply_patch", "conv_create", "conv_send", "update_plan")]
        return RecordedPrompt(verdict, request, "You are an agent.\nBe brief.", tools, items)


_ITEMS: list[Item] = [
    UserMessage(ItemId("i-t1"), text_parts("The basket's total is wrong when a customer buys two of a thing.")),
    ToolCall(ItemId("i-c1"), CallId("c1"), "shell", '{"command": ["sed", "-n", "1,20p", "app.py"]}'),
    ToolOutput(
        ItemId("i-o1"),
        CallId("c1"),
        text_parts("def total(items):\n    return sum(item.price for item in items)"),
    ),
]


def played_replay(events: Sequence[Event]) -> ReplayScreen:
    """The replay of events that are played."""
    # No subclass: the styles of a screen hold for its own class.
    screen: Any = ReplayScreen(Path("/nowhere"), "played")

    async def open() -> None:
        screen._recording = _PlayedRecording(events)
        screen._body.say("")
        screen._go(len(events) - 1)

    screen._open = open
    return screen
