"""Turns the steps of an executor into events: the same ones as for a turn of the native backend.

Every tool use becomes one `tool_call_begin` and one `tool_call_end`, whatever the agent reported; commands, patches,
MCP calls and searches have events of their own between them. The end of the run gives no event here: the end of the
task reports it for every backend in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from tertulia.events.clock import Clock
from tertulia.executors import executor as x
from tertulia.executors.result_text import clip
from tertulia.history.segment import utf8_size
from tertulia.protocol import events as e
from tertulia.protocol import tool_events as t
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.inputs import MAX_TEXT_BYTES

MAX_OUTPUT_BYTES = 65_536
_MAX_NAME = 200

_INTERRUPTED = "interrupted"

EventList = list[e.EventData]


class _Open(NamedTuple):
    begun: x.ToolUseBegin
    since: float


def item_of(run: str, step_id: str) -> ItemId:
    """The id under which a step of a run is published."""
    return ItemId(f"{run}:{step_id}")


class StepEvents:
    """Turns the steps of one run into events. Decides and publishes nothing; keeps only what is still open.

    Agents number their steps from the start in each run, so ids are prefixed with the name of the run.
    """

    def __init__(
        self,
        backend: str,
        run: str,
        cwd: str,
        clock: Clock,
        *,
        max_output_bytes: int | None = MAX_OUTPUT_BYTES,
        allowed_by: Callable[[str], t.Decider | None] = lambda _: None,
    ) -> None:
        """`allowed_by`: returns who or what allowed a step, if it was asked about."""
        self._backend = backend
        self._run = run
        self._cwd = cwd
        self._clock = clock
        self._room = max_output_bytes
        self._allowed_by = allowed_by
        self._open: dict[str, _Open] = {}
        self._closed: set[str] = set()
        self._offsets: dict[str, int] = {}
        self._wholes: dict[str, int] = {}
        """How many complete messages each id has had."""

    def tell(self, step: x.Step) -> EventList:
        """The events of one step; a `RunEnd` closes what is still open."""
        return self._tellers[type(step)](self, step)

    def _item(self, step_id: str) -> ItemId:
        return item_of(self._run, step_id)

    def _nothing(self, step: x.Step) -> EventList:
        return []

    # ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────

    def _spoken(self, step_id: str) -> ItemId:
        """A unique id for a message, also where the agent uses one id twice."""
        times = self._wholes.get(step_id, 0)
        return self._item(f"{step_id}~{times + 1}" if times else step_id)

    def _delta(self, step: x.AgentDelta | x.ThoughtDelta) -> EventList:
        offset = self._offsets.get(step.id, 0)
        if offset + len(step.text) > MAX_TEXT_BYTES:
            # The message is too long. The rest of its deltas is not published, since a gap would read like its text.
            self._offsets[step.id] = MAX_TEXT_BYTES
            return []
        self._offsets[step.id] = offset + len(step.text)
        kind = e.AgentMessageDelta if isinstance(step, x.AgentDelta) else e.AgentReasoningDelta
        return [kind(step.text, self._spoken(step.id), offset)]

    def _whole(self, step: x.AgentText | x.Thought) -> EventList:
        self._offsets.pop(step.id, None)
        kind = e.AgentMessage if isinstance(step, x.AgentText) else e.AgentReasoning
        item_id = self._spoken(step.id)
        self._wholes[step.id] = self._wholes.get(step.id, 0) + 1
        return [kind(step.text, item_id)]

    def _plan(self, step: x.AgentPlan) -> EventList:
        return [t.PlanUpdate(list(step.steps))]

    def _usage(self, step: x.UsageReport) -> EventList:
        # The context window and the cache of an executor are unknown.
        return [e.TokenCount(step.turn, 0, "")]

    def _notice(self, step: x.Notice) -> EventList:
        return [e.WarningEvent(step.message)]

    def _progress(self, step: x.Progress) -> EventList:
        return [e.BackgroundEvent(step.message)]

    def _foreign(self, step: x.ForeignOutput) -> EventList:
        return [e.ForeignEvent(self._backend, step.raw)]

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, step: x.ToolUseBegin) -> EventList:
        if step.id in self._open or step.id in self._closed:
            return []
        step = replace(step, name=clip(step.name, _MAX_NAME))
        self._open[step.id] = _Open(step, self._clock.monotonic())
        call_id = CallId(self._item(step.id))
        finer = _finer_begin(call_id, step.act, self._cwd, self._allowed_by(step.id))
        return [t.ToolCallBegin(call_id, step.name, step.arguments), *finer]

    def _end(self, step: x.ToolUseEnd) -> EventList:
        if step.id in self._closed:
            return []
        whole = step.output
        begin = self._begin(x.ToolUseBegin(step.id, step.name, step.arguments, step.act))
        begun, since = self._open.pop(step.id)
        self._closed.add(step.id)
        # A tool use ends as the kind it began as.
        act = step.act if type(step.act) is type(begun.act) else begun.act
        step = replace(step, name=begun.name, act=act, output=bound_text(step.output, self._room))
        elapsed = max(0, round((self._clock.monotonic() - since) * 1000))
        decider = self._allowed_by(step.id)
        return [*begin, *_end(CallId(self._item(step.id)), step, step.output != whole, elapsed, decider)]

    def _close(self, step: x.Step) -> EventList:
        left = [was.begun for was in self._open.values()]
        return [
            event
            for begin in left
            for event in self._end(x.ToolUseEnd(begin.id, begin.name, begin.arguments, begin.act, False, _INTERRUPTED))
        ]

    _tellers: ClassVar[Mapping[type, Callable[..., EventList]]] = {
        x.NativeSessionId: _nothing,
        x.AgentText: _whole,
        x.AgentDelta: _delta,
        x.Thought: _whole,
        x.ThoughtDelta: _delta,
        x.ToolUseBegin: _begin,
        x.ToolUseEnd: _end,
        x.AgentPlan: _plan,
        x.UsageReport: _usage,
        x.Notice: _notice,
        x.Progress: _progress,
        x.ForeignOutput: _foreign,
        x.RunFinished: _close,
        x.RunFailed: _close,
        x.RunInterrupted: _close,
    }


def bound_text(text: str, max_bytes: int | None) -> str:
    """The text in at most so many bytes of UTF-8: whole, or its beginning and its end."""
    if max_bytes is None:
        return text
    shown, size = text, utf8_size(text)
    while size > max_bytes:
        shown = clip(text, len(shown) * max_bytes // size)
        size = utf8_size(shown)
    return shown


def _finer_begin(call_id: CallId, act: x.ToolAct, cwd: str, decider: t.Decider | None) -> EventList:
    match act:
        case x.CommandAct(argv):
            return [t.ExecCommandBegin(call_id, list(argv), cwd, allowed_by=decider)]
        case x.PatchAct(changes):
            described: list[t.PatchChange] = [{"kind": change.kind, "path": change.path} for change in changes]
            return [t.PatchApplyBegin(call_id, described)]
        case x.McpCallAct(server, tool):
            return [t.McpToolCallBegin(call_id, clip(server, _MAX_NAME), clip(tool, _MAX_NAME))]
        case x.WebSearchAct():
            return [t.WebSearchBegin(call_id)]
        case None:
            return []


def _end(call_id: CallId, step: x.ToolUseEnd, cut: bool, elapsed: int, decider: t.Decider | None) -> EventList:
    end = t.ToolCallEnd(call_id, step.name, step.success, step.output, cut, elapsed)
    match step.act:
        case x.CommandAct():
            return [t.ExecCommandEnd(call_id, step.exit_code, step.output, cut, elapsed, decider), end]
        case x.PatchAct():
            return [t.PatchApplyEnd(call_id, step.success, step.output, decider), end]
        case x.McpCallAct(server, tool):
            named = (clip(server, _MAX_NAME), clip(tool, _MAX_NAME))
            return [t.McpToolCallEnd(call_id, *named, step.success, elapsed), end]
        case x.WebSearchAct(query):
            return [t.WebSearchEnd(call_id, query), end]
        case None:
            return [end]
