"""The interfaces of an executor: another program does a conversation's task, reports in steps, and may ask its host.

A step says what happened in words of our own, whichever agent it was. Steps know nothing of events, storage or
approvals: `step_events.py` turns them into events, and the conversation implements the host.
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
"""What an agent says that it is about to do, in the words of ACP."""


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """May the agent do this? Texts are the agent's own."""

    doing: ActionKind
    title: str
    detail: str
    """What there is to know besides the command; of all else everything."""
    words: tuple[str, ...]
    """All that a grant is bound to: the command's words, or the tool and its arguments."""
    paths: tuple[str, ...] = ()
    """The files that it will change, as far as it says."""
    call: str | None = None
    """By which the agent tells of it later."""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """The answer to a permission question."""

    allowed: bool
    lasting: bool = False
    """The approver need not be asked again for the very same thing."""


class ExecutorHost(Protocol):
    """What an executor may ask of us during one run. A TertuliaError is the answer to what is refused."""

    async def permit(self, question: PermissionQuestion) -> PermissionAnswer:
        """Ask the policy, or the approver; without an approver it is a no. Never raises a TertuliaError."""
        ...

    async def read(self, path: str) -> str:
        """A text file, as a command of the conversation would see it."""
        ...

    async def write(self, path: str, text: str, call: str) -> None:
        """Make it so, where a patch of the conversation could. `call`: the step in which it is done."""
        ...

    async def start(
        self, argv: tuple[str, ...], cwd: str | None, variables: Mapping[str, str], on_output: OnOutput, call: str
    ) -> RunningCommand:
        """Run a command in the conversation's sandbox. The caller sees to its end. `call` as in `write`."""
        ...

    def allowed_by(self, call: str) -> Decider | None:
        """Who or what allowed that step so far; None: no one was asked about it."""
        ...


STOP_S = 0.5
"""Between being asked to stop and being killed: a task that is stopped has to be over within a second."""
GRACE_S = 2.0
"""Seconds for a program to exit after it has reported its end, or was asked to leave."""

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
"""Have something run beside us; see `scheduler/nursery.py`."""


class ProgramServices(msgspec.Struct, frozen=True, eq=False):
    """What every program that does a conversation's work is run with."""

    runner: CommandRunner
    environment: Mapping[str, str]
    """All that the program gets, its keys included, and nothing else that is ours."""
    spawn: Spawn
    grace_s: float = GRACE_S


# ── what an agent does ───────────────────────────────────────────────────────────────────────────────────────────


class CommandAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call runs a command."""

    argv: tuple[str, ...]


class FileChangeAct(msgspec.Struct, frozen=True, gc=False):
    """What becomes of one file."""

    path: str
    kind: Literal["add", "delete", "update"]


class PatchAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call changes files."""

    changes: tuple[FileChangeAct, ...]


class McpCallAct(msgspec.Struct, frozen=True, gc=False):
    """It calls a tool of an MCP server."""

    server: str
    tool: str


class WebSearchAct(msgspec.Struct, frozen=True, gc=False):
    """The tool call searches the web."""

    query: str


ToolAct = CommandAct | PatchAct | McpCallAct | WebSearchAct | None
"""None: a tool of its own that has no kind here."""


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────


class NativeSessionId(msgspec.Struct, frozen=True, gc=False):
    """The agent's own id of this session: with it the agent can be asked to go on. Fit to be an argument."""

    id: str


class _Text(msgspec.Struct, frozen=True, gc=False):
    id: str
    text: str


class AgentText(_Text, frozen=True, gc=False):
    """A whole message. Its id is that of the deltas before it."""


class AgentDelta(_Text, frozen=True, gc=False):
    """A piece of a message."""


class Thought(_Text, frozen=True, gc=False):
    """A whole piece of reasoning."""


class ThoughtDelta(_Text, frozen=True, gc=False):
    """A piece of reasoning, as it comes."""


class ToolUseBegin(msgspec.Struct, frozen=True, gc=False):
    """It uses a tool. The id is unique within the run only."""

    id: str
    name: str
    """What the agent calls the tool; `server__tool` for one of an MCP server."""
    arguments: Any
    """What it is called with, as plain JSON."""
    act: ToolAct = None


class ToolUseEnd(msgspec.Struct, frozen=True, gc=False):
    """The one end of that. May come without its beginning."""

    id: str
    name: str
    arguments: Any
    act: ToolAct
    success: bool
    output: str
    exit_code: int | None = None


class AgentPlan(msgspec.Struct, frozen=True, gc=False):
    """It wrote a new plan."""

    steps: tuple[PlanStep, ...]


class UsageReport(msgspec.Struct, frozen=True, gc=False):
    """What this turn cost: several in one run add up."""

    turn: Usage
    total: Usage = NO_USAGE
    """Where the agent counts over its whole session: what it reported. The parser of the next run is given it."""


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Something that a person may want to know; work goes on."""

    message: str


class ForeignOutput(msgspec.Struct, frozen=True, gc=False):
    """Output of a kind that is not known here, as it came, or a note about what could not be kept."""

    raw: Any


class RunFinished(msgspec.Struct, frozen=True, gc=False):
    """The run ended and the task is done."""

    text: str | None = None
    """The answer, as far as the agent says which one it is."""


class RunFailed(msgspec.Struct, frozen=True, gc=False):
    """The agent gave up. The message is the agent's own."""

    message: str
    code: str = "model_error"


class RunInterrupted(msgspec.Struct, frozen=True, gc=False):
    """The output ended, and the agent never said how the task did."""


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
    | ForeignOutput
)
Step = ProgressStep | RunEnd


class Parser(Protocol):
    """Understands the output of one run; there is one for each run.

    Contract: takes any bytes, however they are cut, and never raises; what it keeps is bounded. `feed` never returns
    an ending; `end` returns exactly one, last. Lines that are no JSON are passed over and counted.
    """

    @property
    def passed_over(self) -> int:
        """How many lines made no sense."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the agent has said how it ended: what is left is for the program to exit."""
        ...

    async def feed(self, chunk: bytes) -> list[Step]:
        """What these bytes make whole."""
        ...

    async def end(self) -> list[Step]:
        """The output is over: what is left to say, and how it ended."""
        ...


class Assignment(msgspec.Struct, frozen=True):
    """One run. It is not logged: it holds what was said, and keys."""

    prompt: str
    """Goes in by standard input, never by an argument."""
    cwd: str
    resume: str | None = None
    """The native id of the session to go on with; then the prompt is the bare message."""
    total: Usage = NO_USAGE
    """What that session has cost so far, by the agent's own count."""
    told: str = ""
    """The digest of the additions in the last run of that session."""
    additions: tuple[str, ...] = ()
    """What the agent is told beside the prompt, each run."""
    passing: bool = False
    """They hold for this task only, so no other task resumes the run's session: many agents keep
    what they were told in their own session."""
    rights: Rights = TOP
    """What it may do at most; an executor that has no way to hold to that refuses."""
    roots: tuple[str, ...] = ()
    """The directories that those rights let it write, canonical."""
    private: bool = False
    """Nothing of it may be left anywhere: the agent gets a home that goes with the run."""
    server: tuple[str, ...] = ()
    """The program that is its one MCP server; none, and it gets none."""
    variables: Mapping[str, str] = {}
    """What that server's environment has besides the usual, and the agent's own in this run."""
    conversation: str = ""
    """The conversation of the task: an agent that stays between runs stays for one conversation."""
    host: ExecutorHost | None = None
    """The host that it may ask while it works; None: it may not ask."""

    @property
    def digest(self) -> str:
        """A digest of the additions, so that a change of them is noticed."""
        return hashlib.sha256("\0".join(self.additions).encode("utf-8", "replace")).hexdigest()

    @property
    def is_told_already(self) -> bool:
        """Whether the session that it resumes was given the same the last time."""
        return self.resume is not None and self.told == self.digest


class ResumeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent goes on with what was said before."""

    strategy: Literal["auto", "transcript"] = "auto"
    """`auto`: by its own id of the session where that still fits, else by the transcript. Never both."""
    on_resume_failure: Literal["transcript", "fail"] = "transcript"
    """When the agent does not know its own id any more."""
    retry: Literal["resume", "new_session"] = "resume"
    """After a run that failed or was stopped: go on with the agent's own session, or begin a new one."""


class Executor(Protocol):
    """One other agent, reached one way.

    Contract of `run`: failures of the program are yielded as `RunFailed`, never raised; the last step is an `RunEnd`,
    exactly one; closing the iterator or cancelling its reader stops the agent before it returns, within `STOP_S` and a
    little, with all that it started. Nothing that was said is kept from one run to the next: ids and counts come as
    steps and go in as assignments.
    """

    @property
    def name(self) -> str:
        """The backend, as people write it."""
        ...

    @property
    def identity(self) -> tuple[str, ...]:
        """The agent and where it keeps its sessions: an id from one is worth nothing to another."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether it can ask a person in the middle of a task."""
        ...

    @property
    def can_resume(self) -> bool:
        """Whether it can go on with a session by its native id."""
        ...

    def run(self, assignment: Assignment) -> AsyncGenerator[Step, None]:
        """Do the task, and yield what happens."""
        ...

    async def forget(self, conversation: str) -> None:
        """The conversation is closed, or has another executor now: a program that waits for its next task is ended."""
        ...
