// The types of the protocol and a method for each operation. Written by clients/generate.py: do not edit.

/** A whole message of the model. */
export interface AgentMessage {
  text: string;
  item_id: string;
  phase?: "commentary" | "final_answer" | null;
}

/** A piece of the model's answer, as it is streamed. */
export interface AgentMessageDelta {
  text: string;
  item_id: string;
  offset: number;
}

/** The event `agent_message_delta`. */
export interface AgentMessageDeltaEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "agent_message_delta";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: AgentMessageDelta;
}

/** The event `agent_message`. */
export interface AgentMessageEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "agent_message";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: AgentMessage;
}

/** A whole reasoning item of the model. */
export interface AgentReasoning {
  text: string;
  item_id: string;
}

/** A piece of the model's reasoning, as it is streamed. */
export interface AgentReasoningDelta {
  text: string;
  item_id: string;
  offset: number;
}

/** The event `agent_reasoning_delta`. */
export interface AgentReasoningDeltaEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "agent_reasoning_delta";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: AgentReasoningDelta;
}

/** The event `agent_reasoning`. */
export interface AgentReasoningEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "agent_reasoning";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: AgentReasoning;
}

/** The agent that a conversation is to be: its name and kind. */
export interface AgentSpec {
  name: string;
  archetype?: string;
  backend_type?: string;
  workspace_policy?: "ephemeral" | "persistent";
  launch_mode?: "direct" | "managed";
}

/** Every event; `type` says which one it is. */
export type AnyEvent = AgentMessageEnvelope | AgentMessageDeltaEnvelope | AgentReasoningEnvelope | AgentReasoningDeltaEnvelope | ApprovalRequestEnvelope | ApprovalResolvedEnvelope | BackgroundEventEnvelope | CanvasUpdatedEnvelope | CheckpointEventEnvelope | ConversationCloseForcedEnvelope | ConversationClosedEnvelope | ConversationContextChangedEnvelope | ConversationOpenedEnvelope | ElicitationRequestEnvelope | ElicitationResolvedEnvelope | ErrorEventEnvelope | ExecCommandBeginEnvelope | ExecCommandEndEnvelope | ExecCommandOutputDeltaEnvelope | ForeignEventEnvelope | HistoryCompactedEnvelope | HookDecisionEnvelope | McpServerStatusEnvelope | McpToolCallBeginEnvelope | McpToolCallEndEnvelope | McpToolCallProgressEnvelope | McpToolsChangedEnvelope | MessageQueuedEnvelope | MessageTakenBackEnvelope | NetworkAccessEnvelope | PatchApplyBeginEnvelope | PatchApplyEndEnvelope | PlanUpdateEnvelope | RightsWidenedEnvelope | SessionContextReadyEnvelope | SessionPreparingEnvelope | SessionConfiguredEnvelope | SubscriberLaggedEnvelope | TaskCompleteEnvelope | TaskContinuedEnvelope | TaskStartedEnvelope | TokenCountEnvelope | ToolCallBeginEnvelope | ToolCallEndEnvelope | TurnAbortedEnvelope | UserMessageEventEnvelope | WarningEventEnvelope | WebSearchBeginEnvelope | WebSearchEndEnvelope;

/** A person is asked whether something may run. */
export interface ApprovalCell {
  kind: "approval_question";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  request: ApprovalRequest;
  answer?: ApprovalResolved | null;
}

/** One file of a patch that needs an approval. */
export interface ApprovalFile {
  path: string;
  kind: "add" | "delete" | "move" | "update";
  added: number;
  removed: number;
}

/** `approval/list`: what waits for an answer, oldest first. */
export interface ApprovalList {
  approvals: Array<ApprovalRequest>;
  elicitations: Array<ElicitationRequest>;
}

/** One of the texts of a request. */
export interface ApprovalPart {
  name: "arguments" | "command" | "detail" | "files" | "justification" | "matches" | "script";
  size: number;
  digest: string;
}

/** A person is asked for an approval. All texts are safe to show: hidden characters are written as `⟨U+202E⟩`. */
export interface ApprovalRequest {
  approval_id: string;
  kind: "escalation" | "exec" | "mcp" | "network" | "patch" | "tool";
  conversation_id: string;
  chain: Array<string>;
  title: string;
  detail: string;
  matches: Array<string>;
  scopes: Array<"conversation" | "once" | "project" | "session">;
  call_id?: string | null;
  asked_at?: string | null;
  expires_at?: string | null;
  command?: string | null;
  script?: string | null;
  cwd?: string | null;
  sandbox?: string | null;
  files?: Array<ApprovalFile>;
  server?: string | null;
  tool?: string | null;
  arguments?: string | null;
  justification?: string | null;
  changed?: Array<string>;
  size?: number;
  digest?: string | null;
  hidden?: number;
  because?: Because | null;
}

/** The event `approval_request`. */
export interface ApprovalRequestEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "approval_request";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ApprovalRequest;
}

/** An approval was answered, by a person, a policy or the timeout. */
export interface ApprovalResolved {
  approval_id: string;
  decision: "allow" | "deny";
  scope?: "conversation" | "once" | "project" | "session" | null;
  reason?: string | null;
  chain?: Array<string>;
  by?: Decider | null;
}

/** The event `approval_resolved`. */
export interface ApprovalResolvedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "approval_resolved";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ApprovalResolved;
}

/** `approval/get`: the request, what texts it has, and a page of one of them. */
export interface ApprovalText {
  approval: ApprovalRequest;
  parts: Array<ApprovalPart>;
  part: "arguments" | "command" | "detail" | "files" | "justification" | "matches" | "script";
  offset: number;
  text: string;
  next_offset: number | null;
}

/** An answer of the model. */
export interface AssistantCell {
  kind: "assistant_text";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  pieces?: Array<string>;
  missing?: number;
  length?: number;
  item_id: string;
  done?: boolean;
}

/** The description of a picture in a message; its content is in the history only. */
export interface Attachment {
  type?: "image";
  media_type?: string | null;
  bytes?: number | null;
  url?: string | null;
}

/** Something a person may want to know: a right that was narrowed, a retry. */
export interface BackgroundEvent {
  message: string;
  narrowed?: Array<Record<string, unknown>> | null;
  discard_deltas?: boolean;
}

/** The event `background_event`. */
export interface BackgroundEventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "background_event";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: BackgroundEvent;
}

/** Why an approval is needed: the rule, and where it was set. */
export interface Because {
  rule: string;
  set_by: string;
}

/** `session/board`: what a screen shows of the session, up to an event. */
export interface BoardAnswer {
  session_id: string;
  epoch: number;
  seq: number;
  board: BoardState;
}

/** All that a screen shows of a session. */
export interface BoardState {
  session_id?: string | null;
  epoch?: number;
  seq?: number;
  model?: string;
  root_id?: string | null;
  conversations?: Record<string, ConversationView>;
  questions?: Record<string, ApprovalCell | ElicitationCell>;
  servers?: Record<string, ServerView>;
  input_tokens?: number;
  cached_input_tokens?: number;
  output_tokens?: number;
  cost_usd?: number | null;
  task_owners?: Record<string, string>;
}

/** The budget of a session, and what of it is used, also before a resume. Null: there is no such limit. */
export interface BudgetCounts {
  tokens: number | null;
  usd: number | null;
  used_tokens: number;
  used_usd: number;
}

/** Calls that have ended, and how long they took. */
export interface CallCounts {
  calls: number;
  failures: number;
  duration_ms: number;
  mean_ms: number;
  max_ms: number;
}

/** `task/cancel`: whether the task was cancelled. */
export interface CancelAnswer {
  cancelled: boolean;
}

/** The parameters of the operation `task/cancel`. */
export interface CancelTask {
  task_id: string;
  scope?: "branch" | "chain";
  session_id?: string | null;
}

/** The answer to `canvas/get`: one canvas. */
export interface CanvasAnswer {
  html: string;
  title: string | null;
  updated_at: string;
  revision: number;
}

/** `canvas/clear`: whether there was anything to take away. */
export interface CanvasClearAnswer {
  cleared: boolean;
}

/** One line of `canvas/list`: without the page. */
export interface CanvasInfo {
  conversation_id: string;
  title: string | null;
  updated_at: string;
  revision: number;
  bytes: number;
}

/** `canvas/list`: those that show something. */
export interface CanvasList {
  canvases: Array<CanvasInfo>;
}

/** An agent's canvas has a new revision. */
export interface CanvasUpdated {
  revision: number;
  title: string | null;
  bytes: number;
}

/** The event `canvas_updated`. */
export interface CanvasUpdatedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "canvas_updated";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: CanvasUpdated;
}

/** `checkpoint/diff`: from the state of a checkpoint to a later one. */
export interface CheckpointDiff {
  id: string;
  files: Array<MergedFile>;
  diff: string;
  truncated: boolean;
  left_out: Array<LeftOutFile>;
  not_captured: string;
}

/** The files of the workspace were recorded: before the first call of a task that may write, at its end, or after a restore. */
export interface CheckpointEvent {
  checkpoint_id: string;
  moment: "after" | "before";
  cause: "restore" | "task";
  files: number;
  diffstat: string;
  not_captured: Array<string>;
}

/** The event `checkpoint`. */
export interface CheckpointEventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "checkpoint";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: CheckpointEvent;
}

/** One checkpoint: the state before a task that wrote, or before a restore. */
export interface CheckpointInfo {
  id: string;
  after_id: string | null;
  cause: "restore" | "task";
  conversation_id: string;
  task_id: string | null;
  session_id: string;
  at: string;
  workspace: string;
  files: number;
  added: number;
  removed: number;
  undone: boolean;
  cut: boolean;
}

/** `checkpoint/list`: the checkpoints, the newest first. */
export interface CheckpointList {
  checkpoints: Array<CheckpointInfo>;
  not_captured: string;
}

/** Whether the files of a session's workspace are recorded, so that tasks can be undone. */
export interface CheckpointStatus {
  available: boolean;
  reason?: string | null;
  in_memory?: boolean;
}

/** The name and version of a client. */
export interface ClientInfo {
  name: string;
  version?: string;
}

/** `conversation/close` and `session/close`: how it was closed. */
export interface CloseAnswer {
  closed: boolean;
  already_closed: boolean;
  forced: boolean;
  kept_worktree?: string | null;
}

/** The parameters of the operation `conversation/close`. */
export interface CloseConversation {
  conversation_id: string;
  timeout_s?: number | null;
  session_id?: string | null;
}

/** The parameters of the operation `session/close`. */
export interface CloseSession {
  timeout_s?: number | null;
  session_id?: string | null;
}

/** A command and its output, which grows while it runs. */
export interface CommandCell {
  kind: "command";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  pieces?: Array<string>;
  missing?: number;
  length?: number;
  call_id: string;
  name: string;
  arguments?: unknown;
  done?: boolean;
  success?: boolean | null;
  truncated?: boolean;
  duration_ms?: number | null;
  allowed_by?: Decider | null;
  lost?: boolean;
  command: Array<string>;
  cwd: string;
  sandbox?: string | null;
  exit_code?: number | null;
  cut?: number;
}

/** `conversation/compact`: the size of the history before and after, or why it was left as it is. */
export interface CompactAnswer {
  compacted: boolean;
  before_tokens: number;
  after_tokens: number;
  reason?: string | null;
}

/** `conversation/context`: everything that decides what the model sees and may do. */
export interface ContextInfo {
  base_instructions: string | null;
  user_instructions: string | null;
  additions: Array<Record<string, unknown>>;
  policy: Record<string, unknown>;
  narrowed: Array<Narrowing>;
  tools_prefs: Record<string, unknown>;
  mcp_tool_allowlist: Array<string> | null;
  model: string;
  storage_policy: unknown;
  limits: Record<string, unknown>;
  prompt_tokens: number;
  cache_key: string;
  fallback_models?: Array<string>;
}

/** A task did not stop within the timeout of a close and was abandoned. */
export interface ConversationCloseForced {
  timeout_s: number;
}

/** The event `conversation_close_forced`. */
export interface ConversationCloseForcedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "conversation_close_forced";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ConversationCloseForced;
}

/** A conversation was closed; requests with its id fail with `closed` from now on. */
export interface ConversationClosed {
  forced?: boolean;
}

/** The event `conversation_closed`. */
export interface ConversationClosedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "conversation_closed";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ConversationClosed;
}

/** `set_context` was accepted; it takes effect with the next model request. */
export interface ConversationContextChanged {
  fields: Array<string>;
}

/** The event `conversation_context_changed`. */
export interface ConversationContextChangedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "conversation_context_changed";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ConversationContextChanged;
}

/** The numbers of one conversation. */
export interface ConversationCounts {
  tasks: TaskCounts;
  model_requests: number;
  usage: Usage;
  cost_usd: number | null;
  tool_calls: number;
  tools: Record<string, CallCounts>;
  mcp: CallCounts;
  mcp_waits: number;
  mcp_waited_ms: number;
  compactions: number;
  network: Record<string, number>;
  network_bytes: number;
  conversation_id: string;
  closed: boolean;
}

/** One conversation in the answer to `conversation/list`. */
export interface ConversationInfo {
  id: string;
  parent_id: string | null;
  title: string | null;
  status: "closed" | "idle" | "running" | "waiting";
  depth: number;
  message_count: number;
  last_active_at: string;
  model: string;
  backend: string;
}

/** `conversation/list`, root first, then by creation. */
export interface ConversationList {
  conversations: Array<ConversationInfo>;
}

/** A conversation was opened; its events follow. */
export interface ConversationOpened {
  parent_id: string | null;
  title: string | null;
  model: string;
  backend: string;
}

/** The event `conversation_opened`. */
export interface ConversationOpenedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "conversation_opened";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ConversationOpened;
}

/** The parameters of operations on one conversation. */
export interface ConversationParams {
  conversation_id: string;
  session_id?: string | null;
}

/** What a screen shows of one conversation. */
export interface ConversationView {
  id: string;
  parent_id?: string | null;
  title?: string | null;
  model?: string;
  backend?: string;
  depth?: number;
  task_id?: string | null;
  task_kind?: "continuation" | "target" | "user" | null;
  since?: string | null;
  waits?: boolean;
  caller_id?: string | null;
  open_questions?: number;
  failed?: boolean;
  closed?: boolean;
  unread?: number;
  context_tokens?: number;
  context_window?: number;
  input_tokens?: number;
  cached_input_tokens?: number;
  output_tokens?: number;
  cost_usd?: number | null;
  queued?: Array<QueuedMessage>;
  taken_back?: string | null;
  last_key?: string | null;
  cells?: Array<UserCell | AssistantCell | ReasoningCell | ToolCallCell | CommandCell | PatchCell | HandoffCell | PlanCell | ApprovalCell | ElicitationCell | NoticeCell | TaskEndCell | GapCell>;
  dropped?: number;
  growing?: Record<string, AssistantCell | ReasoningCell>;
  open_calls?: Record<string, ToolCallCell | CommandCell | PatchCell | HandoffCell>;
  plan?: PlanCell | null;
}

/** The numbers of a session, or of a conversation. */
export interface Counts {
  tasks: TaskCounts;
  model_requests: number;
  usage: Usage;
  cost_usd: number | null;
  tool_calls: number;
  tools: Record<string, CallCounts>;
  mcp: CallCounts;
  mcp_waits: number;
  mcp_waited_ms: number;
  compactions: number;
  network: Record<string, number>;
  network_bytes: number;
}

/** The person, program or rule that answered an approval, or let a call run without one. */
export interface Decider {
  kind: "callback" | "client" | "clock" | "grant" | "interrupt" | "policy" | "shutdown";
  name?: string | null;
  grant_id?: string | null;
}

/** `record/delete`: delete a stored session for good, with what was recorded of files for it. */
export interface DeleteRecord {
  session_id: string;
}

/** `conversation/message` with `detach`: the id of the task. */
export interface DetachAnswer {
  task_id: string;
}

/** `checkpoint/diff`: what the task of a checkpoint has changed, or what is different now. */
export interface DiffCheckpoint {
  id?: string | null;
  conversation_id?: string | null;
  to_now?: boolean;
  session_id?: string | null;
}

/** An MCP server asks a person for something. */
export interface ElicitationCell {
  kind: "elicitation";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  request: ElicitationRequest;
  action?: "accept" | "cancel" | "decline" | null;
}

/** An MCP server asks for something in the middle of a call. */
export interface ElicitationRequest {
  elicitation_id: string;
  server: string;
  message: string;
  schema: Record<string, unknown>;
  url?: string | null;
  chain?: Array<string>;
}

/** The event `elicitation_request`. */
export interface ElicitationRequestEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "elicitation_request";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ElicitationRequest;
}

/** An elicitation was answered or cancelled. */
export interface ElicitationResolved {
  elicitation_id: string;
  action: "accept" | "cancel" | "decline";
  chain?: Array<string>;
}

/** The event `elicitation_resolved`. */
export interface ElicitationResolvedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "elicitation_resolved";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ElicitationResolved;
}

/** Something failed. The end of a task is reported by its terminal event, not by this one. */
export interface ErrorEvent {
  code: string;
  message: string;
}

/** The event `error`. */
export interface ErrorEventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "error";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ErrorEvent;
}

/** A command of a tool call starts. */
export interface ExecCommandBegin {
  call_id: string;
  command: Array<string>;
  cwd: string;
  sandbox?: string | null;
  allowed_by?: Decider | null;
}

/** The event `exec_command_begin`. */
export interface ExecCommandBeginEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "exec_command_begin";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ExecCommandBegin;
}

/** A command of a tool call has ended. */
export interface ExecCommandEnd {
  call_id: string;
  exit_code: number | null;
  output: string;
  truncated: boolean;
  duration_ms: number;
  allowed_by?: Decider | null;
}

/** The event `exec_command_end`. */
export interface ExecCommandEndEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "exec_command_end";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ExecCommandEnd;
}

/** A piece of a command's output. */
export interface ExecCommandOutputDelta {
  call_id: string;
  stream: "stderr" | "stdout";
  text: string;
  item_id: string;
  offset: number;
}

/** The event `exec_command_output_delta`. */
export interface ExecCommandOutputDeltaEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "exec_command_output_delta";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ExecCommandOutputDelta;
}

/** `rights/explain`: the rights of a conversation and why; whether a command, a call or a host would be allowed. */
export interface ExplainRights {
  conversation_id: string;
  command?: string | Array<string> | null;
  tool?: string | null;
  host?: string | null;
  session_id?: string | null;
}

/** What would happen to a command, a call or a connection here and now. */
export interface ExplainedAction {
  verdict: "ask" | "deny" | "run";
  because: string;
  set_by: string;
  sandbox?: string | null;
}

/** One right of a conversation, and what set it. */
export interface ExplainedRight {
  field: string;
  value: unknown;
  set_by: string;
  source?: string | null;
  asked?: unknown;
  now?: unknown;
}

/** Why a task failed: a stable code, and a sentence. */
export interface Failure {
  code: string;
  message: string;
  errors?: Array<string>;
}

/** An event of an executor that has no counterpart here, unchanged. */
export interface ForeignEvent {
  backend: string;
  raw: unknown;
}

/** The event `foreign_event`. */
export interface ForeignEventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "foreign_event";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ForeignEvent;
}

/** `conversation/fork`: the id of the new conversation. */
export interface ForkAnswer {
  conversation_id: string;
}

/** `conversation/fork`: copy a conversation up to an item, up to the end of a round, or whole. */
export interface ForkConversation {
  conversation_id: string;
  at?: string | number | null;
  session_id?: string | null;
}

/** `record/fork`: a new stored session that begins as another one was. */
export interface ForkRecordParams {
  session_id: string;
  n?: number | null;
  conversation_id?: string | null;
}

/** Durable events that this reader was too slow for, and that cannot be had any more. */
export interface GapCell {
  kind: "gap";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  from_seq: number;
  to_seq: number;
}

/** `approval/get`: a pending approval request, with one of its texts in full. */
export interface GetApproval {
  approval_id: string;
  part?: "arguments" | "command" | "detail" | "files" | "justification" | "matches" | "script" | null;
  offset?: number;
  session_id?: string | null;
}

/** `session/board`: the last cells of each conversation. */
export interface GetBoard {
  max_cells?: number | null;
  session_id?: string | null;
}

/** The parameters of the operation `conversation/history`. */
export interface GetHistory {
  conversation_id: string;
  limit?: number | null;
  session_id?: string | null;
}

/** `metrics/get`: the metrics of the session and all its conversations, or of one conversation. */
export interface GetMetrics {
  conversation_id?: string | null;
  session_id?: string | null;
}

/** `record/board`: what a screen showed when a record had been written. */
export interface GetRecordBoard {
  session_id: string;
  at_n: number;
  max_cells?: number;
}

/** `record/page`: the last events of a stored session, or those before or after a record. */
export interface GetRecordPage {
  session_id: string;
  before_n?: number | null;
  after_n?: number | null;
  before_seq?: number | null;
  conversation_id?: string | null;
  limit?: number;
}

/** `record/prompt`: what a model was sent with one request. */
export interface GetRecordedPrompt {
  session_id: string;
  n: number;
  offset?: number;
}

/** One grant, as it is listed. */
export interface Grant {
  grant_id: string;
  kind: "escalation" | "exec" | "mcp" | "network" | "patch" | "tool";
  scope: "conversation" | "once" | "project" | "session";
  conversation_id: string | null;
  matches: Array<string>;
  expires_in_s: number | null;
  uses?: number;
}

/** `approval/grants`: the grants that hold, oldest first. */
export interface GrantList {
  grants: Array<Grant>;
}

/** A call that asks another conversation and waits for its answer. */
export interface HandoffCell {
  kind: "handoff";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  pieces?: Array<string>;
  missing?: number;
  length?: number;
  call_id: string;
  name: string;
  arguments?: unknown;
  done?: boolean;
  success?: boolean | null;
  truncated?: boolean;
  duration_ms?: number | null;
  allowed_by?: Decider | null;
  lost?: boolean;
  target_id?: string | null;
  title?: string | null;
}

/** `conversation/history`: messages, the oldest first. */
export interface HistoryAnswer {
  entries: Array<HistoryEntry>;
}

/** Older items were replaced by a summary, or outputs shortened; if not, `compacted` is false with a `reason`. */
export interface HistoryCompacted {
  compacted: boolean;
  before_tokens: number;
  after_tokens: number;
  removed_items: number;
  trigger: "limit" | "overflow" | "request" | "window";
  reason?: string | null;
  shortened_outputs?: number;
}

/** The event `history_compacted`. */
export interface HistoryCompactedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "history_compacted";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: HistoryCompacted;
}

/** One message in the answer to `conversation/history`. */
export interface HistoryEntry {
  role: "assistant" | "user";
  attachments: Array<Record<string, string>>;
  text?: string | null;
}

/** A hook of the user has decided about a tool call, a task or an approval. */
export interface HookDecision {
  hook: string;
  moment: "after_tool" | "approval" | "before_tool" | "task_end" | "task_start";
  decision: "continue" | "refuse";
  duration_ms: number;
  failed?: boolean;
  reason?: string | null;
  context?: string | null;
  narrowed?: Array<string>;
  call_id?: string | null;
}

/** The event `hook_decision`. */
export interface HookDecisionEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "hook_decision";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: HookDecision;
}

/** `host/subscribe`: the sessions that run now; what changes comes as notifications `host_event`. */
export interface HostAnswer {
  sessions: Array<SessionCard>;
}

/** The notification `host_event`: a session began, is another than before, or has ended. */
export interface HostEvent {
  type: "session_changed" | "session_closed" | "session_opened";
  session: SessionCard;
}

/** A picture in a message, by its address. */
export interface ImageInput {
  type: "image";
  image_url: string;
}

/** The parameters of the operation `initialize`. */
export interface Initialize {
  client?: ClientInfo | null;
  protocol_version?: string | null;
  session_id?: string | null;
  attend?: boolean | null;
  observe?: boolean | null;
}

/** `initialize`: the connection's own session, who serves it, and what that can do. */
export interface InitializeAnswer {
  session_id: string;
  root_conversation_id: string;
  protocol_version: string;
  version: string;
  policy: Record<string, unknown>;
  model: string;
  mcp: Array<Record<string, unknown>>;
  narrowed?: Array<Narrowing>;
  not_held?: Array<string>;
  sandbox_tier?: "bubblewrap" | "landlock" | "none" | "seatbelt" | null;
  checkpoints?: CheckpointStatus | null;
  server: ServerInfo;
  capabilities: Record<string, boolean>;
}

/** `internal/call`: call a tool of a context provider, as the agent that the token identifies. */
export interface InternalCall {
  token: string;
  tool: string;
  arguments?: Record<string, unknown>;
  session_id?: string | null;
}

/** `internal/call`: whatever the tool answered, as plain data. */
export interface InternalCallAnswer {
  result: unknown;
}

/** `conversation/interrupt`. True in Python when something was stopped. */
export interface InterruptAnswer {
  interrupted: boolean;
}

/** The parameters of the operation `conversation/interrupt`. */
export interface InterruptConversation {
  conversation_id: string;
  scope?: "branch" | "chain";
  session_id?: string | null;
}

/** A file that differs and was not merged. */
export interface LeftOutFile {
  path: string;
  reason: string;
}

/** `approval/list` and `approval/grants`: those of all conversations, or those that show in one of them. */
export interface ListApprovals {
  conversation_id?: string | null;
  session_id?: string | null;
}

/** `checkpoint/list`: the checkpoints of the session's workspaces, the newest first. */
export interface ListCheckpoints {
  conversation_id?: string | null;
  limit?: number;
  session_id?: string | null;
}

/** `record/list`: stored sessions, the newest first. */
export interface ListRecords {
  query?: string | null;
  limit?: number;
  before?: string | null;
  session_id?: string | null;
}

/** A picture by path; it is read when the message is accepted. */
export interface LocalImageInput {
  type: "local_image";
  path: string;
}

/** One MCP server of a session. What is not known is left out. */
export interface McpServerInfo {
  name: string;
  status: "disabled" | "failed" | "ready" | "starting" | "stopped" | "untrusted";
  error?: string | null;
  tools: number;
  latency_ms?: number | null;
  protocol_version?: string | null;
  restarts: number;
  in_flight: number;
  waiting: number;
  p50_ms?: number | null;
  p95_ms?: number | null;
  users: Array<string>;
  user_count: number;
  withheld: Array<WithheldTool>;
  last_error_at?: string | null;
}

/** An MCP server's state changed. */
export interface McpServerStatus {
  name: string;
  status: "disabled" | "failed" | "ready" | "starting" | "stopped" | "untrusted";
  error?: string | null;
}

/** The event `mcp_server_status`. */
export interface McpServerStatusEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "mcp_server_status";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: McpServerStatus;
}

/** A call is sent to an MCP server. */
export interface McpToolCallBegin {
  call_id: string;
  server: string;
  tool: string;
  allowed_by?: Decider | null;
}

/** The event `mcp_tool_call_begin`. */
export interface McpToolCallBeginEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "mcp_tool_call_begin";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: McpToolCallBegin;
}

/** A call to an MCP server has ended, with an answer or without. */
export interface McpToolCallEnd {
  call_id: string;
  server: string;
  tool: string;
  success: boolean;
  duration_ms: number;
}

/** The event `mcp_tool_call_end`. */
export interface McpToolCallEndEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "mcp_tool_call_end";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: McpToolCallEnd;
}

/** An MCP server reports the progress of a call. */
export interface McpToolCallProgress {
  call_id: string;
  progress: number;
  total: number | null;
  message: string | null;
  item_id: string;
  offset: number;
}

/** The event `mcp_tool_call_progress`. */
export interface McpToolCallProgressEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "mcp_tool_call_progress";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: McpToolCallProgress;
}

/** A view was refreshed between tasks, or a call was refused because its tool is not what the model was shown. */
export interface McpToolsChanged {
  added: Array<string>;
  removed: Array<string>;
  withheld: Array<string>;
}

/** The event `mcp_tools_changed`. */
export interface McpToolsChangedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "mcp_tools_changed";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: McpToolsChanged;
}

/** `conversation/merge`. True in Python when something was merged. */
export interface MergeAnswer {
  merged: boolean;
  mode: "apply" | "commit";
  branch: string;
  merged_commit: string;
  files: Array<MergedFile>;
  left_out: Array<LeftOutFile>;
  commit?: string | null;
  onto?: string | null;
}

/** The parameters of the operation `conversation/merge`. */
export interface MergeConversation {
  conversation_id: string;
  mode?: "apply" | "commit";
  session_id?: string | null;
}

/** A file that a merge changed. */
export interface MergedFile {
  path: string;
  status: "added" | "deleted" | "modified" | "renamed";
  added: number | null;
  removed: number | null;
  renamed_from?: string | null;
}

/** The parameters of the operation `conversation/message`. */
export interface Message {
  conversation_id: string;
  text?: string | null;
  items?: Array<TextInput | ImageInput | LocalImageInput> | null;
  message_id?: string | null;
  sender?: string | null;
  task_type?: "chat" | "code" | null;
  previous_result?: unknown;
  if_busy?: "fail" | "wait" | null;
  detach?: boolean | null;
  output_schema?: Record<string, unknown> | null;
  base_instructions_override?: string | null;
  session_id?: string | null;
}

/** `conversation/message`: how the task ended, and its last message. */
export interface MessageAnswer {
  task_id: string;
  status: "completed" | "failed" | "interrupted";
  last_assistant_message: string | null;
  usage: Usage;
  tool_calls: number;
  duration_ms: number;
  trace_id: string;
  error?: Failure | null;
  worktree?: WorktreeReport | null;
}

/** A message has to wait until its conversation, or a slot, is free. `user_message` follows when its task begins. */
export interface MessageQueued {
  item_id: string;
  preview: string;
  attachments?: number;
  sender?: string | null;
}

/** The event `message_queued`. */
export interface MessageQueuedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "message_queued";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: MessageQueued;
}

/** A queued message was taken back. Its task never began; the event of the task's end follows. */
export interface MessageTakenBack {
  item_id: string;
}

/** The event `message_taken_back`. */
export interface MessageTakenBackEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "message_taken_back";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: MessageTakenBack;
}

/** `metrics/get`: the numbers of a session and of its conversations. */
export interface MetricsAnswer {
  session: Counts;
  conversations: Array<ConversationCounts>;
  budget?: BudgetCounts | null;
}

/** One thing that was asked for and not given in full, in wire spelling. */
export interface Narrowing {
  field: string;
  asked: unknown;
  given: unknown;
  because: string;
}

/** A command, or `fetch`, has reached a host, or was kept from it. At most two tell of a host and a command. */
export interface NetworkAccess {
  host: string;
  port: number;
  verdict: "allowed" | "failed" | "refused";
  because: string;
  bytes?: number;
  connections?: number;
  call_id?: string | null;
}

/** The event `network_access`. */
export interface NetworkAccessEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "network_access";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: NetworkAccess;
}

/** The parameters of the operation `conversation/open`. */
export interface NewConversation {
  project_instructions?: boolean | null;
  allow_git?: boolean | null;
  include_plan_tool?: boolean | null;
  include_apply_patch_tool?: boolean | null;
  include_conv_tools?: boolean | null;
  tools_web_search_request?: boolean | null;
  include_fetch_tool?: boolean | null;
  reasoning_effort?: string | null;
  sandbox?: string | null;
  visibility?: string | null;
  on_restart?: string | null;
  shell_mode?: string | null;
  tool_profile?: string | null;
  temperature?: number | null;
  max_output_tokens?: number | null;
  base_instructions?: string | null;
  user_instructions?: string | null;
  mcp_tool_allowlist?: Array<string> | null;
  model?: string | null;
  fallback_models?: Array<string> | null;
  backend?: string | null;
  agent?: string | AgentSpec | null;
  cwd?: string | null;
  workspace?: "shared" | "worktree" | null;
  approval_policy?: string | Record<string, unknown> | null;
  network?: boolean | Record<string, unknown> | null;
  storage_policy?: string | Record<string, unknown> | null;
  limits?: Record<string, number | null> | null;
  title?: string | null;
  parent_id?: string | null;
  session_id?: string | null;
}

/** The parameters of operations that need none besides their session. */
export interface NoParams {
  session_id?: string | null;
}

/** A sentence of ours about the conversation. */
export interface NoticeCell {
  kind: "notice";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  level: "error" | "note" | "warning";
  text: string;
  code?: string | null;
}

/** `initialize` with `observe`: who serves the connection, which has no session of its own. */
export interface ObserveAnswer {
  session_id?: null;
  protocol_version: string;
  version: string;
  server: ServerInfo;
  capabilities: Record<string, boolean>;
}

/** `conversation/open` and `conversation/set_context`: the context that holds now, and what was narrowed. */
export interface OpenAnswer {
  conversation_id: string;
  context: ContextInfo;
  narrowed: Array<Narrowing>;
  warnings: Array<string>;
  worktree?: WorktreeReport | null;
}

/** How much of what kind a record holds. */
export interface OutlineCounts {
  items: number;
  requests: number;
  calls: number;
  failed_calls: number;
  not_stored: number;
}

/** One conversation asks another, or gets the answer back. */
export interface OutlinedArrow {
  caller_id: string;
  target_id: string;
  at: number;
  back?: boolean;
}

/** A lane of the time line. */
export interface OutlinedConversation {
  id: string;
  parent_id: string | null;
  opened_at: number;
  title?: string | null;
  closed_at?: number | null;
  model?: string | null;
}

/** A moment in a lane: a call, a question to a person, or the answer. */
export interface OutlinedMark {
  conversation_id: string;
  kind: "call" | "no" | "question" | "yes";
  at: number;
  n: number;
  name?: string;
}

/** A time in which no task ran. */
export interface OutlinedPause {
  start: number;
  end: number;
}

/** A request to a model; `record/prompt` shows what it saw. */
export interface OutlinedRequest {
  n: number;
  conversation_id: string;
  task_id: string | null;
  at: number;
}

/** A task, from its start to its end. */
export interface OutlinedSpan {
  conversation_id: string;
  task_id: string | null;
  kind: string;
  start: number;
  first_n: number;
  last_n: number;
  end?: number | null;
  ending?: string | null;
}

/** A patch is about to be applied. */
export interface PatchApplyBegin {
  call_id: string;
  changes: Array<PatchChange>;
  diff?: string | null;
}

/** The event `patch_apply_begin`. */
export interface PatchApplyBeginEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "patch_apply_begin";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: PatchApplyBegin;
}

/** A patch was applied whole, or not at all. */
export interface PatchApplyEnd {
  call_id: string;
  success: boolean;
  message: string;
  allowed_by?: Decider | null;
}

/** The event `patch_apply_end`. */
export interface PatchApplyEndEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "patch_apply_end";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: PatchApplyEnd;
}

/** A change of files, applied whole or not at all. */
export interface PatchCell {
  kind: "patch";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  pieces?: Array<string>;
  missing?: number;
  length?: number;
  call_id: string;
  name: string;
  arguments?: unknown;
  done?: boolean;
  success?: boolean | null;
  truncated?: boolean;
  duration_ms?: number | null;
  allowed_by?: Decider | null;
  lost?: boolean;
  changes: Array<PatchChange>;
  diff?: string | null;
}

/** One file of a patch. */
export interface PatchChange {
  added?: number;
  kind: string;
  move_to?: string;
  path: string;
  removed?: number;
}

/** The plan of the model; the newest one for a message replaces the one before. */
export interface PlanCell {
  kind: "plan";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  steps: Array<PlanStep>;
  explanation?: string | null;
  done?: boolean;
}

/** One line of a plan. */
export interface PlanStep {
  step: string;
  status: "completed" | "in_progress" | "pending";
}

/** The model wrote a new plan. */
export interface PlanUpdate {
  plan: Array<PlanStep>;
  explanation?: string | null;
}

/** The event `plan_update`. */
export interface PlanUpdateEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "plan_update";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: PlanUpdate;
}

/** The process that a session runs in. */
export interface ProcessInfo {
  pid: number;
  program: string;
}

/** The request of the same conversation before this one, compared with it. */
export interface PromptBefore {
  n: number;
  same_parts: number;
  first_difference: number | null;
  removed_parts: number;
}

/** A message that waits for its turn. */
export interface QueuedMessage {
  task_id: string | null;
  item_id: string;
  preview: string;
  ts: string;
  attachments?: number;
}

/** What the model thought, as far as its provider shows it. */
export interface ReasoningCell {
  kind: "reasoning";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  pieces?: Array<string>;
  missing?: number;
  length?: number;
  item_id: string;
  done?: boolean;
}

/** `record/board`: as `session/board`, at a record of the past. */
export interface RecordBoard {
  session_id: string;
  n: number;
  epoch: number;
  seq: number;
  board: BoardState;
}

/** `record/delete`: the id of the session that is gone. */
export interface RecordDeleteAnswer {
  session_id: string;
}

/** `record/fork`: the id of the new session, which `session/resume` brings to life. */
export interface RecordForkAnswer {
  session_id: string;
}

/** A place in a stored session where a text was found. */
export interface RecordHit {
  session_id: string;
  n: number;
  conversation_id: string | null;
  at: string;
  type: string;
  excerpt: string;
}

/** `record/search`: places with a text, those of the newest session first. */
export interface RecordHits {
  hits: Array<RecordHit>;
  more: boolean;
}

/** `record/list`: one page of the stored sessions, the newest first. */
export interface RecordList {
  records: Array<RecordSummary>;
  next: string | null;
}

/** `record/outline`: the time line of a session, made of headers alone. */
export interface RecordOutline {
  session_id: string;
  last_n: number;
  first_ts: number | null;
  last_ts: number | null;
  conversations: Array<OutlinedConversation>;
  spans: Array<OutlinedSpan>;
  marks: Array<OutlinedMark>;
  arrows: Array<OutlinedArrow>;
  requests: Array<OutlinedRequest>;
  pauses: Array<OutlinedPause>;
  counts: OutlineCounts;
  damaged: number;
}

/** `record/page`: events in the order in which they happened. */
export interface RecordPage {
  events: Array<RecordedEvent>;
  first_n: number | null;
  last_n: number | null;
  at_start: boolean;
  at_end: boolean;
  damaged: Array<number>;
}

/** `record/outline`: the time line of a stored session. */
export interface RecordParams {
  session_id: string;
}

/** One stored session in a list. */
export interface RecordSummary {
  session_id: string;
  title?: string | null;
  preview?: string | null;
  cwd?: string | null;
  model?: string | null;
  started_at: string;
  last_active_at: string;
  conversations: number;
  items: number;
  tokens: number;
  cost_usd?: number | null;
  state: "elsewhere" | "here" | "stored";
  storage: "full" | "none" | "partly";
  purpose?: string | null;
  error?: string | null;
}

/** An event of a record: its envelope as a client got it, its number, and what of it is not there. */
export interface RecordedEvent {
  n: number;
  epoch: number;
  seq: number | null;
  ts: string;
  type: string;
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: Record<string, unknown>;
  not_stored?: "expired" | "headers_only" | "none" | null;
  damaged?: boolean;
  copied?: boolean;
}

/** The instructions, the list of tools, or one item of a request. */
export interface RecordedPart {
  index: number;
  name: "instructions" | "item" | "tools";
  bytes: number;
  digest: string;
  type?: string | null;
  role?: string | null;
  tool?: string | null;
  item_id?: string | null;
  text?: string | null;
  text_offset?: number;
  not_stored?: "expired" | "headers_only" | "none" | null;
}

/** `record/prompt`: a request to a model, made again from the record, and whether that is proved to be it. */
export interface RecordedPromptAnswer {
  n: number;
  conversation_id: string;
  at: string;
  model: string;
  verdict: "different" | "same" | "unknown";
  sentence: string;
  parts: Array<RecordedPart>;
  bytes: number;
  digest: string;
  cached_prefix_bytes: number;
  before: PromptBefore | null;
  next_offset: number | null;
}

/** `mcp/refresh`: have all MCP servers, or those named, list their tools again; failed servers are tried again. */
export interface RefreshServers {
  names?: Array<string> | null;
  session_id?: string | null;
}

/** `approval/resolve`. True in Python when this answer was the one that counted. */
export interface ResolveAnswer {
  resolved: boolean;
  scope?: "conversation" | "once" | "project" | "session" | null;
  narrowed?: string | null;
}

/** `approval/resolve`: answer an approval, or the elicitation of an MCP server, which alone can be cancelled. */
export interface ResolveApproval {
  approval_id: string;
  decision: "allow" | "cancel" | "deny";
  scope?: "conversation" | "once" | "project" | "session" | null;
  ttl_s?: number | null;
  message?: string | null;
  content?: Record<string, unknown> | null;
  session_id?: string | null;
}

/** `checkpoint/restore`: what was done, or would be. */
export interface RestoreAnswer {
  id: string;
  restored: boolean;
  dry_run: boolean;
  files: Array<MergedFile>;
  left: Array<LeftOutFile>;
  undo_id: string | null;
  left_out: Array<LeftOutFile>;
  not_captured: string;
}

/** `checkpoint/restore`: bring files back into the state of a checkpoint. */
export interface RestoreCheckpoint {
  id?: string | null;
  since?: string | null;
  conversation_id?: string | null;
  paths?: Array<string> | null;
  dry_run?: boolean;
  force?: boolean;
  session_id?: string | null;
}

/** `session/resume`: resume a stored session by its id. */
export interface ResumeSession {
  model?: string | null;
  cwd?: string | null;
  approval_policy?: string | Record<string, unknown> | null;
  sandbox?: string | null;
  network?: boolean | Record<string, unknown> | null;
  writable_roots?: Array<string> | null;
  storage_policy?: string | Record<string, unknown> | null;
  limits?: Record<string, number | null> | null;
  slots?: number | null;
  session_id: string;
  continue_tasks?: boolean | null;
}

/** `approval/revoke`. True in Python when there was something to take back. */
export interface RevokeAnswer {
  revoked: boolean;
}

/** The parameters of the operation `approval/revoke`. */
export interface RevokeGrant {
  grant_id: string;
  session_id?: string | null;
}

/** `rights/explain`: all rights of a conversation; of a command or a tool what would happen to it. */
export interface RightsAnswer {
  conversation_id: string;
  rights: Array<ExplainedRight>;
  action?: ExplainedAction | null;
}

/** A person at the terminal has widened the rights of the session and its root. No client, model or file can. */
export interface RightsWidened {
  field: string;
  before: string | boolean | Record<string, string | boolean>;
  after: string | boolean | Record<string, string | boolean>;
  by: string;
}

/** The event `rights_widened`. */
export interface RightsWidenedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "rights_widened";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: RightsWidened;
}

/** `record/search`: texts of stored sessions. */
export interface SearchRecords {
  query: string;
  session_id?: string | null;
  limit?: number;
}

/** Name and version of the server that answers `initialize`. */
export interface ServerInfo {
  name: string;
  version: string;
}

/** `mcp/status` and `mcp/refresh`: MCP servers by name. */
export interface ServerList {
  servers: Array<McpServerInfo>;
}

/** An MCP server, as its last event told. */
export interface ServerView {
  name: string;
  status: string;
  error?: string | null;
}

/** A session that runs, in a few numbers. */
export interface SessionCard {
  session_id: string;
  where: "elsewhere" | "here";
  process?: ProcessInfo | null;
  title?: string | null;
  preview?: string | null;
  cwd?: string | null;
  model?: string | null;
  state: "asking" | "idle" | "running";
  running: number;
  questions: number;
  conversations: number;
  tokens: number;
  cost_usd?: number | null;
  started_at: string;
  last_active_at: string;
}

/** The session was set up; its root conversation is ready. */
export interface SessionConfigured {
  root_conversation_id: string;
  protocol_version: string;
  version: string;
  model: string;
  policy: Record<string, unknown>;
  purpose?: "broker" | null;
}

/** The event `session_configured`. */
export interface SessionConfiguredEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "session_configured";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: SessionConfigured;
}

/** The context injector has the answers of its providers. */
export interface SessionContextReady {
  mcpServerCount: number;
  toolCount: number;
  contextAdditions: number;
  agentName: string;
  caller: Record<string, string>;
  timestamp: string;
}

/** The event `session:context-ready`. */
export interface SessionContextReadyEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "session:context-ready";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: SessionContextReady;
}

/** `session/info`: a session, its model, its policy and its MCP servers. */
export interface SessionInfo {
  session_id: string;
  root_conversation_id: string;
  protocol_version: string;
  version: string;
  policy: Record<string, unknown>;
  model: string;
  mcp: Array<Record<string, unknown>>;
  narrowed?: Array<Narrowing>;
  not_held?: Array<string>;
  sandbox_tier?: "bubblewrap" | "landlock" | "none" | "seatbelt" | null;
  checkpoints?: CheckpointStatus | null;
}

/** `session/list`: the sessions that are open in this process. */
export interface SessionList {
  sessions: Array<SessionInfo>;
}

/** The context injector begins to ask its providers. The payload keys are in camelCase, as its design names them. */
export interface SessionPreparing {
  providerCount: number;
  agentName: string;
  caller: Record<string, string>;
  timestamp: string;
}

/** The event `session:preparing`. */
export interface SessionPreparingEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "session:preparing";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: SessionPreparing;
}

/** The parameters of the operation `conversation/set_context`. */
export interface SetContext {
  project_instructions?: boolean | null;
  allow_git?: boolean | null;
  include_plan_tool?: boolean | null;
  include_apply_patch_tool?: boolean | null;
  include_conv_tools?: boolean | null;
  tools_web_search_request?: boolean | null;
  include_fetch_tool?: boolean | null;
  reasoning_effort?: string | null;
  sandbox?: string | null;
  visibility?: string | null;
  on_restart?: string | null;
  shell_mode?: string | null;
  tool_profile?: string | null;
  temperature?: number | null;
  max_output_tokens?: number | null;
  base_instructions?: string | null;
  user_instructions?: string | null;
  mcp_tool_allowlist?: Array<string> | null;
  model?: string | null;
  fallback_models?: Array<string> | null;
  backend?: string | null;
  agent?: string | AgentSpec | null;
  cwd?: string | null;
  workspace?: "shared" | "worktree" | null;
  approval_policy?: string | Record<string, unknown> | null;
  network?: boolean | Record<string, unknown> | null;
  storage_policy?: string | Record<string, unknown> | null;
  limits?: Record<string, number | null> | null;
  title?: string | null;
  conversation_id: string;
  refresh_mcp_view?: boolean | null;
  session_id?: string | null;
}

/** The parameters of the operation `session/start`. */
export interface StartSession {
  model?: string | null;
  cwd?: string | null;
  approval_policy?: string | Record<string, unknown> | null;
  sandbox?: string | null;
  network?: boolean | Record<string, unknown> | null;
  writable_roots?: Array<string> | null;
  storage_policy?: string | Record<string, unknown> | null;
  limits?: Record<string, number | null> | null;
  slots?: number | null;
  session_id?: string | null;
}

/** The parameters of the operation `conversation/steer`. */
export interface Steer {
  conversation_id: string;
  text: string;
  session_id?: string | null;
}

/** `conversation/steer`: an empty answer, the text was accepted. */
export interface SteerAnswer {
}

/** The parameters of the operation `events/subscribe`. */
export interface Subscribe {
  after_seq?: number | null;
  conversation_id?: string | null;
  attend?: boolean | null;
  passing?: boolean;
  types?: Array<string> | null;
  session_id?: string | null;
}

/** `events/subscribe`. What it replays comes after this answer. */
export interface SubscribeAnswer {
  subscribed: boolean;
  last_seq: number;
}

/** Sent to one subscriber only, which was too slow. The events `from_seq` to `to_seq` are no longer available. */
export interface SubscriberLagged {
  from_seq: number | null;
  to_seq: number | null;
  dropped_deltas: number;
}

/** The event `subscriber_lagged`. */
export interface SubscriberLaggedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "subscriber_lagged";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: SubscriberLagged;
}

/** `conversation/take_back`: take back the newest queued message, or the one of the given task. */
export interface TakeBack {
  conversation_id: string;
  task_id?: string | null;
  session_id?: string | null;
}

/** `conversation/take_back`: the message as it was sent, so that it can be changed and sent again. */
export interface TakeBackAnswer {
  task_id: string;
  text: string;
  attachments: Array<ImageInput>;
}

/** A task has ended by itself, completed or failed. */
export interface TaskComplete {
  status: "completed" | "failed";
  last_assistant_message: string | null;
  usage: Usage;
}

/** The event `task_complete`. */
export interface TaskCompleteEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "task_complete";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: TaskComplete;
}

/** A task that a crash cut goes on under its own id; it has begun before, and has had no end. */
export interface TaskContinued {
  kind: "continuation" | "target" | "user";
  attempt: number;
}

/** The event `task_continued`. */
export interface TaskContinuedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "task_continued";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: TaskContinued;
}

/** Tasks by how they ended, and the share of those that did not end well. */
export interface TaskCounts {
  started: number;
  completed: number;
  failed: number;
  aborted: Record<string, number>;
  cancel_rate: number;
  failure_rate: number;
}

/** A task has ended and its conversation waits for nothing. */
export interface TaskEndCell {
  kind: "task_end";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  status: "completed" | "crash" | "failed" | "interrupted" | "limit" | "replaced" | "shutdown" | "timeout";
  usage?: Usage | null;
}

/** One task of `task/list` and `task/get`. */
export interface TaskInfo {
  task_id: string;
  conversation_id: string;
  kind: string;
  status: "completed" | "failed" | "interrupted" | "queued" | "running";
  started_at: string | null;
  chain: Array<string>;
  last_assistant_message?: string | null;
  worktree?: WorktreeReport | null;
}

/** `task/list`: what runs, then what waits, the next one first. */
export interface TaskList {
  tasks: Array<TaskInfo>;
}

/** The parameters of the operation `task/get`. */
export interface TaskParams {
  task_id: string;
  session_id?: string | null;
}

/** A task has a slot and begins; its input is committed. */
export interface TaskStarted {
  kind: "continuation" | "target" | "user";
  input_preview?: string | null;
}

/** The event `task_started`. */
export interface TaskStartedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "task_started";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: TaskStarted;
}

/** A piece of text in a message. */
export interface TextInput {
  type: "text";
  text: string;
}

/** The tokens and the price of one model request. */
export interface TokenCount {
  usage: Usage;
  context_window: number;
  cache_key: string;
  cost_usd?: number | null;
}

/** The event `token_count`. */
export interface TokenCountEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "token_count";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: TokenCount;
}

/** `internal/validate_token`: the agent that a token belongs to. */
export interface TokenOwner {
  agent_name: string;
  session_id: string;
  pid: number | null;
}

/** A call of the model is about to be handled. */
export interface ToolCallBegin {
  call_id: string;
  name: string;
  arguments: unknown;
}

/** The event `tool_call_begin`. */
export interface ToolCallBeginEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "tool_call_begin";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ToolCallBegin;
}

/** A call of a tool, ours or an MCP server's. */
export interface ToolCallCell {
  kind: "tool_call";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  pieces?: Array<string>;
  missing?: number;
  length?: number;
  call_id: string;
  name: string;
  arguments?: unknown;
  done?: boolean;
  success?: boolean | null;
  truncated?: boolean;
  duration_ms?: number | null;
  allowed_by?: Decider | null;
  lost?: boolean;
  server?: string | null;
  progress?: number | null;
  total?: number | null;
  message?: string | null;
}

/** A call of the model has ended; there is exactly one such event for each call. */
export interface ToolCallEnd {
  call_id: string;
  name: string;
  success: boolean;
  output: string;
  truncated: boolean;
  duration_ms: number;
}

/** The event `tool_call_end`. */
export interface ToolCallEndEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "tool_call_end";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: ToolCallEnd;
}

/** One tool in the answer to `conversation/tools`. */
export interface ToolInfo {
  name: string;
  source: "builtin" | "conv" | "function" | "injector" | "mcp";
  digest: string;
  server?: string | null;
}

/** `conversation/tools`, in the order the model gets them. */
export interface ToolList {
  tools: Array<ToolInfo>;
  cache_key: string;
}

/** A task was ended from outside: interrupted, replaced, timed out and so on, see `reason`. */
export interface TurnAborted {
  reason: "crash" | "interrupted" | "limit" | "replaced" | "shutdown" | "timeout";
  by_call_id?: string | null;
}

/** The event `turn_aborted`. */
export interface TurnAbortedEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "turn_aborted";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: TurnAborted;
}

/** The tokens of one request, or the sum of several. */
export interface Usage {
  input_tokens?: number;
  cached_input_tokens?: number;
  output_tokens?: number;
  reasoning_output_tokens?: number;
  total_tokens?: number;
}

/** What a person or another conversation wrote. */
export interface UserCell {
  kind: "user_text";
  key: string;
  ts: string;
  seq?: number | null;
  revision?: number;
  text: string;
  item_id: string;
  how?: "delegated" | "message" | "queued" | "steer";
  attachments?: Array<Attachment>;
  sender?: string | null;
  caller_id?: string | null;
}

/** A message to a conversation, with its whole text. */
export interface UserMessageEvent {
  item_id: string;
  text: string;
  how?: "delegated" | "message" | "queued" | "steer";
  attachments?: Array<Attachment>;
  sender?: string | null;
  caller_id?: string | null;
}

/** The event `user_message`. */
export interface UserMessageEventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "user_message";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: UserMessageEvent;
}

/** The parameters of the operation `internal/validate_token`. The repr does not show the token. */
export interface ValidateToken {
  token: string;
  session_id?: string | null;
}

/** Something could not be done as requested; work goes on. */
export interface WarningEvent {
  message: string;
  code?: string | null;
  paths?: Array<string> | null;
}

/** The event `warning`. */
export interface WarningEventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "warning";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: WarningEvent;
}

/** The provider searches the web. */
export interface WebSearchBegin {
  call_id: string;
}

/** The event `web_search_begin`. */
export interface WebSearchBeginEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "web_search_begin";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: WebSearchBegin;
}

/** The provider has searched the web. */
export interface WebSearchEnd {
  call_id: string;
  query: string;
}

/** The event `web_search_end`. */
export interface WebSearchEndEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: "web_search_end";
  session_id: string;
  sub_id: string;
  conversation_id: string | null;
  task_id: string | null;
  trace_id: string | null;
  span_id: string | null;
  data: WebSearchEnd;
}

/** A tool that a server offers and some conversation does not get. */
export interface WithheldTool {
  tool: string;
  because: string;
}

/** The state of a worktree's branch: part of every answer of a conversation that has a worktree of its own. */
export interface WorktreeReport {
  branch: string;
  commit: string;
  diffstat?: string;
  left_out?: Array<string>;
  began?: string;
}

/** Each operation by its name. */
export interface Operations {
  "initialize": { params: Initialize; result: InitializeAnswer | ObserveAnswer };
  "events/subscribe": { params: Subscribe; result: SubscribeAnswer };
  "host/subscribe": { params: NoParams; result: HostAnswer };
  "session/start": { params: StartSession; result: SessionInfo };
  "session/resume": { params: ResumeSession; result: SessionInfo };
  "session/list": { params: NoParams; result: SessionList };
  "session/info": { params: NoParams; result: SessionInfo };
  "session/board": { params: GetBoard; result: BoardAnswer };
  "session/close": { params: CloseSession; result: CloseAnswer };
  "conversation/open": { params: NewConversation; result: OpenAnswer };
  "conversation/set_context": { params: SetContext; result: OpenAnswer };
  "conversation/context": { params: ConversationParams; result: ContextInfo };
  "conversation/message": { params: Message; result: MessageAnswer | DetachAnswer };
  "conversation/steer": { params: Steer; result: SteerAnswer };
  "conversation/take_back": { params: TakeBack; result: TakeBackAnswer };
  "conversation/interrupt": { params: InterruptConversation; result: InterruptAnswer };
  "conversation/compact": { params: ConversationParams; result: CompactAnswer };
  "conversation/list": { params: NoParams; result: ConversationList };
  "conversation/history": { params: GetHistory; result: HistoryAnswer };
  "conversation/tools": { params: ConversationParams; result: ToolList };
  "conversation/fork": { params: ForkConversation; result: ForkAnswer };
  "conversation/merge": { params: MergeConversation; result: MergeAnswer };
  "conversation/close": { params: CloseConversation; result: CloseAnswer };
  "task/list": { params: NoParams; result: TaskList };
  "task/get": { params: TaskParams; result: TaskInfo };
  "task/cancel": { params: CancelTask; result: CancelAnswer };
  "approval/list": { params: ListApprovals; result: ApprovalList };
  "approval/get": { params: GetApproval; result: ApprovalText };
  "approval/resolve": { params: ResolveApproval; result: ResolveAnswer };
  "approval/grants": { params: ListApprovals; result: GrantList };
  "approval/revoke": { params: RevokeGrant; result: RevokeAnswer };
  "checkpoint/list": { params: ListCheckpoints; result: CheckpointList };
  "checkpoint/diff": { params: DiffCheckpoint; result: CheckpointDiff };
  "checkpoint/restore": { params: RestoreCheckpoint; result: RestoreAnswer };
  "rights/explain": { params: ExplainRights; result: RightsAnswer };
  "mcp/status": { params: NoParams; result: ServerList };
  "mcp/refresh": { params: RefreshServers; result: ServerList };
  "canvas/get": { params: ConversationParams; result: CanvasAnswer };
  "canvas/list": { params: NoParams; result: CanvasList };
  "canvas/clear": { params: ConversationParams; result: CanvasClearAnswer };
  "internal/validate_token": { params: ValidateToken; result: TokenOwner };
  "internal/call": { params: InternalCall; result: InternalCallAnswer };
  "metrics/get": { params: GetMetrics; result: MetricsAnswer };
  "record/list": { params: ListRecords; result: RecordList };
  "record/outline": { params: RecordParams; result: RecordOutline };
  "record/page": { params: GetRecordPage; result: RecordPage };
  "record/board": { params: GetRecordBoard; result: RecordBoard };
  "record/prompt": { params: GetRecordedPrompt; result: RecordedPromptAnswer };
  "record/search": { params: SearchRecords; result: RecordHits };
  "record/fork": { params: ForkRecordParams; result: RecordForkAnswer };
  "record/delete": { params: DeleteRecord; result: RecordDeleteAnswer };
}

/** Every operation as a method with typed parameters and a typed result. */
export abstract class GeneratedClient {
  /** Send a request and return its result. */
  abstract call<M extends keyof Operations>(
    method: M,
    params: Operations[M]["params"],
  ): Promise<Operations[M]["result"]>;

  /** `initialize` */
  initialize(params: Initialize = {}): Promise<InitializeAnswer | ObserveAnswer> {
    return this.call("initialize", params);
  }

  /** `events/subscribe` */
  eventsSubscribe(params: Subscribe = {}): Promise<SubscribeAnswer> {
    return this.call("events/subscribe", params);
  }

  /** `host/subscribe` */
  hostSubscribe(params: NoParams = {}): Promise<HostAnswer> {
    return this.call("host/subscribe", params);
  }

  /** `session/start` */
  sessionStart(params: StartSession = {}): Promise<SessionInfo> {
    return this.call("session/start", params);
  }

  /** `session/resume` */
  sessionResume(params: ResumeSession): Promise<SessionInfo> {
    return this.call("session/resume", params);
  }

  /** `session/list` */
  sessionList(params: NoParams = {}): Promise<SessionList> {
    return this.call("session/list", params);
  }

  /** `session/info` */
  sessionInfo(params: NoParams = {}): Promise<SessionInfo> {
    return this.call("session/info", params);
  }

  /** `session/board` */
  sessionBoard(params: GetBoard = {}): Promise<BoardAnswer> {
    return this.call("session/board", params);
  }

  /** `session/close` */
  sessionClose(params: CloseSession = {}): Promise<CloseAnswer> {
    return this.call("session/close", params);
  }

  /** `conversation/open` */
  conversationOpen(params: NewConversation = {}): Promise<OpenAnswer> {
    return this.call("conversation/open", params);
  }

  /** `conversation/set_context` */
  conversationSetContext(params: SetContext): Promise<OpenAnswer> {
    return this.call("conversation/set_context", params);
  }

  /** `conversation/context` */
  conversationContext(params: ConversationParams): Promise<ContextInfo> {
    return this.call("conversation/context", params);
  }

  /** `conversation/message` */
  conversationMessage(params: Message): Promise<MessageAnswer | DetachAnswer> {
    return this.call("conversation/message", params);
  }

  /** `conversation/steer` */
  conversationSteer(params: Steer): Promise<SteerAnswer> {
    return this.call("conversation/steer", params);
  }

  /** `conversation/take_back` */
  conversationTakeBack(params: TakeBack): Promise<TakeBackAnswer> {
    return this.call("conversation/take_back", params);
  }

  /** `conversation/interrupt` */
  conversationInterrupt(params: InterruptConversation): Promise<InterruptAnswer> {
    return this.call("conversation/interrupt", params);
  }

  /** `conversation/compact` */
  conversationCompact(params: ConversationParams): Promise<CompactAnswer> {
    return this.call("conversation/compact", params);
  }

  /** `conversation/list` */
  conversationList(params: NoParams = {}): Promise<ConversationList> {
    return this.call("conversation/list", params);
  }

  /** `conversation/history` */
  conversationHistory(params: GetHistory): Promise<HistoryAnswer> {
    return this.call("conversation/history", params);
  }

  /** `conversation/tools` */
  conversationTools(params: ConversationParams): Promise<ToolList> {
    return this.call("conversation/tools", params);
  }

  /** `conversation/fork` */
  conversationFork(params: ForkConversation): Promise<ForkAnswer> {
    return this.call("conversation/fork", params);
  }

  /** `conversation/merge` */
  conversationMerge(params: MergeConversation): Promise<MergeAnswer> {
    return this.call("conversation/merge", params);
  }

  /** `conversation/close` */
  conversationClose(params: CloseConversation): Promise<CloseAnswer> {
    return this.call("conversation/close", params);
  }

  /** `task/list` */
  taskList(params: NoParams = {}): Promise<TaskList> {
    return this.call("task/list", params);
  }

  /** `task/get` */
  taskGet(params: TaskParams): Promise<TaskInfo> {
    return this.call("task/get", params);
  }

  /** `task/cancel` */
  taskCancel(params: CancelTask): Promise<CancelAnswer> {
    return this.call("task/cancel", params);
  }

  /** `approval/list` */
  approvalList(params: ListApprovals = {}): Promise<ApprovalList> {
    return this.call("approval/list", params);
  }

  /** `approval/get` */
  approvalGet(params: GetApproval): Promise<ApprovalText> {
    return this.call("approval/get", params);
  }

  /** `approval/resolve` */
  approvalResolve(params: ResolveApproval): Promise<ResolveAnswer> {
    return this.call("approval/resolve", params);
  }

  /** `approval/grants` */
  approvalGrants(params: ListApprovals = {}): Promise<GrantList> {
    return this.call("approval/grants", params);
  }

  /** `approval/revoke` */
  approvalRevoke(params: RevokeGrant): Promise<RevokeAnswer> {
    return this.call("approval/revoke", params);
  }

  /** `checkpoint/list` */
  checkpointList(params: ListCheckpoints = {}): Promise<CheckpointList> {
    return this.call("checkpoint/list", params);
  }

  /** `checkpoint/diff` */
  checkpointDiff(params: DiffCheckpoint = {}): Promise<CheckpointDiff> {
    return this.call("checkpoint/diff", params);
  }

  /** `checkpoint/restore` */
  checkpointRestore(params: RestoreCheckpoint = {}): Promise<RestoreAnswer> {
    return this.call("checkpoint/restore", params);
  }

  /** `rights/explain` */
  rightsExplain(params: ExplainRights): Promise<RightsAnswer> {
    return this.call("rights/explain", params);
  }

  /** `mcp/status` */
  mcpStatus(params: NoParams = {}): Promise<ServerList> {
    return this.call("mcp/status", params);
  }

  /** `mcp/refresh` */
  mcpRefresh(params: RefreshServers = {}): Promise<ServerList> {
    return this.call("mcp/refresh", params);
  }

  /** `canvas/get` */
  canvasGet(params: ConversationParams): Promise<CanvasAnswer> {
    return this.call("canvas/get", params);
  }

  /** `canvas/list` */
  canvasList(params: NoParams = {}): Promise<CanvasList> {
    return this.call("canvas/list", params);
  }

  /** `canvas/clear` */
  canvasClear(params: ConversationParams): Promise<CanvasClearAnswer> {
    return this.call("canvas/clear", params);
  }

  /** `internal/validate_token` */
  internalValidateToken(params: ValidateToken): Promise<TokenOwner> {
    return this.call("internal/validate_token", params);
  }

  /** `internal/call` */
  internalCall(params: InternalCall): Promise<InternalCallAnswer> {
    return this.call("internal/call", params);
  }

  /** `metrics/get` */
  metricsGet(params: GetMetrics = {}): Promise<MetricsAnswer> {
    return this.call("metrics/get", params);
  }

  /** `record/list` */
  recordList(params: ListRecords = {}): Promise<RecordList> {
    return this.call("record/list", params);
  }

  /** `record/outline` */
  recordOutline(params: RecordParams): Promise<RecordOutline> {
    return this.call("record/outline", params);
  }

  /** `record/page` */
  recordPage(params: GetRecordPage): Promise<RecordPage> {
    return this.call("record/page", params);
  }

  /** `record/board` */
  recordBoard(params: GetRecordBoard): Promise<RecordBoard> {
    return this.call("record/board", params);
  }

  /** `record/prompt` */
  recordPrompt(params: GetRecordedPrompt): Promise<RecordedPromptAnswer> {
    return this.call("record/prompt", params);
  }

  /** `record/search` */
  recordSearch(params: SearchRecords): Promise<RecordHits> {
    return this.call("record/search", params);
  }

  /** `record/fork` */
  recordFork(params: ForkRecordParams): Promise<RecordForkAnswer> {
    return this.call("record/fork", params);
  }

  /** `record/delete` */
  recordDelete(params: DeleteRecord): Promise<RecordDeleteAnswer> {
    return this.call("record/delete", params);
  }
}
