"""`exec` for people: the answer on standard output, everything else on standard error.

On a terminal the answer is shown as it comes. Into a pipe or a file goes the final answer and a line end, or
nothing at all: what was said on the way there is not the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from tertulia.cli.exec.run_message import MessageOutcome, StopReason, warning_text
from tertulia.cli.output.tables import conversation_name
from tertulia.cli.output.terminal import Style, TerminalOutput, shorten
from tertulia.cli.output.work_lines import WORK_EVENTS, Line, WorkLines
from tertulia.policy.approvals.approval_queue import WAYS_OUT
from tertulia.policy.rights import to_wire
from tertulia.protocol import events as e
from tertulia.protocol.ids import ConversationId, ItemId
from tertulia.protocol.tool_events import ApprovalRequest, ApprovalResolved, ElicitationRequest, ElicitationResolved
from tertulia.protocol.worktree import WorktreeReport
from tertulia.sandbox.availability import tier_outlook
from tertulia.session.session import Session

DELAY_S = 0.4
"""Seconds without output before it appears: quick answers show no spinner."""
_STEP_S = 0.1
_FRAMES = "|/-\\"


def session_header(session: Session) -> str:
    """One line that says what a session works with: model, directory, sandbox with its tier, and its id."""
    root = session.root.details
    sandbox = to_wire("sandbox", root.rights.sandbox)
    if root.rights.sandbox != "danger_full_access":
        tier = tier_outlook(session.settings.sandbox_tier, waits=False).tier
        sandbox = f"{sandbox} ({tier or 'nothing can confine commands here'})"
    return f"{root.model} · {root.cwd} · {sandbox} · session {session.id}"


class Spinner:
    """A line of its own that turns while something is awaited, and is gone before anything else is printed."""

    def __init__(self, out: TerminalOutput) -> None:
        """`out` can print a line over."""
        self._out = out
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._frame = 0
        self._is_drawn = False

    def start(self) -> None:
        """Show it after a moment, if nothing is printed meanwhile. Needs a running loop. Idempotent."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(DELAY_S, self._turn)

    def stop(self) -> None:
        """Clear the line, and show it no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_drawn:
            self._is_drawn = False
            self._out.rewrite()

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._frame = (self._frame + 1) % len(_FRAMES)
        self._out.rewrite((f"{_FRAMES[self._frame]} {loop.time() - self._since:.0f} s", "dim"))
        self._is_drawn = True
        self._timer = loop.call_later(_STEP_S, self._turn)


class WaitingSign:
    """Whether a spinner turns: while an answer is awaited, and no line is being written and no question asked."""

    def __init__(self, out: TerminalOutput, *, quiet: bool) -> None:
        """Without `quiet`, on a terminal; not in a pipe or a file, with TERM=dumb and with NO_COLOR."""
        self._spinner: Spinner | None = None
        if out.coloured and not quiet:
            self._spinner = Spinner(out)
        self.is_due = False
        """Whether an answer is awaited."""
        self._questions: set[str] = set()
        """What the person is being asked: while they type, nothing turns."""

    def follow(self, data: e.EventData) -> None:
        """An event that will be shown now."""
        match data:
            case ApprovalRequest(approval_id=question) | ElicitationRequest(elicitation_id=question):
                self._questions.add(question)
                self.hide()
            case ApprovalResolved(approval_id=question) | ElicitationResolved(elicitation_id=question):
                self._questions.discard(question)
            case _:
                pass

    def show(self) -> None:
        """Let it turn, where it may."""
        if self._spinner is not None and self.is_due and not self._questions:
            self._spinner.start()

    def hide(self) -> None:
        """Clear its line, because something will be printed."""
        if self._spinner is not None:
            self._spinner.stop()


class TextView:
    """Prints the events of one run as text."""

    def __init__(
        self, out: TerminalOutput, notes: TerminalOutput, warnings: Sequence[str], *, quiet: bool = False
    ) -> None:
        """`quiet`: no spinner, and not what it cost."""
        self._out = out
        self._notes = notes
        self._quiet = quiet
        self._sign = WaitingSign(notes, quiet=quiet)
        self._root: ConversationId | None = None
        self._names: dict[ConversationId | None, str] = {}
        self._work: WorkLines | None = None
        self._open: ItemId | None = None
        """The answer that the cursor stands behind."""
        self._shown: set[ItemId] = set()
        """Answers of which the pieces were shown, and that are not whole yet."""
        self._held: str | None = None
        """The newest whole answer, while it may still turn out to be the final one."""
        self._warned: set[str] = set()
        for warning in warnings:
            self._note("warning", "yellow", warning)

    def show(self, event: e.Event) -> None:
        """Print one event, if it is of use to a person."""
        self._sign.follow(event.data)
        shower = self._showers.get(type(event.data))
        if shower is not None:
            shower(self, event, event.data)
        elif isinstance(event.data, WORK_EVENTS):
            # Made for the first of them: most answers need none.
            self._work = self._work or WorkLines()
            self._show_work(event, self._work.take(event) or [])
        elif (sentence := warning_text(event.data)) is not None and sentence not in self._warned:
            # A server that is tried again fails with the same words.
            self._warned.add(sentence)
            self._note("warning", "yellow", sentence)
        if self._open is None:
            self._sign.show()

    def wait(self) -> None:
        """From the next event on a spinner shows that an answer is awaited, until `rest` or `end`."""
        self._sign.is_due = True

    def rest(self) -> None:
        """Nothing is awaited any more."""
        self._sign.is_due = False
        self._sign.hide()

    def stopping(self, reason: StopReason) -> None:
        """Say so at once: stopping may take a while."""
        self._note("stopping", "yellow", "the timeout has passed" if reason == "timeout" else "a second signal kills")

    def end(self, ending: MessageOutcome) -> None:
        """The final answer, and what it cost."""
        self.rest()
        self._break_line()
        reply = ending.reply
        if ending.status == "completed" and reply is not None:
            if not self._out.live and reply.text is not None:
                self._out.line(reply.text)
        else:
            self._pass_held()
            self._note(ending.status, "red")
        for line in ending.refused:
            self._note("refused", "red", f"{line}: no one could answer")
        if ending.refused:
            self._note("note", "yellow", WAYS_OUT)
        if reply is not None and reply.worktree is not None:
            for word, style, text in _worktree_lines(reply.worktree):
                self._note(word, style, text)
        if reply is not None and not self._quiet:
            usage = reply.usage
            spent = f"{usage.input_tokens:,} in ({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out"
            calls = f"{reply.tool_calls} tool call{'' if reply.tool_calls == 1 else 's'}"
            self._note("tokens", "dim", f"{spent} · {calls} · {reply.duration:.1f} s")

    def pause(self) -> None:
        """End a line that is being written: something else will be printed."""
        self._sign.hide()
        self._break_line()

    # ── what the model says ──────────────────────────────────────────────────────────────────────────────────

    def _configured(self, event: e.Event, data: e.SessionConfigured) -> None:
        self._root = data.root_conversation_id

    def _piece(self, event: e.Event, data: e.AgentMessageDelta) -> None:
        if self._out.live and event.conversation_id == self._root:
            self._sign.hide()
            if self._open != data.item_id:
                self._break_line()
            self._open = data.item_id
            self._shown.add(data.item_id)
            self._out.stream(data.text)

    def _message(self, event: e.Event, data: e.AgentMessage) -> None:
        if event.conversation_id != self._root:
            self._note(self._name(event.conversation_id), "magenta", f"said {shorten(data.text)}")
        elif not self._out.live:
            self._pass_held()
            self._held = data.text
        elif data.item_id in self._shown:
            self._shown.discard(data.item_id)
            self._break_line()
        else:
            self._sign.hide()
            self._out.line(data.text)

    def _reasoning(self, event: e.Event, data: e.AgentReasoning) -> None:
        self._note("thinking", "dim", shorten(data.text))

    def _pass_held(self) -> None:
        """Print the held answer: it was not the final one."""
        if self._held is not None:
            self._note("said", "dim", shorten(self._held))
            self._held = None

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────

    def _show_work(self, event: e.Event, lines: list[Line]) -> None:
        if event.conversation_id == self._root:
            # A text before a tool call is not the final answer.
            self._pass_held()
        others = event.conversation_id not in (self._root, None)
        author: Line = ((f"{self._name(event.conversation_id)} ", "magenta"),) if others else ()
        for line in lines:
            self.pause()
            self._notes.line(*author, *line)

    def _opened(self, event: e.Event, data: e.ConversationOpened) -> None:
        if event.conversation_id is not None and data.parent_id is not None:
            self._names[event.conversation_id] = conversation_name(event.conversation_id, data.title, data.parent_id)

    def _name(self, conversation_id: ConversationId | None) -> str:
        return self._names.get(conversation_id) or str(conversation_id)[:8]

    def _turned(self, event: e.Event, data: e.TurnAborted | e.TaskContinued) -> None:
        if isinstance(data, e.TaskContinued):
            self._note("goes on", "cyan", f"a task that a crash cut, attempt {data.attempt}")
        elif data.reason == "replaced":
            self._note("waits", "cyan", "goes on when every conversation that it asked has answered")
        elif data.reason == "crash":
            self._note("closed", "yellow", "a task that was running when its process died")

    # ── warnings and errors ──────────────────────────────────────────────────────────────────────────

    def _background(self, event: e.Event, data: e.BackgroundEvent) -> None:
        if data.discard_deltas:
            self._shown.clear()
        self._note("narrowed" if data.narrowed else "note", "yellow", data.message)

    def _error(self, event: e.Event, data: e.ErrorEvent) -> None:
        self._note("error", "red", data.message)

    def _note(self, word: str, style: Style, text: str = "") -> None:
        self.pause()
        self._notes.line((word, style), f" {text}" if text else "")

    def _break_line(self) -> None:
        if self._open is not None:
            self._open = None
            self._out.end_stream()
            self._out.line()

    _showers: ClassVar[Mapping[type[e.EventData], Callable[..., None]]] = {
        e.SessionConfigured: _configured,
        e.AgentMessageDelta: _piece,
        e.AgentMessage: _message,
        e.AgentReasoning: _reasoning,
        e.ConversationOpened: _opened,
        e.TurnAborted: _turned,
        e.TaskContinued: _turned,
        e.BackgroundEvent: _background,
        e.ErrorEvent: _error,
    }


def _worktree_lines(worktree: WorktreeReport) -> Iterator[tuple[str, Style, str]]:
    yield "branch", "cyan", f"{worktree.branch} at {worktree.commit[:12]}"
    for line in worktree.diffstat.splitlines():
        yield "      ", "dim", line.strip()
    for entry in worktree.left_out:
        yield "not committed", "yellow", entry
