"""The event data of tools: calls, commands, patches, MCP, approvals, plans, canvases.

The envelope and the union of all event data are in `events`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NotRequired, Required, TypedDict

from tertulia.protocol.ids import CallId, ConversationId, ItemId
from tertulia.protocol.mapping_struct import BaseEventData, MappingStruct


class Decider(MappingStruct, frozen=True, gc=False, omit_defaults=True):
    """The person, program or rule that answered an approval, or let a call run without one."""

    kind: Literal["client", "callback", "grant", "policy", "clock", "interrupt", "shutdown"]
    """`client`: a person or program there; `callback`: a function of the application; `clock`: no answer in time."""
    name: str | None = None
    """The name of the client or callback; for a policy, its value or the setting that decided."""
    grant_id: str | None = None
    """The grant that allowed the call, or the one that this answer created."""


class ToolCallBegin(BaseEventData, frozen=True, gc=False):
    """A call of the model is about to be handled."""

    type: ClassVar[str] = "tool_call_begin"
    call_id: CallId
    name: str
    arguments: Any
    """The arguments as a JSON value; as the model's text if that is not JSON."""


class ToolCallEnd(BaseEventData, frozen=True, gc=False):
    """A call of the model has ended; there is exactly one such event for each call."""

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
    """The sandbox mode of the command; `danger-full-access`: not confined. None: another program runs it."""
    allowed_by: Decider | None = None
    """None: not known yet, see `exec_command_end`; or another program runs the command and asked for no approval."""


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
    """Set for a command that an executor ran itself, if the approval was asked for after `exec_command_begin`."""


class NetworkAccess(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A command, or `fetch`, has reached a host, or was kept from it. At most two tell of a host and a command."""

    type: ClassVar[str] = "network_access"
    host: str
    """A name or an address; empty where there were too many to list."""
    port: int
    verdict: Literal["allowed", "refused", "failed"]
    because: str
    """What allowed or refused it, or why it did not answer."""
    bytes: int = 0
    """Both that were sent and that were received."""
    connections: int = 1
    call_id: CallId | None = None


class PatchChange(TypedDict):
    """One file of a patch."""

    kind: Required[str]
    """`add`, `update` or `delete`; executors may use other words."""
    path: Required[str]
    move_to: NotRequired[str]
    added: NotRequired[int]
    """The number of added lines; absent if it is not known, as for a binary file."""
    removed: NotRequired[int]


class PatchApplyBegin(BaseEventData, frozen=True, gc=False):
    """A patch is about to be applied."""

    type: ClassVar[str] = "patch_apply_begin"
    call_id: CallId
    changes: list[PatchChange]
    diff: str | None = None
    """The first 256 KB of the diff, for a merge: its call's arguments do not contain the changes."""


class PatchApplyEnd(BaseEventData, frozen=True, gc=False):
    """A patch was applied whole, or not at all."""

    type: ClassVar[str] = "patch_apply_end"
    call_id: CallId
    success: bool
    message: str
    allowed_by: Decider | None = None
    """None: the patch was refused, or stopped before a decision; or another program applied it and did not ask."""


class McpToolCallBegin(BaseEventData, frozen=True, gc=False):
    """A call is sent to an MCP server."""

    type: ClassVar[str] = "mcp_tool_call_begin"
    call_id: CallId
    server: str
    tool: str
    allowed_by: Decider | None = None


class McpToolCallProgress(BaseEventData, frozen=True, gc=False):
    """An MCP server reports the progress of a call."""

    type: ClassVar[str] = "mcp_tool_call_progress"
    durable: ClassVar[bool] = False
    call_id: CallId
    progress: float
    total: float | None
    message: str | None
    item_id: ItemId
    offset: int


class McpToolCallEnd(BaseEventData, frozen=True, gc=False):
    """A call to an MCP server has ended, with an answer or without."""

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
    """A sentence about a server that is not ready, with the reason."""
    state = "failed" if status == "failed" else f"is {status}"
    return f"MCP server {name} {state}: {error or 'no reason is known'}"


class McpToolsChanged(BaseEventData, frozen=True, gc=False):
    """A view was refreshed between tasks, or a call was refused because its tool is not what the model was shown."""

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


HookMoment = Literal["before_tool", "after_tool", "task_start", "task_end", "approval"]
"""When a hook is called."""


class HookDecision(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A hook of the user has decided about a tool call, a task or an approval."""

    type: ClassVar[str] = "hook_decision"
    hook: str
    """Its name in the settings."""
    moment: HookMoment
    decision: Literal["continue", "refuse"]
    duration_ms: int
    failed: bool = False
    """Whether it gave no answer that can be used; `reason` says why. Before a call and at an approval that refuses."""
    reason: str | None = None
    context: str | None = None
    """The text that it has added."""
    narrowed: tuple[str, ...] = ()
    """The rights that the call has fewer of."""
    call_id: CallId | None = None


class ApprovalFile(MappingStruct, frozen=True, gc=False):
    """One file of a patch that needs an approval."""

    path: str
    kind: Literal["add", "update", "delete", "move"]
    added: int
    """The number of lines added."""
    removed: int


class Because(MappingStruct, frozen=True, gc=False):
    """Why an approval is needed: the rule, and where it was set."""

    rule: str
    set_by: str
    """Whose approval policy the rule comes from: `session`, `ancestor:ID`, `agent:NAME`, `chain` or `conversation`."""


class ApprovalRequest(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """A person is asked for an approval. All texts are safe to show: hidden characters are written as `⟨U+202E⟩`."""

    type: ClassVar[str] = "approval_request"
    approval_id: str
    kind: Literal["exec", "patch", "escalation", "mcp", "tool", "network"]
    conversation_id: ConversationId
    chain: list[ConversationId]
    title: str
    detail: str
    """The whole question, for people. A command of one line comes first; every other line that is not ours begins with
    `│ `, below a line that names its source."""
    matches: list[str]
    scopes: list[Literal["once", "conversation", "session", "project"]]
    call_id: CallId | None = None
    """The call that needs the approval."""
    asked_at: str | None = None
    """The time of the question: RFC 3339, UTC, milliseconds."""
    expires_at: str | None = None
    """The time, in the same form, at which the approval is denied if there is no answer."""
    command: str | None = None
    """All words of the command, quoted as for a shell."""
    script: str | None = None
    """The script that a shell would run, as the model wrote it."""
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
    """Files that have changed since a grant was last given for this command."""
    size: int = 0
    """The number of characters of the complete `detail`."""
    digest: str | None = None
    """SHA-256 of the complete `detail`."""
    hidden: int = 0
    """How many characters were left out of this event because of its size; `approval/get` returns them."""
    because: Because | None = None
    """Why the call needs an approval."""


class ApprovalResolved(BaseEventData, frozen=True, gc=False, omit_defaults=True):
    """An approval was answered, by a person, a policy or the timeout."""

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
    """The JSON Schema of the answer; empty if the person is to visit a page instead."""
    url: str | None = None
    """The page to visit, if any."""
    chain: tuple[ConversationId, ...] = ()
    """The conversations that wait for this one, the first caller first; the request shows in them too."""


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
