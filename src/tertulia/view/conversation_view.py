"""One conversation as a screen shows it: its state, what it does now, and its transcript."""

from __future__ import annotations

from typing import Literal

import msgspec

from tertulia.protocol.events import TaskKind
from tertulia.protocol.ids import CallId, ConversationId, ItemId, TaskId
from tertulia.view.cells import AssistantCell, Call, Cell, HandoffCell, PlanCell, ReasoningCell

ConversationState = Literal["idle", "running", "waiting", "asking", "failed", "closed"]
"""`waiting`: for the answer of another conversation. `asking`: for a person's."""

MAX_CELLS = 20_000
"""The most cells of one conversation; the record has older ones."""


class QueuedMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message that waits for its turn."""

    task_id: TaskId | None
    item_id: ItemId
    preview: str
    ts: str
    attachments: int = 0


class ConversationView(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What a screen shows of one conversation."""

    id: ConversationId
    parent_id: ConversationId | None = None
    title: str | None = None
    model: str = ""
    backend: str = ""
    depth: int = 0
    task_id: TaskId | None = None
    """The task that runs, or that waits for answers."""
    task_kind: TaskKind | None = None
    since: str | None = None
    """When the task started, or began to wait."""
    waits: bool = False
    """It has handed over to others and goes on with their answers."""
    caller_id: ConversationId | None = None
    """The conversation that waits for this one."""
    open_questions: int = 0
    failed: bool = False
    """The last task failed, and none has begun since."""
    closed: bool = False
    unread: int = 0
    """Cells worth reading that came since `Board.read`."""
    context_tokens: int = 0
    context_window: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    queued: list[QueuedMessage] = msgspec.field(default_factory=list)
    """Messages whose tasks have not begun, the oldest first."""
    taken_back: TaskId | None = None
    """The task of the message that was taken back last, until its end has come."""
    last_key: str | None = None
    """The cell of what it does now, or did last."""
    cells: list[Cell] = msgspec.field(default_factory=list)
    dropped: int = 0
    """Older cells that are no longer kept here."""
    growing: dict[ItemId, AssistantCell | ReasoningCell] = msgspec.field(default_factory=dict)
    """Texts of the model that are not whole yet."""
    open_calls: dict[CallId, Call] = msgspec.field(default_factory=dict)
    plan: PlanCell | None = None
    """The plan for the message that was last begun."""

    @property
    def state(self) -> ConversationState:
        """The state in one word; the first that applies."""
        if self.closed:
            return "closed"
        if self.open_questions:
            return "asking"
        if self.waits:
            return "waiting"
        if self.task_id is not None:
            return "running"
        return "failed" if self.failed else "idle"

    def add(self, cell: Cell) -> None:
        """Put a cell at the end; the oldest go where there are too many."""
        self.cells.append(cell)
        if len(self.cells) > MAX_CELLS:
            surplus = MAX_CELLS // 10
            del self.cells[:surplus]
            self.dropped += surplus

    def replace(self, old: Cell, new: Cell) -> None:
        """Put a cell in the place of another, which is near the end."""
        for index in range(len(self.cells) - 1, -1, -1):
            if self.cells[index] is old:
                self.cells[index] = new
                return

    def stop(self) -> None:
        """End what it does without a word: nothing of it asks, works or waits any more."""
        self.task_id = self.task_kind = self.since = self.caller_id = None
        self.waits, self.open_questions = False, 0
        for call in self.open_calls.values():
            call.done = call.lost = True
            call.revision += 1
        self.open_calls.clear()
        self.growing.clear()

    def waiting_targets(self) -> list[ConversationId]:
        """The conversations whose answers it waits for, in the order of the calls."""
        calls = self.open_calls.values()
        return [call.target_id for call in calls if isinstance(call, HandoffCell) and call.target_id is not None]
