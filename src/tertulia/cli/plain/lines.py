"""Turns the events of a session into lines, a line a thing, each line once: what `--plain` shows.

Pure: takes events, returns lines, prints nothing. A text of a model comes line by line, as soon as a line is whole. Of
a plan that changes only the steps that changed are told again. Where more than one conversation speaks, every line
names its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from tertulia.cli.exec.run_message import MessageOutcome, warning_text
from tertulia.cli.output.terminal import Style, StyledText, shorten
from tertulia.cli.output.work_lines import Line, WorkLines, refusal_text
from tertulia.cli.plain.patch_lines import PatchLines
from tertulia.protocol import events as e
from tertulia.protocol import message_events as m
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import ConversationId
from tertulia.view.board import Board
from tertulia.view.board_state import Changes
from tertulia.view.cells import AssistantCell, Cell, GrowingCell, HandoffCell, NoticeCell, ReasoningCell, UserCell
from tertulia.view.conversation_view import ConversationView
from tertulia.view.text import headline, name_of

_STEP_WORDS = {"completed": "done", "in_progress": "now", "pending": "to do"}
_LEVEL_STYLES: Mapping[str, Style] = {"note": "yellow", "warning": "yellow", "error": "red"}
_MAX_ASKED = 1_000
_LOOK_BACK = 64
"""Cells from the end among which a changed one is looked for: what changes is near the end."""


class PlainLines:
    """Follows a session and says what is new."""

    def __init__(self) -> None:
        self.board = Board()
        self._work = WorkLines()
        self._written: dict[tuple[ConversationId, str], int] = {}
        """Characters of each unfinished text that stand in lines already."""
        self._own: list[str] = []
        self._steps: dict[ConversationId, dict[str, str]] = {}
        self._warned: set[str] = set()
        self._patches = PatchLines()

    def sent(self, text: str) -> None:
        """The person at this terminal sends a message: it stands there already, as it was typed."""
        self._own.append(text)

    def name(self, conversation_id: ConversationId | None) -> str:
        """What a conversation is called."""
        view = None if conversation_id is None else self.board.conversations.get(conversation_id)
        return str(conversation_id or "session")[:8] if view is None else name_of(view, self.board.root_id)

    def take(self, event: e.Event) -> list[Line]:
        """The lines that this event adds."""
        changes = self.board.take(event)
        teller = self._tellers.get(type(event.data))
        lines = self._other(event, changes) if teller is None else teller(self, event, event.data, changes)
        author = self._author(event.conversation_id)
        # A name alone says nothing: where lines are named, there are no blank ones.
        return [(*author, *line) for line in lines if not author or line != ("",)]

    def _author(self, conversation_id: ConversationId | None) -> Line:
        if conversation_id is None or len(self.board.conversations) < 2:
            return ()
        return ((f"{self.name(conversation_id)}: ", "magenta"),)

    def _cell(self, changes: Changes) -> tuple[ConversationView, Cell] | None:
        view = None if changes.conversation_id is None else self.board.conversations.get(changes.conversation_id)
        if view is None or changes.cell is None:
            return None
        for cell in reversed(view.cells[-_LOOK_BACK:]):
            if cell.key == changes.cell:
                return view, cell
        return None

    # ── texts ────────────────────────────────────────────────────────────────────────────────────────────────

    def _text(self, event: e.Event, data: e.EventData, changes: Changes) -> list[Line]:
        found = self._cell(changes)
        match found:
            case (view, AssistantCell() as cell):
                return [(line,) for line in self._whole_lines(view, cell, done=cell.done)]
            case (_, ReasoningCell(done=True) as cell) if text := shorten(cell.text):
                return [(("thinks ", "dim"), (text, "dim"))]
            case _:
                return []

    def _whole_lines(self, view: ConversationView, cell: GrowingCell, *, done: bool) -> list[str]:
        key = (view.id, cell.key)
        start = self._written.pop(key, 0)
        text = cell.text
        if done:
            return text[start:].rstrip("\n").split("\n") if len(text) > start else []
        # Where pieces were lost, the rest comes with the whole text.
        end = start if cell.missing else text.rfind("\n", start) + 1
        self._written[key] = max(start, end)
        return text[start : end - 1].split("\n") if end > start else []

    def _started(self, event: e.Event, data: e.TaskStarted, changes: Changes) -> list[Line]:
        return [(("goes on", "cyan"),)] if data.kind == "continuation" else []

    def _continued(self, event: e.Event, data: e.TaskContinued, changes: Changes) -> list[Line]:
        return [((f"goes on after a crash, attempt {data.attempt}", "cyan"),)]

    def _heard(self, event: e.Event, data: e.EventData, changes: Changes) -> list[Line]:
        match self._cell(changes):
            case (_, UserCell(text=text, delegated=True)):
                return [(("is asked: ", "cyan"), shorten(text, _MAX_ASKED))]
            case (_, UserCell(text=text)):
                if text in self._own:
                    self._own.remove(text)
                    return []
                return [(("you: ", "bold"), text)]
            case _:
                return []

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _called(self, event: e.Event, data: t.ToolCallBegin, changes: Changes) -> list[Line]:
        match self._cell(changes):
            case (_, HandoffCell() as call):
                return [(headline(call),)]
            case _:
                return self._work.take(event) or []

    def _answered(self, event: e.Event, data: t.ToolCallEnd, changes: Changes) -> list[Line]:
        match self._cell(changes):
            case (_, HandoffCell()):
                return [] if data.success else [(("failed ", "red"), refusal_text(data.output) or shorten(data.output))]
            case _:
                return self._work.take(event) or []

    def _patched(self, event: e.Event, data: e.EventData, changes: Changes) -> list[Line]:
        return self._patches.take(event, self._work.take(event) or [])

    def _planned(self, event: e.Event, data: t.PlanUpdate, changes: Changes) -> list[Line]:
        of = event.conversation_id or ConversationId("")
        before = self._steps.get(of, {})
        now = self._steps[of] = {step.step: step.status for step in data.plan}
        changed = [(step, status) for step, status in now.items() if before.get(step) != status]
        return [(("plan ", "cyan"), f"{_STEP_WORDS[status]}: {shorten(step)}") for step, status in changed]

    # ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _aborted(self, event: e.Event, data: e.TurnAborted, changes: Changes) -> list[Line]:
        if data.reason != "replaced":
            return [((data.reason, "red"),)]
        # S004-26: the task is replaced by the target's, and goes on with its result.
        view = self.board.view(event)
        calls = [call for call in view.open_calls.values() if isinstance(call, HandoffCell)]
        targets = " and ".join(self._target_name(call) for call in calls) or "another conversation"
        return [((f"waits: {targets} works, then {self.name(view.id)} goes on with the answer", "cyan"),)]

    def _target_name(self, call: HandoffCell) -> str:
        return call.title or (self.name(call.target_id) if call.target_id else "a new conversation")

    def _completed(self, event: e.Event, data: e.TaskComplete, changes: Changes) -> list[Line]:
        # How a task of the root ended is told when its message has its answer: see `end_lines`.
        is_root = event.conversation_id == self.board.root_id
        return [] if is_root or data.status == "completed" else [((data.status, "red"),)]

    # ── sentences ────────────────────────────────────────────────────────────────────────────────────────────

    def _other(self, event: e.Event, changes: Changes) -> list[Line]:
        work = self._work.take(event)
        if work is not None:
            return work
        match self._cell(changes) if changes.new or changes.removed else None:
            case (_, NoticeCell(level=level, text=text)):
                return self._notice(level, text)
            case _:
                sentence = warning_text(event.data)
                return [] if sentence is None else self._notice("warning", sentence)

    def _notice(self, level: str, text: str) -> list[Line]:
        if level == "warning" and text in self._warned:
            # A server that is tried again fails with the same words.
            return []
        self._warned.add(text)
        return [((f"{level}: ", _LEVEL_STYLES[level]), text or "[not stored]")]

    _tellers: ClassVar[Mapping[type[e.EventData], Callable[..., list[Line]]]] = {
        e.AgentMessageDelta: _text,
        e.AgentMessage: _text,
        e.AgentReasoning: _text,
        m.UserMessageEvent: _heard,
        e.TaskStarted: _started,
        e.TaskContinued: _continued,
        e.TaskComplete: _completed,
        e.TurnAborted: _aborted,
        t.ToolCallBegin: _called,
        t.ToolCallEnd: _answered,
        t.PlanUpdate: _planned,
        t.PatchApplyBegin: _patched,
        t.PatchApplyEnd: _patched,
        t.ApprovalRequest: _patched,
    }


def end_lines(ending: MessageOutcome) -> list[Line]:
    """How a message ended, what was refused, where its branch is, and what it cost."""
    return [*_refusals(ending), *_branch_lines(ending), _last_line(ending)]


def _refusals(ending: MessageOutcome) -> list[Line]:
    return [(("refused ", "red"), refused) for refused in ending.refused]


def _branch_lines(ending: MessageOutcome) -> list[Line]:
    worktree = None if ending.reply is None else ending.reply.worktree
    if worktree is None:
        return []
    left: list[Line] = [(("not committed ", "yellow"), entry) for entry in worktree.left_out]
    return [(("branch ", "cyan"), f"{worktree.branch} at {worktree.commit[:12]}"), *left]


def _last_line(ending: MessageOutcome) -> Line:
    word: StyledText = ("done", "green") if ending.status == "completed" else (ending.status, "red")
    reply = ending.reply
    if reply is None:
        return (word,)
    usage = reply.usage
    spent = f"{usage.input_tokens:,} in ({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out"
    calls = f"{reply.tool_calls} tool call{'' if reply.tool_calls == 1 else 's'}"
    return (word, (f": {spent} tokens, {calls}, {reply.duration:.1f} s", "dim"))
