"""A small application around the panel of approvals: a clock that the test moves, and all that the panel posts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from tertulia.protocol.events import ConversationOpened, Event, EventData
from tertulia.protocol.ids import ConversationId, SessionId
from tertulia.protocol.tool_events import ApprovalFile, ApprovalRequest, Because, ElicitationRequest
from tertulia.terminal.approvals.messages import ApprovalAnswered
from tertulia.terminal.approvals.panel import ApprovalsPanel
from tertulia.terminal.text_entry import TextEntry
from tertulia.view.board import Board
from tests.terminal.screen import screen_text

BEGAN = 1_800_000_000.0


class HandClock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return BEGAN + self.seconds

    def monotonic(self) -> float:
        return self.seconds


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(BEGAN + seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class BoardOfQuestions:
    """A board that events are folded into, as a session would send them."""

    def __init__(self) -> None:
        self.board = Board()
        self._seq = 0
        self.board.root_id = ConversationId("c-root")
        self.open("c-root", None, None)
        self.open("c-tester", "tester", "c-root")

    def open(self, id: str, title: str | None, parent: str | None) -> None:
        self.take(id, ConversationOpened(parent and ConversationId(parent), title, "test", "native"))

    def take(self, conversation_id: str, data: EventData) -> None:
        self._seq += 1
        session, conversation = SessionId("s"), ConversationId(conversation_id)
        self.board.take(Event(1, self._seq, stamp(0), data.type, session, "sub", conversation, None, None, None, data))

    def ask(self, id: str = "approval-1", **fields: Any) -> None:
        self.take(str(fields.get("conversation_id", "c-tester")), question(id, **fields))

    def elicit(self, schema: dict[str, Any], **fields: Any) -> None:
        values: dict[str, Any] = {
            "elicitation_id": "elicit-1", "server": "tickets", "message": "Which ticket?", "schema": schema,
            "chain": ("c-root",), **fields,
        }  # fmt: skip
        self.take("c-tester", ElicitationRequest(**values))


def question(id: str = "approval-1", **fields: Any) -> ApprovalRequest:
    command = fields.pop("command", "python -m pytest -q")
    detail = fields.pop("detail", f"{command}\nin /home/ada/shop")
    values: dict[str, Any] = {
        "approval_id": id, "kind": "exec", "conversation_id": "c-tester", "chain": ["c-root"],
        "title": f"run: {command}", "detail": detail, "matches": [f"exec: {command}", "directory: /home/ada/shop"],
        "scopes": ["once", "conversation", "session"], "asked_at": stamp(0), "expires_at": stamp(300),
        "command": command, "cwd": "/home/ada/shop", "sandbox": "workspace-write, network off",
        "because": Because("the approval policy is untrusted: only reads run unasked", "session"),
        "digest": detail, "size": len(detail), **fields,
    }  # fmt: skip
    return ApprovalRequest(**values)


def patch_question(text: str, id: str = "approval-1", **fields: Any) -> ApprovalRequest:
    detail = "\n".join(["The patch:", *(f"│ {line}" for line in text.split("\n"))])
    files = (ApprovalFile("app.py", "update", 2, 4), ApprovalFile("tests/test_total.py", "add", 5, 0))
    return question(
        id, **{"kind": "patch", "title": "apply a patch to 2 files", "detail": detail, "files": files, **fields,
               "command": None},
    )  # fmt: skip


class PanelApp(App[None]):
    """The panel above a field that plays the composer."""

    CSS = "#composer { dock: bottom; }"

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.clock = HandClock()
        self.asking = BoardOfQuestions()
        self.composer = TextEntry(id="composer")
        self.panel = ApprovalsPanel(lambda: self.composer.has_focus and not self.composer.text, clock=self.clock)
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.panel
        yield self.composer

    def on_mount(self) -> None:
        self.composer.focus()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self.panel.key_typed()
        await super().on_event(event)

    def show(self) -> None:
        board = self.asking.board
        self.panel.show(list(board.questions.values()), board)

    def on_typed_through(self, message: ApprovalsPanel.TypedThrough) -> None:
        self.composer.insert(message.text)
        self.composer.focus()

    def on_focus_released(self) -> None:
        self.composer.focus()

    def on_approval_answered(self, message: Message) -> None:
        self.posted.append(message)

    on_elicitation_answered = on_plan_answered = on_whole_text_requested = on_approval_answered

    def answers(self) -> list[tuple[Any, ...]]:
        """What was answered: the id, the decision, and the fields that were given."""
        return [
            (message.approval_id, message.decision, message.scope, message.ttl_s, message.message)
            for message in self.posted
            if isinstance(message, ApprovalAnswered)
        ]


@asynccontextmanager
async def panel_with(*requests: ApprovalRequest, size: tuple[int, int] = (80, 24)) -> AsyncIterator[PanelPilot]:
    """The panel with these questions, chosen by the person, and long enough in view to be answered."""
    app = PanelApp()
    async with app.run_test(size=size) as pilot:
        for request in requests:
            app.asking.take("c-tester", request)
        app.show()
        await pilot.pause()
        app.panel.focus()
        await pilot.pause()
        app.clock.seconds += 1
        yield PanelPilot(app, pilot)


class PanelPilot:
    """Presses keys, each a second after the one before."""

    def __init__(self, app: PanelApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            self.app.clock.seconds += 1
            await self.pilot.press(key)
        await self.pilot.pause()

    @property
    def text(self) -> str:
        return screen_text(self.app)
