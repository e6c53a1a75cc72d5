"""The event data of tools: calls, commands, patches, MCP, approvals, plans, canvases.

The envelope and the union of all event data are in `events`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NotRequired, Required, TypedDict

from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.mapping_struct import BaseEventData, MappingStruct


class Decider(MappingStruct, frozen=True, gc=False, omit_defaults=True):
    """Who or what answered an approval, or let a call run without one."""

    kind: Literal["client", "callback", "grant", "policy", "clock", "interrupt", "shutdown"]
    """`client`: a person or a program at one; `callback`: a function of the application; `clock`: no answer in time."""
    name: str | None = None
    """Of a client or a callback its name; of a policy its value or the setting that says so."""
    grant_id: str | None = None
    """What allows it from then on: the grant that was found, or the one that this answer gave."""


class ToolCallBegin(BaseEventData, frozen=True, gc=False):
    """A call of the model is about to be handled."""

    type: ClassVar[str] = "tool_call_begin"
    call_id: CallId
    name: str
    arguments: Any
    """As JSON; as the model wrote them where that is not JSON."""


class ToolCallEnd(BaseEventData, frozen=True, gc=False):
    """The one end of a call."""

    type: ClassVar[str] = "tool_call_end"
    call_id: CallId
    name: str
    success: bool
    output: str
    truncated: bool
    duration_ms: int


class ExecCommandBegin(BaseEventData, frozen=True, gc=False):
    """A command of a tool call starts."""

    type: ClassVar[str] = "exec_command_begin"
    call_id: CallId
    command: list[str]
    cwd: str
    sandbox: str | None = None
    """How it is confined, as policies spell it; `danger-full-access`: not at all. None: by another program."""
    allowed_by: Decider | None = None
    """None: it is not known yet, see its end; or another program runs it, and asked no one."""


class ExecCommandOutputDelta(BaseEventData, frozen=True, gc=False):
    """A piece of a command's output."""

    type: ClassVar[str] = "exec_command_output_delta"
    durable: ClassVar[bool] = False
    call_id: CallId
    stream: Literal["stdout", "stderr"]
    text: str
    item_id: ItemId
    offset: int


class ExecCommandEnd(BaseEventData, frozen=True, gc=False):
    """A command of a tool call has ended."""

    type: ClassVar[str] = "exec_command_end"
    call_id: CallId
    exit_code: int | None
    output: str
    truncated: bool
    duration_ms: int
    allowed_by: Decider | None = None
    """Of a command that an executor ran itself, and that was asked about after it began to be told."""


class PatchChange(TypedDict):
    """One file of a patch."""

    kind: Required[str]
    """`add`, `update` or `delete`; executors may say others."""
    path: Required[str]
    move_to: NotRequired[str]
    added: NotRequired[int]
    """The number of lines that come; not there where it is not known, as of a binary file."""
    removed: NotRequired[int]


class PatchApplyBegin(BaseEventData, frozen=True, gc=False):
    """A patch is about to be applied."""

    type: ClassVar[str] = "patch_apply_begin"
    call_id: CallId
    changes: list[PatchChange]
    diff: str | None = None
    """What becomes of the files, where the arguments of the call do not say it: of a merge; the first 256 KB."""


class PatchApplyEnd(BaseEventData, frozen=True, gc=False):
    """A patch was applied whole, or not at all."""

    type: ClassVar[str] = "patch_apply_end"
    call_id: CallId
    success: bool
    message: str
    allowed_by: Decider | None = None
    """None: it was refused, or stopped before that was decided; or another program did it, and asked no one."""


class McpToolCallBegin(BaseEventData, frozen=True, gc=False):
    """A call goes out to an MCP server."""

    type: ClassVar[str] = "mcp_tool_call_begin"
    call_id: CallId
    server: str
    tool: str
    allowed_by: Decider | None = None


class McpToolCallProgress(BaseEventData, frozen=True, gc=False):
    """An MCP server says how far it is."""

    type: ClassVar[str] = "mcp_tool_call_progress"
    durable: ClassVar[bool] = False
    call_id: CallId
    progress: float
    total: float | None
    message: str | None
    item_id: ItemId
    offset: int


class McpToolCallEnd(BaseEventData, frozen=True, gc=False):
    """An MCP server has answered, or will not."""

    type: ClassVar[str] = "mcp_tool_call_end"
    call_id: CallId
    server: str
    tool: str
    success: bool
    duration_ms: int


class McpServerStatus(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """An MCP server's state changed."""

    type: ClassVar[str] = "mcp_server_status"
    name: str
    status: Literal["starting", "ready", "failed", "untrusted", "disabled", "stopped"]
    error: str | None = None


def server_status_text(name: str, status: str, error: str | None) -> str:
    """The sentence for a server that is not ready, and why."""
    state = "failed" if status == "failed" else f"is {status}"
    return f"MCP server {name} {state}: {error or 'no reason is known'}"


class McpToolsChanged(BaseEventData, frozen=True, gc=False):
    """A view was refreshed between tasks, or a call was refused because its tool is not what was shown."""

    type: ClassVar[str] = "mcp_tools_changed"
    added: list[str]
    removed: list[str]
    withheld: list[str]


class WebSearchBegin(BaseEventData, frozen=True, gc=False):
    """The provider searches the web."""

    type: ClassVar[str] = "web_search_begin"
    call_id: CallId


class WebSearchEnd(BaseEventData, frozen=True, gc=False):
    """The provider has searched the web."""

    type: ClassVar[str] = "web_search_end"
    call_id: CallId
    query: str


class PlanStep(MappingStruct, frozen=True, gc=False):
    """One line of a plan."""

    step: str
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """The model wrote a new plan."""

    type: ClassVar[str] = "plan_update"
    plan: list[PlanStep]
    explanation: str | None = None


class ApprovalFile(MappingStruct, frozen=True, gc=False):
    """One file of a patch that is asked about."""

    path: str
    kind: Literal["add", "update", "delete", "move"]
    added: int
    """The number of lines added."""
    removed: int


class Because(MappingStruct, frozen=True, gc=False):
    """Why a person is asked: the rule, and what set it."""

    rule: str
    set_by: str
    """`session`, `ancestor:ID`, `agent:NAME`, `chain`, or `conversation`: the approval policy of that."""


class ApprovalRequest(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A person is asked. All texts are fit to be shown: what would hide or move is written as `⟨U+202E⟩`."""

    type: ClassVar[str] = "approval_request"
    approval_id: str
    kind: Literal["exec", "patch", "escalation", "mcp", "tool"]
    conversation_id: ConversationId
    chain: list[ConversationId]
    title: str
    detail: str
    """Everything, for people. A command of one line stands first; every other line that is not ours begins with `│ `,
    below a line that says whose it is."""
    matches: list[str]
    scopes: list[Literal["once", "conversation", "session", "project"]]
    call_id: CallId | None = None
    """The call that it is asked for."""
    asked_at: str | None = None
    """RFC 3339, UTC, milliseconds; so is the next."""
    expires_at: str | None = None
    """From then on no answer is a no."""
    command: str | None = None
    """All words, quoted as for a shell."""
    script: str | None = None
    """What a shell is to read, as it was written."""
    cwd: str | None = None
    sandbox: str | None = None
    files: tuple[ApprovalFile, ...] = ()
    server: str | None = None
    tool: str | None = None
    arguments: str | None = None
    """The arguments of the call, as JSON."""
    justification: str | None = None
    """The reason that the model gave."""
    changed: tuple[str, ...] = ()
    """Files that are not what they were when this command was last allowed for longer."""
    size: int = 0
    """Characters of `detail` where it is whole."""
    digest: str | None = None
    """SHA-256 of `detail` where it is whole."""
    hidden: int = 0
    """Characters that are not in this event, because it would be too long; `approval/get` has them."""
    because: Because | None = None
    """Why it was not simply run."""


class ApprovalResolved(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """The person, the policy or the clock has answered."""

    type: ClassVar[str] = "approval_resolved"
    approval_id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "conversation", "session", "project"] | None = None
    reason: str | None = None
    chain: tuple[ConversationId, ...] = ()
    """The same as in the request."""
    by: Decider | None = None


class ElicitationRequest(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """An MCP server asks for something in the middle of a call."""

    type: ClassVar[str] = "elicitation_request"
    elicitation_id: str
    server: str
    message: str
    schema: dict[str, Any]
    """JSON Schema of the answer; empty where a page is to be visited."""
    url: str | None = None
    """The page to be visited, if any."""
    chain: tuple[ConversationId, ...] = ()
    """The conversations that wait for this one, the first caller first; there it shows too."""


class ElicitationResolved(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """An elicitation was answered or cancelled."""

    type: ClassVar[str] = "elicitation_resolved"
    elicitation_id: str
    action: Literal["accept", "decline", "cancel"]
    chain: tuple[ConversationId, ...] = ()
    """The same as in the request."""


class CanvasUpdated(BaseEventData, frozen=True, gc=False):
    """An agent's canvas has a new revision."""

    type: ClassVar[str] = "canvas_updated"
    revision: int
    title: str | None
    bytes: int
