"""The interfaces of an executor: another program does a conversation's task, reports in steps, and may ask its host.

A step reports what happened in the same terms for every agent. Steps know nothing of events, storage or approvals:
`step_events.py` turns them into events, and the conversation implements the host.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, Literal, Protocol

import msgspec

from tertulia.policy.rights import TOP, Rights
from tertulia.protocol.items import NO_USAGE, Usage
from tertulia.protocol.tool_events import Decider, PlanStep
from tertulia.sandbox.runner import CommandRunner, OnOutput, RunningCommand

ActionKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
"""The kind of action that an agent announces, in the terms of ACP."""


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question whether the agent may do something. The texts are the agent's own."""

    doing: ActionKind
    title: str
    detail: str
    """For a command, everything beyond its words; for any other action, everything."""
    words: tuple[str, ...]
    """What a grant is bound to: the words of the command, or the tool and its arguments."""
    paths: tuple[str, ...] = ()
    """The files that the agent says it will change."""
    call: str | None = None
    """The id of the tool call with which the agent reports the action later."""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer to a permission question."""

    allowed: bool
    lasting: bool = False
    """Whether the approver need not be asked again for exactly the same action."""


class ExecutorHost(Protocol):
    """What an executor may ask of us during one run. A refused request raises a TertuliaError."""

    async def permit(self, question: PermissionQuestion) -> PermissionAnswer:
        """Ask the policy, or the approver; without an approver the answer is no. Never raises a TertuliaError."""
        ...

    async def read(self, path: str) -> str:
        """Read a text file, as a command of the conversation would see it."""
        ...

    async def write(self, path: str, text: str, call: str) -> None:
        """Write a file, where a patch of the conversation could. `call`: the id of the step that reports it."""
        ...

    async def start(
        self, argv: tuple[str, ...], cwd: str | None, variables: Mapping[str, str], on_output: OnOutput, call: str
    ) -> RunningCommand:
        """Start a command in the conversation's sandbox. The caller must end it. `call` as in `write`."""
        ...

    def allowed_by(self, call: str) -> Decider | None:
        """Who or what has allowed that step; None: it was not asked about."""
        ...


STOP_S = 0.5
"""Seconds between the request to stop and the kill: a stopped task must be over within a second."""
GRACE_S = 2.0
"""Seconds for a program to exit after it has reported its end, or was asked to exit."""

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
"""Starts a coroutine in a task of its own; see `scheduler/nursery.py`."""


class ProgramServices(msgspec.Struct, frozen=True, eq=False):
    """The services with which every executor's program is run."""

    runner: CommandRunner
    environment: Mapping[str, str]
    """The whole environment of the program, with its keys and nothing else of ours."""
    spawn: Spawn
    grace_s: float = GRACE_S


# ── what an agent does ───────────────────────────────────────────────────────────────────────────────────────────


class CommandAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call runs a command."""

    argv: tuple[str, ...]


class FileChangeAct(msgspec.Struct, frozen=True, gc=False):
    """The change of one file."""

    path: str
    kind: Literal["add", "delete", "update"]


class PatchAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call changes files."""

    changes: tuple[FileChangeAct, ...]


class McpCallAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call calls a tool of an MCP server."""

    server: str
    tool: str


class WebSearchAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call searches the web."""

    query: str


ToolAct = CommandAct | PatchAct | McpCallAct | WebSearchAct | None
"""None: a tool of the agent for which there is no kind here."""


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────


class NativeSessionId(msgspec.Struct, frozen=True, gc=False):
    """The agent's own id of this session, with which it can be resumed. Safe as a program argument."""

    id: str


class _Text(msgspec.Struct, frozen=True, gc=False):
    id: str
    text: str


class AgentText(_Text, frozen=True, gc=False):
    """A complete message. Its id is that of the deltas before it."""


class AgentDelta(_Text, frozen=True, gc=False):
    """A piece of a message, as it is streamed."""


class Thought(_Text, frozen=True, gc=False):
    """A complete piece of reasoning."""


class ThoughtDelta(_Text, frozen=True, gc=False):
    """A piece of reasoning, as it is streamed."""


class ToolUseBegin(msgspec.Struct, frozen=True, gc=False):
    """The agent starts to use a tool. The id is unique within the run only."""

    id: str
    name: str
    """The agent's name of the tool; `server__tool` for a tool of an MCP server."""
    arguments: Any
    """The arguments of the call, as plain JSON."""
    act: ToolAct = None


class ToolUseEnd(msgspec.Struct, frozen=True, gc=False):
    """The one end of a tool use. May come without a begin."""

    id: str
    name: str
    arguments: Any
    act: ToolAct
    success: bool
    output: str
    exit_code: int | None = None


class AgentPlan(msgspec.Struct, frozen=True, gc=False):
    """The agent has written a new plan."""

    steps: tuple[PlanStep, ...]


class UsageReport(msgspec.Struct, frozen=True, gc=False):
    """The usage of one turn: several in one run add up."""

    turn: Usage
    total: Usage = NO_USAGE
    """The agent's own total, where it counts over its whole session. The parser of the next run gets it."""


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A message for people; the work goes on."""

    message: str


class Progress(msgspec.Struct, frozen=True, gc=False):
    """What is done before the agent gets its prompt, for people: its program starts, or starts again."""

    message: str


class ForeignOutput(msgspec.Struct, frozen=True, gc=False):
    """Output of an unknown kind, as it came, or a note about output that was dropped."""

    raw: Any


class RunFinished(msgspec.Struct, frozen=True, gc=False):
    """The run ended and the task is done."""

    text: str | None = None
    """The answer, where the agent says which message it is."""


class RunFailed(msgspec.Struct, frozen=True, gc=False):
    """The agent gave up. The message is the agent's own."""

    message: str
    code: str = "model_error"


class RunInterrupted(msgspec.Struct, frozen=True, gc=False):
    """The output ended without the agent saying how the task ended."""


RunEnd = RunFinished | RunFailed | RunInterrupted
ProgressStep = (
    NativeSessionId
    | AgentText
    | AgentDelta
    | Thought
    | ThoughtDelta
    | ToolUseBegin
    | ToolUseEnd
    | AgentPlan
    | UsageReport
    | Notice
    | Progress
    | ForeignOutput
)
Step = ProgressStep | RunEnd


class Parser(Protocol):
    """Parses the output of one run; every run has a parser of its own.

    Contract: takes any bytes, however they are split, and never raises; what it keeps is bounded. `feed` never returns
    a `RunEnd`; `end` returns exactly one, last. Lines that are no JSON are skipped and counted.
    """

    @property
    def passed_over(self) -> int:
        """How many lines were skipped because they are no JSON."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the agent has reported the end of its work, so that only the exit of the program is missing."""
        ...

    async def feed(self, chunk: bytes) -> list[Step]:
        """The steps that these bytes complete."""
        ...

    async def end(self) -> list[Step]:
        """The last steps when the output is over, with how the run ended."""
        ...


def _ignored() -> None:
    """Nothing waits for what the agent acknowledges."""


class Assignment(msgspec.Struct, frozen=True):
    """The input of one run. Never logged: it holds conversation text and keys."""

    prompt: str
    """Passed by standard input, never as an argument."""
    cwd: str
    resume: str | None = None
    """The native id of the session to resume; the prompt is then the message without history."""
    total: Usage = NO_USAGE
    """The usage of that session so far, as the agent counts it."""
    told: str = ""
    """The digest of the additions in the last run of that session."""
    additions: tuple[str, ...] = ()
    """Texts that the agent is told beside the prompt in each run."""
    passing: bool = False
    """Whether the additions hold for this task only, so that no other task may resume the session of this run: many
    agents keep what they were told in their own session.
    """
    rights: Rights = TOP
    """What the agent may do at most; an executor that cannot enforce that refuses."""
    roots: tuple[str, ...] = ()
    """The directories that those rights let the agent write, as real paths."""
    private: bool = False
    """Whether nothing of the run may be left anywhere: the agent gets a home that is removed with the run."""
    server: tuple[str, ...] = ()
    """The command of the agent's one MCP server; empty: it gets none."""
    variables: Mapping[str, str] = {}
    """Variables for that server besides the usual ones, and for the agent itself in this run."""
    conversation: str = ""
    """The conversation of the task: an agent that keeps running between tasks works for one conversation only."""
    host: ExecutorHost | None = None
    """The host that the agent may ask while it works; None: it may not ask."""
    acknowledged: Callable[[], None] = _ignored
    """Called when the agent was asked to stop and has answered that it did: its own session then holds the prompt, also
    where it had not reported anything yet.
    """

    @property
    def digest(self) -> str:
        """A digest of the additions, by which a change is noticed."""
        return hashlib.sha256("\0".join(self.additions).encode("utf-8", "replace")).hexdigest()

    @property
    def is_told_already(self) -> bool:
        """Whether the resumed session was given the same additions in its last run."""
        return self.resume is not None and self.told == self.digest


class ResumeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent continues an earlier conversation."""

    strategy: Literal["auto", "transcript"] = "auto"
    """`auto`: by the agent's own session id while that is valid, else by the transcript. Never both."""
    on_resume_failure: Literal["transcript", "fail"] = "transcript"
    """What to do when the agent no longer knows its own session id."""
    retry: Literal["resume", "new_session"] = "resume"
    """After a run that failed or was stopped: resume the agent's own session, or start a new one."""


class Executor(Protocol):
    """One agent with one way to run it.

    Contract of `run`: failures of the program are yielded as `RunFailed`, never raised; the last step is a `RunEnd`,
    exactly one; closing the iterator or cancelling its reader stops the agent and all that it started before it
    returns, shortly after `STOP_S` at the latest. No conversation text is kept from one run to the next: ids and counts
    are reported as steps and come back in assignments.
    """

    @property
    def name(self) -> str:
        """The name of the backend, as people write it."""
        ...

    @property
    def identity(self) -> tuple[str, ...]:
        """The agent and where it keeps its sessions: a session id is valid for one identity only."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether the agent can ask a person during a task."""
        ...

    @property
    def can_resume(self) -> bool:
        """Whether the agent can resume a session by its native id."""
        ...

    def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """Do the task, and yield its steps."""
        ...

    async def forget(self, conversation: str) -> None:
        """End a program that waits for the conversation's next task: that is closed, or has another executor now."""
        ...
