"""The types of the protocol, and a method for each operation. Made by clients/generate.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, Unpack


class AgentMessage(TypedDict):
    """A whole message of the model."""

    text: str
    item_id: str
    phase: NotRequired[Literal["commentary", "final_answer"] | None]


class AgentMessageDelta(TypedDict):
    """A piece of the model's answer, as it is streamed."""

    text: str
    item_id: str
    offset: int


class AgentMessageDeltaEnvelope(TypedDict):
    """The event `agent_message_delta`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["agent_message_delta"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: AgentMessageDelta


class AgentMessageEnvelope(TypedDict):
    """The event `agent_message`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["agent_message"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: AgentMessage


class AgentReasoning(TypedDict):
    """A whole reasoning item of the model."""

    text: str
    item_id: str


class AgentReasoningDelta(TypedDict):
    """A piece of the model's reasoning, as it is streamed."""

    text: str
    item_id: str
    offset: int


class AgentReasoningDeltaEnvelope(TypedDict):
    """The event `agent_reasoning_delta`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["agent_reasoning_delta"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: AgentReasoningDelta


class AgentReasoningEnvelope(TypedDict):
    """The event `agent_reasoning`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["agent_reasoning"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: AgentReasoning


class AgentSpec(TypedDict):
    """The agent that a conversation is to be: its name and kind."""

    name: str
    archetype: NotRequired[str]
    backend_type: NotRequired[str]
    workspace_policy: NotRequired[Literal["ephemeral", "persistent"]]
    launch_mode: NotRequired[Literal["direct", "managed"]]


class ApprovalCell(TypedDict):
    """A person is asked whether something may run."""

    kind: Literal["approval_question"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    request: ApprovalRequest
    answer: NotRequired[ApprovalResolved | None]


class ApprovalFile(TypedDict):
    """One file of a patch that needs an approval."""

    path: str
    kind: Literal["add", "delete", "move", "update"]
    added: int
    removed: int


class ApprovalList(TypedDict):
    """`approval/list`: what waits for an answer, oldest first."""

    approvals: list[ApprovalRequest]
    elicitations: list[ElicitationRequest]


class ApprovalPart(TypedDict):
    """One of the texts of a request."""

    name: Literal["arguments", "command", "detail", "files", "justification", "matches", "script"]
    size: int
    digest: str


class ApprovalRequest(TypedDict):
    """A person is asked for an approval. All texts are safe to show: hidden characters are written as `⟨U+202E⟩`."""

    approval_id: str
    kind: Literal["escalation", "exec", "mcp", "network", "patch", "tool"]
    conversation_id: str
    chain: list[str]
    title: str
    detail: str
    matches: list[str]
    scopes: list[Literal["conversation", "once", "project", "session"]]
    call_id: NotRequired[str | None]
    asked_at: NotRequired[str | None]
    expires_at: NotRequired[str | None]
    command: NotRequired[str | None]
    script: NotRequired[str | None]
    cwd: NotRequired[str | None]
    sandbox: NotRequired[str | None]
    files: NotRequired[list[ApprovalFile]]
    server: NotRequired[str | None]
    tool: NotRequired[str | None]
    arguments: NotRequired[str | None]
    justification: NotRequired[str | None]
    changed: NotRequired[list[str]]
    size: NotRequired[int]
    digest: NotRequired[str | None]
    hidden: NotRequired[int]
    because: NotRequired[Because | None]


class ApprovalRequestEnvelope(TypedDict):
    """The event `approval_request`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["approval_request"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ApprovalRequest


class ApprovalResolved(TypedDict):
    """An approval was answered, by a person, a policy or the timeout."""

    approval_id: str
    decision: Literal["allow", "deny"]
    scope: NotRequired[Literal["conversation", "once", "project", "session"] | None]
    reason: NotRequired[str | None]
    chain: NotRequired[list[str]]
    by: NotRequired[Decider | None]


class ApprovalResolvedEnvelope(TypedDict):
    """The event `approval_resolved`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["approval_resolved"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ApprovalResolved


class ApprovalText(TypedDict):
    """`approval/get`: the request, what texts it has, and a page of one of them."""

    approval: ApprovalRequest
    parts: list[ApprovalPart]
    part: Literal["arguments", "command", "detail", "files", "justification", "matches", "script"]
    offset: int
    text: str
    next_offset: int | None


class AssistantCell(TypedDict):
    """An answer of the model."""

    kind: Literal["assistant_text"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    pieces: NotRequired[list[str]]
    missing: NotRequired[int]
    length: NotRequired[int]
    item_id: str
    done: NotRequired[bool]


class Attachment(TypedDict):
    """The description of a picture in a message; its content is in the history only."""

    type: NotRequired[Literal["image"]]
    media_type: NotRequired[str | None]
    bytes: NotRequired[int | None]
    url: NotRequired[str | None]


class BackgroundEvent(TypedDict):
    """Something a person may want to know: a right that was narrowed, a retry."""

    message: str
    narrowed: NotRequired[list[dict[str, Any]] | None]
    discard_deltas: NotRequired[bool]


class BackgroundEventEnvelope(TypedDict):
    """The event `background_event`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["background_event"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: BackgroundEvent


class Because(TypedDict):
    """Why an approval is needed: the rule, and where it was set."""

    rule: str
    set_by: str


class BoardAnswer(TypedDict):
    """`session/board`: what a screen shows of the session, up to an event."""

    session_id: str
    epoch: int
    seq: int
    board: BoardState


class BoardState(TypedDict):
    """All that a screen shows of a session."""

    session_id: NotRequired[str | None]
    epoch: NotRequired[int]
    seq: NotRequired[int]
    model: NotRequired[str]
    root_id: NotRequired[str | None]
    conversations: NotRequired[dict[str, ConversationView]]
    questions: NotRequired[dict[str, ApprovalCell | ElicitationCell]]
    servers: NotRequired[dict[str, ServerView]]
    input_tokens: NotRequired[int]
    cached_input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    cost_usd: NotRequired[float | None]
    task_owners: NotRequired[dict[str, str]]


class BudgetCounts(TypedDict):
    """The budget of a session, and what of it is used, also before a resume. Null: there is no such limit."""

    tokens: int | None
    usd: float | None
    used_tokens: int
    used_usd: float


class CallCounts(TypedDict):
    """Calls that have ended, and how long they took."""

    calls: int
    failures: int
    duration_ms: int
    mean_ms: int
    max_ms: int


class CancelAnswer(TypedDict):
    """`task/cancel`: whether the task was cancelled."""

    cancelled: bool


class CancelTask(TypedDict):
    """The parameters of the operation `task/cancel`."""

    task_id: str
    scope: NotRequired[Literal["branch", "chain"]]
    session_id: NotRequired[str | None]


class CanvasAnswer(TypedDict):
    """The answer to `canvas/get`: one canvas."""

    html: str
    title: str | None
    updated_at: str
    revision: int


class CanvasClearAnswer(TypedDict):
    """`canvas/clear`: whether there was anything to take away."""

    cleared: bool


class CanvasInfo(TypedDict):
    """One line of `canvas/list`: without the page."""

    conversation_id: str
    title: str | None
    updated_at: str
    revision: int
    bytes: int


class CanvasList(TypedDict):
    """`canvas/list`: those that show something."""

    canvases: list[CanvasInfo]


class CanvasUpdated(TypedDict):
    """An agent's canvas has a new revision."""

    revision: int
    title: str | None
    bytes: int


class CanvasUpdatedEnvelope(TypedDict):
    """The event `canvas_updated`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["canvas_updated"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: CanvasUpdated


class CheckpointDiff(TypedDict):
    """`checkpoint/diff`: from the state of a checkpoint to a later one."""

    id: str
    files: list[MergedFile]
    diff: str
    truncated: bool
    left_out: list[LeftOutFile]
    not_captured: str


class CheckpointEvent(TypedDict):
    """The files of the workspace were recorded: before the first call of a task that may write, at its end, or after a restore."""

    checkpoint_id: str
    moment: Literal["after", "before"]
    cause: Literal["restore", "task"]
    files: int
    diffstat: str
    not_captured: list[str]


class CheckpointEventEnvelope(TypedDict):
    """The event `checkpoint`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["checkpoint"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: CheckpointEvent


class CheckpointInfo(TypedDict):
    """One checkpoint: the state before a task that wrote, or before a restore."""

    id: str
    after_id: str | None
    cause: Literal["restore", "task"]
    conversation_id: str
    task_id: str | None
    session_id: str
    at: str
    workspace: str
    files: int
    added: int
    removed: int
    undone: bool
    cut: bool


class CheckpointList(TypedDict):
    """`checkpoint/list`: the checkpoints, the newest first."""

    checkpoints: list[CheckpointInfo]
    not_captured: str


class CheckpointStatus(TypedDict):
    """Whether the files of a session's workspace are recorded, so that tasks can be undone."""

    available: bool
    reason: NotRequired[str | None]
    in_memory: NotRequired[bool]


class ClientInfo(TypedDict):
    """The name and version of a client."""

    name: str
    version: NotRequired[str]


class CloseAnswer(TypedDict):
    """`conversation/close` and `session/close`: how it was closed."""

    closed: bool
    already_closed: bool
    forced: bool
    kept_worktree: NotRequired[str | None]


class CloseConversation(TypedDict):
    """The parameters of the operation `conversation/close`."""

    conversation_id: str
    timeout_s: NotRequired[float | None]
    session_id: NotRequired[str | None]


class CloseSession(TypedDict):
    """The parameters of the operation `session/close`."""

    timeout_s: NotRequired[float | None]
    session_id: NotRequired[str | None]


class CommandCell(TypedDict):
    """A command and its output, which grows while it runs."""

    kind: Literal["command"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    pieces: NotRequired[list[str]]
    missing: NotRequired[int]
    length: NotRequired[int]
    call_id: str
    name: str
    arguments: NotRequired[Any]
    done: NotRequired[bool]
    success: NotRequired[bool | None]
    truncated: NotRequired[bool]
    duration_ms: NotRequired[int | None]
    allowed_by: NotRequired[Decider | None]
    lost: NotRequired[bool]
    command: list[str]
    cwd: str
    sandbox: NotRequired[str | None]
    exit_code: NotRequired[int | None]
    cut: NotRequired[int]


class CompactAnswer(TypedDict):
    """`conversation/compact`: the size of the history before and after, or why it was left as it is."""

    compacted: bool
    before_tokens: int
    after_tokens: int
    reason: NotRequired[str | None]


class ContextInfo(TypedDict):
    """`conversation/context`: everything that decides what the model sees and may do."""

    base_instructions: str | None
    user_instructions: str | None
    additions: list[dict[str, Any]]
    policy: dict[str, Any]
    narrowed: list[Narrowing]
    tools_prefs: dict[str, Any]
    mcp_tool_allowlist: list[str] | None
    model: str
    storage_policy: Any
    limits: dict[str, Any]
    prompt_tokens: int
    cache_key: str
    fallback_models: NotRequired[list[str]]


class ConversationCloseForced(TypedDict):
    """A task did not stop within the timeout of a close and was abandoned."""

    timeout_s: float


class ConversationCloseForcedEnvelope(TypedDict):
    """The event `conversation_close_forced`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["conversation_close_forced"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ConversationCloseForced


class ConversationClosed(TypedDict):
    """A conversation was closed; requests with its id fail with `closed` from now on."""

    forced: NotRequired[bool]


class ConversationClosedEnvelope(TypedDict):
    """The event `conversation_closed`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["conversation_closed"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ConversationClosed


class ConversationContextChanged(TypedDict):
    """`set_context` was accepted; it takes effect with the next model request."""

    fields: list[str]


class ConversationContextChangedEnvelope(TypedDict):
    """The event `conversation_context_changed`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["conversation_context_changed"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ConversationContextChanged


class ConversationCounts(TypedDict):
    """The numbers of one conversation."""

    tasks: TaskCounts
    model_requests: int
    usage: Usage
    cost_usd: float | None
    tool_calls: int
    tools: dict[str, CallCounts]
    mcp: CallCounts
    mcp_waits: int
    mcp_waited_ms: int
    compactions: int
    network: dict[str, int]
    network_bytes: int
    conversation_id: str
    closed: bool


class ConversationInfo(TypedDict):
    """One conversation in the answer to `conversation/list`."""

    id: str
    parent_id: str | None
    title: str | None
    status: Literal["closed", "idle", "running", "waiting"]
    depth: int
    message_count: int
    last_active_at: str
    model: str
    backend: str


class ConversationList(TypedDict):
    """`conversation/list`, root first, then by creation."""

    conversations: list[ConversationInfo]


class ConversationOpened(TypedDict):
    """A conversation was opened; its events follow."""

    parent_id: str | None
    title: str | None
    model: str
    backend: str


class ConversationOpenedEnvelope(TypedDict):
    """The event `conversation_opened`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["conversation_opened"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ConversationOpened


class ConversationParams(TypedDict):
    """The parameters of operations on one conversation."""

    conversation_id: str
    session_id: NotRequired[str | None]


class ConversationView(TypedDict):
    """What a screen shows of one conversation."""

    id: str
    parent_id: NotRequired[str | None]
    title: NotRequired[str | None]
    model: NotRequired[str]
    backend: NotRequired[str]
    depth: NotRequired[int]
    task_id: NotRequired[str | None]
    task_kind: NotRequired[Literal["continuation", "target", "user"] | None]
    since: NotRequired[str | None]
    waits: NotRequired[bool]
    caller_id: NotRequired[str | None]
    open_questions: NotRequired[int]
    failed: NotRequired[bool]
    closed: NotRequired[bool]
    unread: NotRequired[int]
    context_tokens: NotRequired[int]
    context_window: NotRequired[int]
    input_tokens: NotRequired[int]
    cached_input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    cost_usd: NotRequired[float | None]
    queued: NotRequired[list[QueuedMessage]]
    taken_back: NotRequired[str | None]
    last_key: NotRequired[str | None]
    cells: NotRequired[list[UserCell | AssistantCell | ReasoningCell | ToolCallCell | CommandCell | PatchCell | HandoffCell | PlanCell | ApprovalCell | ElicitationCell | NoticeCell | TaskEndCell | GapCell]]
    dropped: NotRequired[int]
    growing: NotRequired[dict[str, AssistantCell | ReasoningCell]]
    open_calls: NotRequired[dict[str, ToolCallCell | CommandCell | PatchCell | HandoffCell]]
    plan: NotRequired[PlanCell | None]


class Counts(TypedDict):
    """The numbers of a session, or of a conversation."""

    tasks: TaskCounts
    model_requests: int
    usage: Usage
    cost_usd: float | None
    tool_calls: int
    tools: dict[str, CallCounts]
    mcp: CallCounts
    mcp_waits: int
    mcp_waited_ms: int
    compactions: int
    network: dict[str, int]
    network_bytes: int


class Decider(TypedDict):
    """The person, program or rule that answered an approval, or let a call run without one."""

    kind: Literal["callback", "client", "clock", "grant", "interrupt", "policy", "shutdown"]
    name: NotRequired[str | None]
    grant_id: NotRequired[str | None]


class DeleteRecord(TypedDict):
    """`record/delete`: delete a stored session for good, with what was recorded of files for it."""

    session_id: str


class DetachAnswer(TypedDict):
    """`conversation/message` with `detach`: the id of the task."""

    task_id: str


class DiffCheckpoint(TypedDict):
    """`checkpoint/diff`: what the task of a checkpoint has changed, or what is different now."""

    id: NotRequired[str | None]
    conversation_id: NotRequired[str | None]
    to_now: NotRequired[bool]
    session_id: NotRequired[str | None]


class ElicitationCell(TypedDict):
    """An MCP server asks a person for something."""

    kind: Literal["elicitation"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    request: ElicitationRequest
    action: NotRequired[Literal["accept", "cancel", "decline"] | None]


class ElicitationRequest(TypedDict):
    """An MCP server asks for something in the middle of a call."""

    elicitation_id: str
    server: str
    message: str
    schema: dict[str, Any]
    url: NotRequired[str | None]
    chain: NotRequired[list[str]]


class ElicitationRequestEnvelope(TypedDict):
    """The event `elicitation_request`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["elicitation_request"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ElicitationRequest


class ElicitationResolved(TypedDict):
    """An elicitation was answered or cancelled."""

    elicitation_id: str
    action: Literal["accept", "cancel", "decline"]
    chain: NotRequired[list[str]]


class ElicitationResolvedEnvelope(TypedDict):
    """The event `elicitation_resolved`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["elicitation_resolved"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ElicitationResolved


class ErrorEvent(TypedDict):
    """Something failed. The end of a task is reported by its terminal event, not by this one."""

    code: str
    message: str


class ErrorEventEnvelope(TypedDict):
    """The event `error`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["error"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ErrorEvent


class ExecCommandBegin(TypedDict):
    """A command of a tool call starts."""

    call_id: str
    command: list[str]
    cwd: str
    sandbox: NotRequired[str | None]
    allowed_by: NotRequired[Decider | None]


class ExecCommandBeginEnvelope(TypedDict):
    """The event `exec_command_begin`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["exec_command_begin"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ExecCommandBegin


class ExecCommandEnd(TypedDict):
    """A command of a tool call has ended."""

    call_id: str
    exit_code: int | None
    output: str
    truncated: bool
    duration_ms: int
    allowed_by: NotRequired[Decider | None]


class ExecCommandEndEnvelope(TypedDict):
    """The event `exec_command_end`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["exec_command_end"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ExecCommandEnd


class ExecCommandOutputDelta(TypedDict):
    """A piece of a command's output."""

    call_id: str
    stream: Literal["stderr", "stdout"]
    text: str
    item_id: str
    offset: int


class ExecCommandOutputDeltaEnvelope(TypedDict):
    """The event `exec_command_output_delta`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["exec_command_output_delta"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ExecCommandOutputDelta


class ExplainRights(TypedDict):
    """`rights/explain`: the rights of a conversation and why; whether a command, a call or a host would be allowed."""

    conversation_id: str
    command: NotRequired[str | list[str] | None]
    tool: NotRequired[str | None]
    host: NotRequired[str | None]
    session_id: NotRequired[str | None]


class ExplainedAction(TypedDict):
    """What would happen to a command, a call or a connection here and now."""

    verdict: Literal["ask", "deny", "run"]
    because: str
    set_by: str
    sandbox: NotRequired[str | None]


class ExplainedRight(TypedDict):
    """One right of a conversation, and what set it."""

    field: str
    value: Any
    set_by: str
    source: NotRequired[str | None]
    asked: NotRequired[Any]
    now: NotRequired[Any]


class Failure(TypedDict):
    """Why a task failed: a stable code, and a sentence."""

    code: str
    message: str
    errors: NotRequired[list[str]]


class ForeignEvent(TypedDict):
    """An event of an executor that has no counterpart here, unchanged."""

    backend: str
    raw: Any


class ForeignEventEnvelope(TypedDict):
    """The event `foreign_event`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["foreign_event"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ForeignEvent


class ForkAnswer(TypedDict):
    """`conversation/fork`: the id of the new conversation."""

    conversation_id: str


class ForkConversation(TypedDict):
    """`conversation/fork`: copy a conversation up to an item, up to the end of a round, or whole."""

    conversation_id: str
    at: NotRequired[str | int | None]
    session_id: NotRequired[str | None]


class ForkRecordParams(TypedDict):
    """`record/fork`: a new stored session that begins as another one was."""

    session_id: str
    n: NotRequired[int | None]
    conversation_id: NotRequired[str | None]


class GapCell(TypedDict):
    """Durable events that this reader was too slow for, and that cannot be had any more."""

    kind: Literal["gap"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    from_seq: int
    to_seq: int


class GetApproval(TypedDict):
    """`approval/get`: a pending approval request, with one of its texts in full."""

    approval_id: str
    part: NotRequired[Literal["arguments", "command", "detail", "files", "justification", "matches", "script"] | None]
    offset: NotRequired[int]
    session_id: NotRequired[str | None]


class GetBoard(TypedDict):
    """`session/board`: the last cells of each conversation."""

    max_cells: NotRequired[int | None]
    session_id: NotRequired[str | None]


class GetHistory(TypedDict):
    """The parameters of the operation `conversation/history`."""

    conversation_id: str
    limit: NotRequired[int | None]
    session_id: NotRequired[str | None]


class GetMetrics(TypedDict):
    """`metrics/get`: the metrics of the session and all its conversations, or of one conversation."""

    conversation_id: NotRequired[str | None]
    session_id: NotRequired[str | None]


class GetRecordBoard(TypedDict):
    """`record/board`: what a screen showed when a record had been written."""

    session_id: str
    at_n: int
    max_cells: NotRequired[int]


class GetRecordPage(TypedDict):
    """`record/page`: the last events of a stored session, or those before or after a record."""

    session_id: str
    before_n: NotRequired[int | None]
    after_n: NotRequired[int | None]
    before_seq: NotRequired[int | None]
    conversation_id: NotRequired[str | None]
    limit: NotRequired[int]


class GetRecordedPrompt(TypedDict):
    """`record/prompt`: what a model was sent with one request."""

    session_id: str
    n: int
    offset: NotRequired[int]


class Grant(TypedDict):
    """One grant, as it is listed."""

    grant_id: str
    kind: Literal["escalation", "exec", "mcp", "network", "patch", "tool"]
    scope: Literal["conversation", "once", "project", "session"]
    conversation_id: str | None
    matches: list[str]
    expires_in_s: float | None
    uses: NotRequired[int]


class GrantList(TypedDict):
    """`approval/grants`: the grants that hold, oldest first."""

    grants: list[Grant]


class HandoffCell(TypedDict):
    """A call that asks another conversation and waits for its answer."""

    kind: Literal["handoff"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    pieces: NotRequired[list[str]]
    missing: NotRequired[int]
    length: NotRequired[int]
    call_id: str
    name: str
    arguments: NotRequired[Any]
    done: NotRequired[bool]
    success: NotRequired[bool | None]
    truncated: NotRequired[bool]
    duration_ms: NotRequired[int | None]
    allowed_by: NotRequired[Decider | None]
    lost: NotRequired[bool]
    target_id: NotRequired[str | None]
    title: NotRequired[str | None]


class HistoryAnswer(TypedDict):
    """`conversation/history`: messages, the oldest first."""

    entries: list[HistoryEntry]


class HistoryCompacted(TypedDict):
    """Older items were replaced by a summary, or outputs shortened; if not, `compacted` is false with a `reason`."""

    compacted: bool
    before_tokens: int
    after_tokens: int
    removed_items: int
    trigger: Literal["limit", "overflow", "request", "window"]
    reason: NotRequired[str | None]
    shortened_outputs: NotRequired[int]


class HistoryCompactedEnvelope(TypedDict):
    """The event `history_compacted`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["history_compacted"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: HistoryCompacted


class HistoryEntry(TypedDict):
    """One message in the answer to `conversation/history`."""

    role: Literal["assistant", "user"]
    attachments: list[dict[str, str]]
    text: NotRequired[str | None]


class HookDecision(TypedDict):
    """A hook of the user has decided about a tool call, a task or an approval."""

    hook: str
    moment: Literal["after_tool", "approval", "before_tool", "task_end", "task_start"]
    decision: Literal["continue", "refuse"]
    duration_ms: int
    failed: NotRequired[bool]
    reason: NotRequired[str | None]
    context: NotRequired[str | None]
    narrowed: NotRequired[list[str]]
    call_id: NotRequired[str | None]


class HookDecisionEnvelope(TypedDict):
    """The event `hook_decision`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["hook_decision"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: HookDecision


class HostAnswer(TypedDict):
    """`host/subscribe`: the sessions that run now; what changes comes as notifications `host_event`."""

    sessions: list[SessionCard]


class HostEvent(TypedDict):
    """The notification `host_event`: a session began, is another than before, or has ended."""

    type: Literal["session_changed", "session_closed", "session_opened"]
    session: SessionCard


class ImageInput(TypedDict):
    """A picture in a message, by its address."""

    type: Literal["image"]
    image_url: str


class Initialize(TypedDict):
    """The parameters of the operation `initialize`."""

    client: NotRequired[ClientInfo | None]
    protocol_version: NotRequired[str | None]
    session_id: NotRequired[str | None]
    attend: NotRequired[bool | None]
    observe: NotRequired[bool | None]


class InitializeAnswer(TypedDict):
    """`initialize`: the connection's own session, who serves it, and what that can do."""

    session_id: str
    root_conversation_id: str
    protocol_version: str
    version: str
    policy: dict[str, Any]
    model: str
    mcp: list[dict[str, Any]]
    narrowed: NotRequired[list[Narrowing]]
    not_held: NotRequired[list[str]]
    sandbox_tier: NotRequired[Literal["bubblewrap", "landlock", "none", "seatbelt"] | None]
    checkpoints: NotRequired[CheckpointStatus | None]
    server: ServerInfo
    capabilities: dict[str, bool]


class InternalCall(TypedDict):
    """`internal/call`: call a tool of a context provider, as the agent that the token identifies."""

    token: str
    tool: str
    arguments: NotRequired[dict[str, Any]]
    session_id: NotRequired[str | None]


class InternalCallAnswer(TypedDict):
    """`internal/call`: whatever the tool answered, as plain data."""

    result: Any


class InterruptAnswer(TypedDict):
    """`conversation/interrupt`. True in Python when something was stopped."""

    interrupted: bool


class InterruptConversation(TypedDict):
    """The parameters of the operation `conversation/interrupt`."""

    conversation_id: str
    scope: NotRequired[Literal["branch", "chain"]]
    session_id: NotRequired[str | None]


class LeftOutFile(TypedDict):
    """A file that differs and was not merged."""

    path: str
    reason: str


class ListApprovals(TypedDict):
    """`approval/list` and `approval/grants`: those of all conversations, or those that show in one of them."""

    conversation_id: NotRequired[str | None]
    session_id: NotRequired[str | None]


class ListCheckpoints(TypedDict):
    """`checkpoint/list`: the checkpoints of the session's workspaces, the newest first."""

    conversation_id: NotRequired[str | None]
    limit: NotRequired[int]
    session_id: NotRequired[str | None]


class ListRecords(TypedDict):
    """`record/list`: stored sessions, the newest first."""

    query: NotRequired[str | None]
    limit: NotRequired[int]
    before: NotRequired[str | None]
    session_id: NotRequired[str | None]


class LocalImageInput(TypedDict):
    """A picture by path; it is read when the message is accepted."""

    type: Literal["local_image"]
    path: str


class McpServerInfo(TypedDict):
    """One MCP server of a session. What is not known is left out."""

    name: str
    status: Literal["disabled", "failed", "ready", "starting", "stopped", "untrusted"]
    error: NotRequired[str | None]
    tools: int
    latency_ms: NotRequired[int | None]
    protocol_version: NotRequired[str | None]
    restarts: int
    in_flight: int
    waiting: int
    p50_ms: NotRequired[float | None]
    p95_ms: NotRequired[float | None]
    users: list[str]
    user_count: int
    withheld: list[WithheldTool]
    last_error_at: NotRequired[str | None]


class McpServerStatus(TypedDict):
    """An MCP server's state changed."""

    name: str
    status: Literal["disabled", "failed", "ready", "starting", "stopped", "untrusted"]
    error: NotRequired[str | None]


class McpServerStatusEnvelope(TypedDict):
    """The event `mcp_server_status`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["mcp_server_status"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: McpServerStatus


class McpToolCallBegin(TypedDict):
    """A call is sent to an MCP server."""

    call_id: str
    server: str
    tool: str
    allowed_by: NotRequired[Decider | None]


class McpToolCallBeginEnvelope(TypedDict):
    """The event `mcp_tool_call_begin`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["mcp_tool_call_begin"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: McpToolCallBegin


class McpToolCallEnd(TypedDict):
    """A call to an MCP server has ended, with an answer or without."""

    call_id: str
    server: str
    tool: str
    success: bool
    duration_ms: int


class McpToolCallEndEnvelope(TypedDict):
    """The event `mcp_tool_call_end`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["mcp_tool_call_end"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: McpToolCallEnd


class McpToolCallProgress(TypedDict):
    """An MCP server reports the progress of a call."""

    call_id: str
    progress: float
    total: float | None
    message: str | None
    item_id: str
    offset: int


class McpToolCallProgressEnvelope(TypedDict):
    """The event `mcp_tool_call_progress`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["mcp_tool_call_progress"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: McpToolCallProgress


class McpToolsChanged(TypedDict):
    """A view was refreshed between tasks, or a call was refused because its tool is not what the model was shown."""

    added: list[str]
    removed: list[str]
    withheld: list[str]


class McpToolsChangedEnvelope(TypedDict):
    """The event `mcp_tools_changed`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["mcp_tools_changed"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: McpToolsChanged


class MergeAnswer(TypedDict):
    """`conversation/merge`. True in Python when something was merged."""

    merged: bool
    mode: Literal["apply", "commit"]
    branch: str
    merged_commit: str
    files: list[MergedFile]
    left_out: list[LeftOutFile]
    commit: NotRequired[str | None]
    onto: NotRequired[str | None]


class MergeConversation(TypedDict):
    """The parameters of the operation `conversation/merge`."""

    conversation_id: str
    mode: NotRequired[Literal["apply", "commit"]]
    session_id: NotRequired[str | None]


class MergedFile(TypedDict):
    """A file that a merge changed."""

    path: str
    status: Literal["added", "deleted", "modified", "renamed"]
    added: int | None
    removed: int | None
    renamed_from: NotRequired[str | None]


class Message(TypedDict):
    """The parameters of the operation `conversation/message`."""

    conversation_id: str
    text: NotRequired[str | None]
    items: NotRequired[list[TextInput | ImageInput | LocalImageInput] | None]
    message_id: NotRequired[str | None]
    sender: NotRequired[str | None]
    task_type: NotRequired[Literal["chat", "code"] | None]
    previous_result: NotRequired[Any]
    if_busy: NotRequired[Literal["fail", "wait"] | None]
    detach: NotRequired[bool | None]
    output_schema: NotRequired[dict[str, Any] | None]
    base_instructions_override: NotRequired[str | None]
    session_id: NotRequired[str | None]


class MessageAnswer(TypedDict):
    """`conversation/message`: how the task ended, and its last message."""

    task_id: str
    status: Literal["completed", "failed", "interrupted"]
    last_assistant_message: str | None
    usage: Usage
    tool_calls: int
    duration_ms: int
    trace_id: str
    error: NotRequired[Failure | None]
    worktree: NotRequired[WorktreeReport | None]


class MessageQueued(TypedDict):
    """A message has to wait until its conversation, or a slot, is free. `user_message` follows when its task begins."""

    item_id: str
    preview: str
    attachments: NotRequired[int]
    sender: NotRequired[str | None]


class MessageQueuedEnvelope(TypedDict):
    """The event `message_queued`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["message_queued"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: MessageQueued


class MessageTakenBack(TypedDict):
    """A queued message was taken back. Its task never began; the event of the task's end follows."""

    item_id: str


class MessageTakenBackEnvelope(TypedDict):
    """The event `message_taken_back`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["message_taken_back"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: MessageTakenBack


class MetricsAnswer(TypedDict):
    """`metrics/get`: the numbers of a session and of its conversations."""

    session: Counts
    conversations: list[ConversationCounts]
    budget: NotRequired[BudgetCounts | None]


class Narrowing(TypedDict):
    """One thing that was asked for and not given in full, in wire spelling."""

    field: str
    asked: Any
    given: Any
    because: str


class NetworkAccess(TypedDict):
    """A command, or `fetch`, has reached a host, or was kept from it. At most two tell of a host and a command."""

    host: str
    port: int
    verdict: Literal["allowed", "failed", "refused"]
    because: str
    bytes: NotRequired[int]
    connections: NotRequired[int]
    call_id: NotRequired[str | None]


class NetworkAccessEnvelope(TypedDict):
    """The event `network_access`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["network_access"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: NetworkAccess


class NewConversation(TypedDict):
    """The parameters of the operation `conversation/open`."""

    project_instructions: NotRequired[bool | None]
    allow_git: NotRequired[bool | None]
    include_plan_tool: NotRequired[bool | None]
    include_apply_patch_tool: NotRequired[bool | None]
    include_conv_tools: NotRequired[bool | None]
    tools_web_search_request: NotRequired[bool | None]
    include_fetch_tool: NotRequired[bool | None]
    reasoning_effort: NotRequired[str | None]
    sandbox: NotRequired[str | None]
    visibility: NotRequired[str | None]
    on_restart: NotRequired[str | None]
    shell_mode: NotRequired[str | None]
    tool_profile: NotRequired[str | None]
    temperature: NotRequired[float | None]
    max_output_tokens: NotRequired[int | None]
    base_instructions: NotRequired[str | None]
    user_instructions: NotRequired[str | None]
    mcp_tool_allowlist: NotRequired[list[str] | None]
    model: NotRequired[str | None]
    fallback_models: NotRequired[list[str] | None]
    backend: NotRequired[str | None]
    agent: NotRequired[str | AgentSpec | None]
    cwd: NotRequired[str | None]
    workspace: NotRequired[Literal["shared", "worktree"] | None]
    approval_policy: NotRequired[str | dict[str, Any] | None]
    network: NotRequired[bool | dict[str, Any] | None]
    storage_policy: NotRequired[str | dict[str, Any] | None]
    limits: NotRequired[dict[str, float | None] | None]
    title: NotRequired[str | None]
    parent_id: NotRequired[str | None]
    session_id: NotRequired[str | None]


class NoParams(TypedDict):
    """The parameters of operations that need none besides their session."""

    session_id: NotRequired[str | None]


class NoticeCell(TypedDict):
    """A sentence of ours about the conversation."""

    kind: Literal["notice"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    level: Literal["error", "note", "warning"]
    text: str
    code: NotRequired[str | None]


class ObserveAnswer(TypedDict):
    """`initialize` with `observe`: who serves the connection, which has no session of its own."""

    session_id: NotRequired[None]
    protocol_version: str
    version: str
    server: ServerInfo
    capabilities: dict[str, bool]


class OpenAnswer(TypedDict):
    """`conversation/open` and `conversation/set_context`: the context that holds now, and what was narrowed."""

    conversation_id: str
    context: ContextInfo
    narrowed: list[Narrowing]
    warnings: list[str]
    worktree: NotRequired[WorktreeReport | None]


class OutlineCounts(TypedDict):
    """How much of what kind a record holds."""

    items: int
    requests: int
    calls: int
    failed_calls: int
    not_stored: int


class OutlinedArrow(TypedDict):
    """One conversation asks another, or gets the answer back."""

    caller_id: str
    target_id: str
    at: float
    back: NotRequired[bool]


class OutlinedConversation(TypedDict):
    """A lane of the time line."""

    id: str
    parent_id: str | None
    opened_at: float
    title: NotRequired[str | None]
    closed_at: NotRequired[float | None]
    model: NotRequired[str | None]


class OutlinedMark(TypedDict):
    """A moment in a lane: a call, a question to a person, or the answer."""

    conversation_id: str
    kind: Literal["call", "no", "question", "yes"]
    at: float
    n: int
    name: NotRequired[str]


class OutlinedPause(TypedDict):
    """A time in which no task ran."""

    start: float
    end: float


class OutlinedRequest(TypedDict):
    """A request to a model; `record/prompt` shows what it saw."""

    n: int
    conversation_id: str
    task_id: str | None
    at: float


class OutlinedSpan(TypedDict):
    """A task, from its start to its end."""

    conversation_id: str
    task_id: str | None
    kind: str
    start: float
    first_n: int
    last_n: int
    end: NotRequired[float | None]
    ending: NotRequired[str | None]


class PatchApplyBegin(TypedDict):
    """A patch is about to be applied."""

    call_id: str
    changes: list[PatchChange]
    diff: NotRequired[str | None]


class PatchApplyBeginEnvelope(TypedDict):
    """The event `patch_apply_begin`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["patch_apply_begin"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: PatchApplyBegin


class PatchApplyEnd(TypedDict):
    """A patch was applied whole, or not at all."""

    call_id: str
    success: bool
    message: str
    allowed_by: NotRequired[Decider | None]


class PatchApplyEndEnvelope(TypedDict):
    """The event `patch_apply_end`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["patch_apply_end"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: PatchApplyEnd


class PatchCell(TypedDict):
    """A change of files, applied whole or not at all."""

    kind: Literal["patch"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    pieces: NotRequired[list[str]]
    missing: NotRequired[int]
    length: NotRequired[int]
    call_id: str
    name: str
    arguments: NotRequired[Any]
    done: NotRequired[bool]
    success: NotRequired[bool | None]
    truncated: NotRequired[bool]
    duration_ms: NotRequired[int | None]
    allowed_by: NotRequired[Decider | None]
    lost: NotRequired[bool]
    changes: list[PatchChange]
    diff: NotRequired[str | None]


class PatchChange(TypedDict):
    """One file of a patch."""

    added: NotRequired[int]
    kind: str
    move_to: NotRequired[str]
    path: str
    removed: NotRequired[int]


class PlanCell(TypedDict):
    """The plan of the model; the newest one for a message replaces the one before."""

    kind: Literal["plan"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    steps: list[PlanStep]
    explanation: NotRequired[str | None]
    done: NotRequired[bool]


class PlanStep(TypedDict):
    """One line of a plan."""

    step: str
    status: Literal["completed", "in_progress", "pending"]


class PlanUpdate(TypedDict):
    """The model wrote a new plan."""

    plan: list[PlanStep]
    explanation: NotRequired[str | None]


class PlanUpdateEnvelope(TypedDict):
    """The event `plan_update`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["plan_update"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: PlanUpdate


class ProcessInfo(TypedDict):
    """The process that a session runs in."""

    pid: int
    program: str


class PromptBefore(TypedDict):
    """The request of the same conversation before this one, compared with it."""

    n: int
    same_parts: int
    first_difference: int | None
    removed_parts: int


class QueuedMessage(TypedDict):
    """A message that waits for its turn."""

    task_id: str | None
    item_id: str
    preview: str
    ts: str
    attachments: NotRequired[int]


class ReasoningCell(TypedDict):
    """What the model thought, as far as its provider shows it."""

    kind: Literal["reasoning"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    pieces: NotRequired[list[str]]
    missing: NotRequired[int]
    length: NotRequired[int]
    item_id: str
    done: NotRequired[bool]


class RecordBoard(TypedDict):
    """`record/board`: as `session/board`, at a record of the past."""

    session_id: str
    n: int
    epoch: int
    seq: int
    board: BoardState


class RecordDeleteAnswer(TypedDict):
    """`record/delete`: the id of the session that is gone."""

    session_id: str


class RecordForkAnswer(TypedDict):
    """`record/fork`: the id of the new session, which `session/resume` brings to life."""

    session_id: str


class RecordHit(TypedDict):
    """A place in a stored session where a text was found."""

    session_id: str
    n: int
    conversation_id: str | None
    at: str
    type: str
    excerpt: str


class RecordHits(TypedDict):
    """`record/search`: places with a text, those of the newest session first."""

    hits: list[RecordHit]
    more: bool


class RecordList(TypedDict):
    """`record/list`: one page of the stored sessions, the newest first."""

    records: list[RecordSummary]
    next: str | None


class RecordOutline(TypedDict):
    """`record/outline`: the time line of a session, made of headers alone."""

    session_id: str
    last_n: int
    first_ts: float | None
    last_ts: float | None
    conversations: list[OutlinedConversation]
    spans: list[OutlinedSpan]
    marks: list[OutlinedMark]
    arrows: list[OutlinedArrow]
    requests: list[OutlinedRequest]
    pauses: list[OutlinedPause]
    counts: OutlineCounts
    damaged: int


class RecordPage(TypedDict):
    """`record/page`: events in the order in which they happened."""

    events: list[RecordedEvent]
    first_n: int | None
    last_n: int | None
    at_start: bool
    at_end: bool
    damaged: list[int]


class RecordParams(TypedDict):
    """`record/outline`: the time line of a stored session."""

    session_id: str


class RecordSummary(TypedDict):
    """One stored session in a list."""

    session_id: str
    title: NotRequired[str | None]
    preview: NotRequired[str | None]
    cwd: NotRequired[str | None]
    model: NotRequired[str | None]
    started_at: str
    last_active_at: str
    conversations: int
    items: int
    tokens: int
    cost_usd: NotRequired[float | None]
    state: Literal["elsewhere", "here", "stored"]
    storage: Literal["full", "none", "partly"]
    purpose: NotRequired[str | None]
    error: NotRequired[str | None]


class RecordedEvent(TypedDict):
    """An event of a record: its envelope as a client got it, its number, and what of it is not there."""

    n: int
    epoch: int
    seq: int | None
    ts: str
    type: str
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: dict[str, Any]
    not_stored: NotRequired[Literal["expired", "headers_only", "none"] | None]
    damaged: NotRequired[bool]
    copied: NotRequired[bool]


class RecordedPart(TypedDict):
    """The instructions, the list of tools, or one item of a request."""

    index: int
    name: Literal["instructions", "item", "tools"]
    bytes: int
    digest: str
    type: NotRequired[str | None]
    role: NotRequired[str | None]
    tool: NotRequired[str | None]
    item_id: NotRequired[str | None]
    text: NotRequired[str | None]
    text_offset: NotRequired[int]
    not_stored: NotRequired[Literal["expired", "headers_only", "none"] | None]


class RecordedPromptAnswer(TypedDict):
    """`record/prompt`: a request to a model, made again from the record, and whether that is proved to be it."""

    n: int
    conversation_id: str
    at: str
    model: str
    verdict: Literal["different", "same", "unknown"]
    sentence: str
    parts: list[RecordedPart]
    bytes: int
    digest: str
    cached_prefix_bytes: int
    before: PromptBefore | None
    next_offset: int | None


class RefreshServers(TypedDict):
    """`mcp/refresh`: have all MCP servers, or those named, list their tools again; failed servers are tried again."""

    names: NotRequired[list[str] | None]
    session_id: NotRequired[str | None]


class ResolveAnswer(TypedDict):
    """`approval/resolve`. True in Python when this answer was the one that counted."""

    resolved: bool
    scope: NotRequired[Literal["conversation", "once", "project", "session"] | None]
    narrowed: NotRequired[str | None]


class ResolveApproval(TypedDict):
    """`approval/resolve`: answer an approval, or the elicitation of an MCP server, which alone can be cancelled."""

    approval_id: str
    decision: Literal["allow", "cancel", "deny"]
    scope: NotRequired[Literal["conversation", "once", "project", "session"] | None]
    ttl_s: NotRequired[float | None]
    message: NotRequired[str | None]
    content: NotRequired[dict[str, Any] | None]
    session_id: NotRequired[str | None]


class RestoreAnswer(TypedDict):
    """`checkpoint/restore`: what was done, or would be."""

    id: str
    restored: bool
    dry_run: bool
    files: list[MergedFile]
    left: list[LeftOutFile]
    undo_id: str | None
    left_out: list[LeftOutFile]
    not_captured: str


class RestoreCheckpoint(TypedDict):
    """`checkpoint/restore`: bring files back into the state of a checkpoint."""

    id: NotRequired[str | None]
    since: NotRequired[str | None]
    conversation_id: NotRequired[str | None]
    paths: NotRequired[list[str] | None]
    dry_run: NotRequired[bool]
    force: NotRequired[bool]
    session_id: NotRequired[str | None]


class ResumeSession(TypedDict):
    """`session/resume`: resume a stored session by its id."""

    model: NotRequired[str | None]
    cwd: NotRequired[str | None]
    approval_policy: NotRequired[str | dict[str, Any] | None]
    sandbox: NotRequired[str | None]
    network: NotRequired[bool | dict[str, Any] | None]
    writable_roots: NotRequired[list[str] | None]
    storage_policy: NotRequired[str | dict[str, Any] | None]
    limits: NotRequired[dict[str, float | None] | None]
    slots: NotRequired[int | None]
    session_id: str
    continue_tasks: NotRequired[bool | None]


class RevokeAnswer(TypedDict):
    """`approval/revoke`. True in Python when there was something to take back."""

    revoked: bool


class RevokeGrant(TypedDict):
    """The parameters of the operation `approval/revoke`."""

    grant_id: str
    session_id: NotRequired[str | None]


class RightsAnswer(TypedDict):
    """`rights/explain`: all rights of a conversation; of a command or a tool what would happen to it."""

    conversation_id: str
    rights: list[ExplainedRight]
    action: NotRequired[ExplainedAction | None]


class RightsWidened(TypedDict):
    """A person at the terminal has widened the rights of the session and its root. No client, model or file can."""

    field: str
    before: str | bool | dict[str, str | bool]
    after: str | bool | dict[str, str | bool]
    by: str


class RightsWidenedEnvelope(TypedDict):
    """The event `rights_widened`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["rights_widened"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: RightsWidened


class SearchRecords(TypedDict):
    """`record/search`: texts of stored sessions."""

    query: str
    session_id: NotRequired[str | None]
    limit: NotRequired[int]


class ServerInfo(TypedDict):
    """Name and version of the server that answers `initialize`."""

    name: str
    version: str


class ServerList(TypedDict):
    """`mcp/status` and `mcp/refresh`: MCP servers by name."""

    servers: list[McpServerInfo]


class ServerView(TypedDict):
    """An MCP server, as its last event told."""

    name: str
    status: str
    error: NotRequired[str | None]


class SessionCard(TypedDict):
    """A session that runs, in a few numbers."""

    session_id: str
    where: Literal["elsewhere", "here"]
    process: NotRequired[ProcessInfo | None]
    title: NotRequired[str | None]
    preview: NotRequired[str | None]
    cwd: NotRequired[str | None]
    model: NotRequired[str | None]
    state: Literal["asking", "idle", "running"]
    running: int
    questions: int
    conversations: int
    tokens: int
    cost_usd: NotRequired[float | None]
    started_at: str
    last_active_at: str


class SessionConfigured(TypedDict):
    """The session was set up; its root conversation is ready."""

    root_conversation_id: str
    protocol_version: str
    version: str
    model: str
    policy: dict[str, Any]
    purpose: NotRequired[Literal["broker"] | None]


class SessionConfiguredEnvelope(TypedDict):
    """The event `session_configured`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["session_configured"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: SessionConfigured


class SessionContextReady(TypedDict):
    """The context injector has the answers of its providers."""

    mcpServerCount: int
    toolCount: int
    contextAdditions: int
    agentName: str
    caller: dict[str, str]
    timestamp: str


class SessionContextReadyEnvelope(TypedDict):
    """The event `session:context-ready`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["session:context-ready"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: SessionContextReady


class SessionInfo(TypedDict):
    """`session/info`: a session, its model, its policy and its MCP servers."""

    session_id: str
    root_conversation_id: str
    protocol_version: str
    version: str
    policy: dict[str, Any]
    model: str
    mcp: list[dict[str, Any]]
    narrowed: NotRequired[list[Narrowing]]
    not_held: NotRequired[list[str]]
    sandbox_tier: NotRequired[Literal["bubblewrap", "landlock", "none", "seatbelt"] | None]
    checkpoints: NotRequired[CheckpointStatus | None]


class SessionList(TypedDict):
    """`session/list`: the sessions that are open in this process."""

    sessions: list[SessionInfo]


class SessionPreparing(TypedDict):
    """The context injector begins to ask its providers. The payload keys are in camelCase, as its design names them."""

    providerCount: int
    agentName: str
    caller: dict[str, str]
    timestamp: str


class SessionPreparingEnvelope(TypedDict):
    """The event `session:preparing`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["session:preparing"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: SessionPreparing


class SetContext(TypedDict):
    """The parameters of the operation `conversation/set_context`."""

    project_instructions: NotRequired[bool | None]
    allow_git: NotRequired[bool | None]
    include_plan_tool: NotRequired[bool | None]
    include_apply_patch_tool: NotRequired[bool | None]
    include_conv_tools: NotRequired[bool | None]
    tools_web_search_request: NotRequired[bool | None]
    include_fetch_tool: NotRequired[bool | None]
    reasoning_effort: NotRequired[str | None]
    sandbox: NotRequired[str | None]
    visibility: NotRequired[str | None]
    on_restart: NotRequired[str | None]
    shell_mode: NotRequired[str | None]
    tool_profile: NotRequired[str | None]
    temperature: NotRequired[float | None]
    max_output_tokens: NotRequired[int | None]
    base_instructions: NotRequired[str | None]
    user_instructions: NotRequired[str | None]
    mcp_tool_allowlist: NotRequired[list[str] | None]
    model: NotRequired[str | None]
    fallback_models: NotRequired[list[str] | None]
    backend: NotRequired[str | None]
    agent: NotRequired[str | AgentSpec | None]
    cwd: NotRequired[str | None]
    workspace: NotRequired[Literal["shared", "worktree"] | None]
    approval_policy: NotRequired[str | dict[str, Any] | None]
    network: NotRequired[bool | dict[str, Any] | None]
    storage_policy: NotRequired[str | dict[str, Any] | None]
    limits: NotRequired[dict[str, float | None] | None]
    title: NotRequired[str | None]
    conversation_id: str
    refresh_mcp_view: NotRequired[bool | None]
    session_id: NotRequired[str | None]


class StartSession(TypedDict):
    """The parameters of the operation `session/start`."""

    model: NotRequired[str | None]
    cwd: NotRequired[str | None]
    approval_policy: NotRequired[str | dict[str, Any] | None]
    sandbox: NotRequired[str | None]
    network: NotRequired[bool | dict[str, Any] | None]
    writable_roots: NotRequired[list[str] | None]
    storage_policy: NotRequired[str | dict[str, Any] | None]
    limits: NotRequired[dict[str, float | None] | None]
    slots: NotRequired[int | None]
    session_id: NotRequired[str | None]


class Steer(TypedDict):
    """The parameters of the operation `conversation/steer`."""

    conversation_id: str
    text: str
    session_id: NotRequired[str | None]


class SteerAnswer(TypedDict):
    """`conversation/steer`: an empty answer, the text was accepted."""



class Subscribe(TypedDict):
    """The parameters of the operation `events/subscribe`."""

    after_seq: NotRequired[int | None]
    conversation_id: NotRequired[str | None]
    attend: NotRequired[bool | None]
    passing: NotRequired[bool]
    types: NotRequired[list[str] | None]
    session_id: NotRequired[str | None]


class SubscribeAnswer(TypedDict):
    """`events/subscribe`. What it replays comes after this answer."""

    subscribed: bool
    last_seq: int


class SubscriberLagged(TypedDict):
    """Sent to one subscriber only, which was too slow. The events `from_seq` to `to_seq` are no longer available."""

    from_seq: int | None
    to_seq: int | None
    dropped_deltas: int


class SubscriberLaggedEnvelope(TypedDict):
    """The event `subscriber_lagged`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["subscriber_lagged"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: SubscriberLagged


class TakeBack(TypedDict):
    """`conversation/take_back`: take back the newest queued message, or the one of the given task."""

    conversation_id: str
    task_id: NotRequired[str | None]
    session_id: NotRequired[str | None]


class TakeBackAnswer(TypedDict):
    """`conversation/take_back`: the message as it was sent, so that it can be changed and sent again."""

    task_id: str
    text: str
    attachments: list[ImageInput]


class TaskComplete(TypedDict):
    """A task has ended by itself, completed or failed."""

    status: Literal["completed", "failed"]
    last_assistant_message: str | None
    usage: Usage


class TaskCompleteEnvelope(TypedDict):
    """The event `task_complete`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["task_complete"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: TaskComplete


class TaskContinued(TypedDict):
    """A task that a crash cut goes on under its own id; it has begun before, and has had no end."""

    kind: Literal["continuation", "target", "user"]
    attempt: int


class TaskContinuedEnvelope(TypedDict):
    """The event `task_continued`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["task_continued"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: TaskContinued


class TaskCounts(TypedDict):
    """Tasks by how they ended, and the share of those that did not end well."""

    started: int
    completed: int
    failed: int
    aborted: dict[str, int]
    cancel_rate: float
    failure_rate: float


class TaskEndCell(TypedDict):
    """A task has ended and its conversation waits for nothing."""

    kind: Literal["task_end"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    status: Literal["completed", "crash", "failed", "interrupted", "limit", "replaced", "shutdown", "timeout"]
    usage: NotRequired[Usage | None]


class TaskInfo(TypedDict):
    """One task of `task/list` and `task/get`."""

    task_id: str
    conversation_id: str
    kind: str
    status: Literal["completed", "failed", "interrupted", "queued", "running"]
    started_at: str | None
    chain: list[str]
    last_assistant_message: NotRequired[str | None]
    worktree: NotRequired[WorktreeReport | None]


class TaskList(TypedDict):
    """`task/list`: what runs, then what waits, the next one first."""

    tasks: list[TaskInfo]


class TaskParams(TypedDict):
    """The parameters of the operation `task/get`."""

    task_id: str
    session_id: NotRequired[str | None]


class TaskStarted(TypedDict):
    """A task has a slot and begins; its input is committed."""

    kind: Literal["continuation", "target", "user"]
    input_preview: NotRequired[str | None]


class TaskStartedEnvelope(TypedDict):
    """The event `task_started`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["task_started"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: TaskStarted


class TextInput(TypedDict):
    """A piece of text in a message."""

    type: Literal["text"]
    text: str


class TokenCount(TypedDict):
    """The tokens and the price of one model request."""

    usage: Usage
    context_window: int
    cache_key: str
    cost_usd: NotRequired[float | None]


class TokenCountEnvelope(TypedDict):
    """The event `token_count`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["token_count"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: TokenCount


class TokenOwner(TypedDict):
    """`internal/validate_token`: the agent that a token belongs to."""

    agent_name: str
    session_id: str
    pid: int | None


class ToolCallBegin(TypedDict):
    """A call of the model is about to be handled."""

    call_id: str
    name: str
    arguments: Any


class ToolCallBeginEnvelope(TypedDict):
    """The event `tool_call_begin`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["tool_call_begin"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ToolCallBegin


class ToolCallCell(TypedDict):
    """A call of a tool, ours or an MCP server's."""

    kind: Literal["tool_call"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    pieces: NotRequired[list[str]]
    missing: NotRequired[int]
    length: NotRequired[int]
    call_id: str
    name: str
    arguments: NotRequired[Any]
    done: NotRequired[bool]
    success: NotRequired[bool | None]
    truncated: NotRequired[bool]
    duration_ms: NotRequired[int | None]
    allowed_by: NotRequired[Decider | None]
    lost: NotRequired[bool]
    server: NotRequired[str | None]
    progress: NotRequired[float | None]
    total: NotRequired[float | None]
    message: NotRequired[str | None]


class ToolCallEnd(TypedDict):
    """A call of the model has ended; there is exactly one such event for each call."""

    call_id: str
    name: str
    success: bool
    output: str
    truncated: bool
    duration_ms: int


class ToolCallEndEnvelope(TypedDict):
    """The event `tool_call_end`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["tool_call_end"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: ToolCallEnd


class ToolInfo(TypedDict):
    """One tool in the answer to `conversation/tools`."""

    name: str
    source: Literal["builtin", "conv", "function", "injector", "mcp"]
    digest: str
    server: NotRequired[str | None]


class ToolList(TypedDict):
    """`conversation/tools`, in the order the model gets them."""

    tools: list[ToolInfo]
    cache_key: str


class TurnAborted(TypedDict):
    """A task was ended from outside: interrupted, replaced, timed out and so on, see `reason`."""

    reason: Literal["crash", "interrupted", "limit", "replaced", "shutdown", "timeout"]
    by_call_id: NotRequired[str | None]


class TurnAbortedEnvelope(TypedDict):
    """The event `turn_aborted`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["turn_aborted"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: TurnAborted


class Usage(TypedDict):
    """The tokens of one request, or the sum of several."""

    input_tokens: NotRequired[int]
    cached_input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    reasoning_output_tokens: NotRequired[int]
    total_tokens: NotRequired[int]


class UserCell(TypedDict):
    """What a person or another conversation wrote."""

    kind: Literal["user_text"]
    key: str
    ts: str
    seq: NotRequired[int | None]
    revision: NotRequired[int]
    text: str
    item_id: str
    how: NotRequired[Literal["delegated", "message", "queued", "steer"]]
    attachments: NotRequired[list[Attachment]]
    sender: NotRequired[str | None]
    caller_id: NotRequired[str | None]


class UserMessageEvent(TypedDict):
    """A message to a conversation, with its whole text."""

    item_id: str
    text: str
    how: NotRequired[Literal["delegated", "message", "queued", "steer"]]
    attachments: NotRequired[list[Attachment]]
    sender: NotRequired[str | None]
    caller_id: NotRequired[str | None]


class UserMessageEventEnvelope(TypedDict):
    """The event `user_message`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["user_message"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: UserMessageEvent


class ValidateToken(TypedDict):
    """The parameters of the operation `internal/validate_token`. The repr does not show the token."""

    token: str
    session_id: NotRequired[str | None]


class WarningEvent(TypedDict):
    """Something could not be done as requested; work goes on."""

    message: str
    code: NotRequired[str | None]
    paths: NotRequired[list[str] | None]


class WarningEventEnvelope(TypedDict):
    """The event `warning`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["warning"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: WarningEvent


class WebSearchBegin(TypedDict):
    """The provider searches the web."""

    call_id: str


class WebSearchBeginEnvelope(TypedDict):
    """The event `web_search_begin`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["web_search_begin"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: WebSearchBegin


class WebSearchEnd(TypedDict):
    """The provider has searched the web."""

    call_id: str
    query: str


class WebSearchEndEnvelope(TypedDict):
    """The event `web_search_end`."""

    epoch: int
    seq: int | None
    ts: str
    type: Literal["web_search_end"]
    session_id: str
    sub_id: str
    conversation_id: str | None
    task_id: str | None
    trace_id: str | None
    span_id: str | None
    data: WebSearchEnd


class WithheldTool(TypedDict):
    """A tool that a server offers and some conversation does not get."""

    tool: str
    because: str


class WorktreeReport(TypedDict):
    """The state of a worktree's branch: part of every answer of a conversation that has a worktree of its own."""

    branch: str
    commit: str
    diffstat: NotRequired[str]
    left_out: NotRequired[list[str]]
    began: NotRequired[str]


AnyEvent = AgentMessageEnvelope | AgentMessageDeltaEnvelope | AgentReasoningEnvelope | AgentReasoningDeltaEnvelope | ApprovalRequestEnvelope | ApprovalResolvedEnvelope | BackgroundEventEnvelope | CanvasUpdatedEnvelope | CheckpointEventEnvelope | ConversationCloseForcedEnvelope | ConversationClosedEnvelope | ConversationContextChangedEnvelope | ConversationOpenedEnvelope | ElicitationRequestEnvelope | ElicitationResolvedEnvelope | ErrorEventEnvelope | ExecCommandBeginEnvelope | ExecCommandEndEnvelope | ExecCommandOutputDeltaEnvelope | ForeignEventEnvelope | HistoryCompactedEnvelope | HookDecisionEnvelope | McpServerStatusEnvelope | McpToolCallBeginEnvelope | McpToolCallEndEnvelope | McpToolCallProgressEnvelope | McpToolsChangedEnvelope | MessageQueuedEnvelope | MessageTakenBackEnvelope | NetworkAccessEnvelope | PatchApplyBeginEnvelope | PatchApplyEndEnvelope | PlanUpdateEnvelope | RightsWidenedEnvelope | SessionContextReadyEnvelope | SessionPreparingEnvelope | SessionConfiguredEnvelope | SubscriberLaggedEnvelope | TaskCompleteEnvelope | TaskContinuedEnvelope | TaskStartedEnvelope | TokenCountEnvelope | ToolCallBeginEnvelope | ToolCallEndEnvelope | TurnAbortedEnvelope | UserMessageEventEnvelope | WarningEventEnvelope | WebSearchBeginEnvelope | WebSearchEndEnvelope


class GeneratedClient:
    """Every operation as a method with typed parameters and a typed result."""

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and return its result."""
        raise NotImplementedError

    async def initialize(self, **params: Unpack[Initialize]) -> InitializeAnswer | ObserveAnswer:
        """`initialize`"""
        return await self.call("initialize", params)

    async def events_subscribe(self, **params: Unpack[Subscribe]) -> SubscribeAnswer:
        """`events/subscribe`"""
        return await self.call("events/subscribe", params)

    async def host_subscribe(self, **params: Unpack[NoParams]) -> HostAnswer:
        """`host/subscribe`"""
        return await self.call("host/subscribe", params)

    async def session_start(self, **params: Unpack[StartSession]) -> SessionInfo:
        """`session/start`"""
        return await self.call("session/start", params)

    async def session_resume(self, **params: Unpack[ResumeSession]) -> SessionInfo:
        """`session/resume`"""
        return await self.call("session/resume", params)

    async def session_list(self, **params: Unpack[NoParams]) -> SessionList:
        """`session/list`"""
        return await self.call("session/list", params)

    async def session_info(self, **params: Unpack[NoParams]) -> SessionInfo:
        """`session/info`"""
        return await self.call("session/info", params)

    async def session_board(self, **params: Unpack[GetBoard]) -> BoardAnswer:
        """`session/board`"""
        return await self.call("session/board", params)

    async def session_close(self, **params: Unpack[CloseSession]) -> CloseAnswer:
        """`session/close`"""
        return await self.call("session/close", params)

    async def conversation_open(self, **params: Unpack[NewConversation]) -> OpenAnswer:
        """`conversation/open`"""
        return await self.call("conversation/open", params)

    async def conversation_set_context(self, **params: Unpack[SetContext]) -> OpenAnswer:
        """`conversation/set_context`"""
        return await self.call("conversation/set_context", params)

    async def conversation_context(self, **params: Unpack[ConversationParams]) -> ContextInfo:
        """`conversation/context`"""
        return await self.call("conversation/context", params)

    async def conversation_message(self, **params: Unpack[Message]) -> MessageAnswer | DetachAnswer:
        """`conversation/message`"""
        return await self.call("conversation/message", params)

    async def conversation_steer(self, **params: Unpack[Steer]) -> SteerAnswer:
        """`conversation/steer`"""
        return await self.call("conversation/steer", params)

    async def conversation_take_back(self, **params: Unpack[TakeBack]) -> TakeBackAnswer:
        """`conversation/take_back`"""
        return await self.call("conversation/take_back", params)

    async def conversation_interrupt(self, **params: Unpack[InterruptConversation]) -> InterruptAnswer:
        """`conversation/interrupt`"""
        return await self.call("conversation/interrupt", params)

    async def conversation_compact(self, **params: Unpack[ConversationParams]) -> CompactAnswer:
        """`conversation/compact`"""
        return await self.call("conversation/compact", params)

    async def conversation_list(self, **params: Unpack[NoParams]) -> ConversationList:
        """`conversation/list`"""
        return await self.call("conversation/list", params)

    async def conversation_history(self, **params: Unpack[GetHistory]) -> HistoryAnswer:
        """`conversation/history`"""
        return await self.call("conversation/history", params)

    async def conversation_tools(self, **params: Unpack[ConversationParams]) -> ToolList:
        """`conversation/tools`"""
        return await self.call("conversation/tools", params)

    async def conversation_fork(self, **params: Unpack[ForkConversation]) -> ForkAnswer:
        """`conversation/fork`"""
        return await self.call("conversation/fork", params)

    async def conversation_merge(self, **params: Unpack[MergeConversation]) -> MergeAnswer:
        """`conversation/merge`"""
        return await self.call("conversation/merge", params)

    async def conversation_close(self, **params: Unpack[CloseConversation]) -> CloseAnswer:
        """`conversation/close`"""
        return await self.call("conversation/close", params)

    async def task_list(self, **params: Unpack[NoParams]) -> TaskList:
        """`task/list`"""
        return await self.call("task/list", params)

    async def task_get(self, **params: Unpack[TaskParams]) -> TaskInfo:
        """`task/get`"""
        return await self.call("task/get", params)

    async def task_cancel(self, **params: Unpack[CancelTask]) -> CancelAnswer:
        """`task/cancel`"""
        return await self.call("task/cancel", params)

    async def approval_list(self, **params: Unpack[ListApprovals]) -> ApprovalList:
        """`approval/list`"""
        return await self.call("approval/list", params)

    async def approval_get(self, **params: Unpack[GetApproval]) -> ApprovalText:
        """`approval/get`"""
        return await self.call("approval/get", params)

    async def approval_resolve(self, **params: Unpack[ResolveApproval]) -> ResolveAnswer:
        """`approval/resolve`"""
        return await self.call("approval/resolve", params)

    async def approval_grants(self, **params: Unpack[ListApprovals]) -> GrantList:
        """`approval/grants`"""
        return await self.call("approval/grants", params)

    async def approval_revoke(self, **params: Unpack[RevokeGrant]) -> RevokeAnswer:
        """`approval/revoke`"""
        return await self.call("approval/revoke", params)

    async def checkpoint_list(self, **params: Unpack[ListCheckpoints]) -> CheckpointList:
        """`checkpoint/list`"""
        return await self.call("checkpoint/list", params)

    async def checkpoint_diff(self, **params: Unpack[DiffCheckpoint]) -> CheckpointDiff:
        """`checkpoint/diff`"""
        return await self.call("checkpoint/diff", params)

    async def checkpoint_restore(self, **params: Unpack[RestoreCheckpoint]) -> RestoreAnswer:
        """`checkpoint/restore`"""
        return await self.call("checkpoint/restore", params)

    async def rights_explain(self, **params: Unpack[ExplainRights]) -> RightsAnswer:
        """`rights/explain`"""
        return await self.call("rights/explain", params)

    async def mcp_status(self, **params: Unpack[NoParams]) -> ServerList:
        """`mcp/status`"""
        return await self.call("mcp/status", params)

    async def mcp_refresh(self, **params: Unpack[RefreshServers]) -> ServerList:
        """`mcp/refresh`"""
        return await self.call("mcp/refresh", params)

    async def canvas_get(self, **params: Unpack[ConversationParams]) -> CanvasAnswer:
        """`canvas/get`"""
        return await self.call("canvas/get", params)

    async def canvas_list(self, **params: Unpack[NoParams]) -> CanvasList:
        """`canvas/list`"""
        return await self.call("canvas/list", params)

    async def canvas_clear(self, **params: Unpack[ConversationParams]) -> CanvasClearAnswer:
        """`canvas/clear`"""
        return await self.call("canvas/clear", params)

    async def internal_validate_token(self, **params: Unpack[ValidateToken]) -> TokenOwner:
        """`internal/validate_token`"""
        return await self.call("internal/validate_token", params)

    async def internal_call(self, **params: Unpack[InternalCall]) -> InternalCallAnswer:
        """`internal/call`"""
        return await self.call("internal/call", params)

    async def metrics_get(self, **params: Unpack[GetMetrics]) -> MetricsAnswer:
        """`metrics/get`"""
        return await self.call("metrics/get", params)

    async def record_list(self, **params: Unpack[ListRecords]) -> RecordList:
        """`record/list`"""
        return await self.call("record/list", params)

    async def record_outline(self, **params: Unpack[RecordParams]) -> RecordOutline:
        """`record/outline`"""
        return await self.call("record/outline", params)

    async def record_page(self, **params: Unpack[GetRecordPage]) -> RecordPage:
        """`record/page`"""
        return await self.call("record/page", params)

    async def record_board(self, **params: Unpack[GetRecordBoard]) -> RecordBoard:
        """`record/board`"""
        return await self.call("record/board", params)

    async def record_prompt(self, **params: Unpack[GetRecordedPrompt]) -> RecordedPromptAnswer:
        """`record/prompt`"""
        return await self.call("record/prompt", params)

    async def record_search(self, **params: Unpack[SearchRecords]) -> RecordHits:
        """`record/search`"""
        return await self.call("record/search", params)

    async def record_fork(self, **params: Unpack[ForkRecordParams]) -> RecordForkAnswer:
        """`record/fork`"""
        return await self.call("record/fork", params)

    async def record_delete(self, **params: Unpack[DeleteRecord]) -> RecordDeleteAnswer:
        """`record/delete`"""
        return await self.call("record/delete", params)
