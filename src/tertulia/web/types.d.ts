// The types of the page. Those of the protocol are generated from docs/schema.json by clients/generate.py.

export type * from "../../../clients/typescript/src/protocol.ts";
import type { ApprovalRequest, ApprovalResolved, Attachment, Decider, ElicitationRequest, PlanStep, Usage } from "../../../clients/typescript/src/protocol.ts";
import type { Board } from "./board/board.js";

export interface EventEnvelope {
  epoch: number;
  seq: number | null;
  ts: string;
  type: string;
  session_id: string;
  conversation_id: string | null;
  task_id: string | null;
  data: any;
}

export type ConversationState = "idle" | "running" | "waiting" | "asking" | "failed" | "closed";

interface AnyCell {
  key: string;
  ts: string;
  seq: number | null;
  revision: number;
}
export interface GrowingCell extends AnyCell {
  kind: string;
  pieces: string[];
  missing: number;
  length: number;
}
export interface UserCell extends AnyCell {
  kind: "user_text";
  text: string;
  item_id: string;
  how: "message" | "steer" | "queued" | "delegated";
  attachments: Attachment[];
  sender: string | null;
  caller_id: string | null;
}
export interface TextCell extends GrowingCell {
  kind: "assistant_text" | "reasoning";
  item_id: string;
  done: boolean;
}
interface AnyCall extends GrowingCell {
  call_id: string;
  name: string;
  arguments: any;
  done: boolean;
  success: boolean | null;
  truncated: boolean;
  duration_ms: number | null;
  /** Its process ended before it was done. */
  lost: boolean;
  allowed_by: Decider | null;
}
export interface ToolCallCell extends AnyCall {
  kind: "tool_call";
  server: string | null;
  progress: number | null;
  total: number | null;
  message: string | null;
}
export interface CommandCell extends AnyCall {
  kind: "command";
  command: string[];
  cwd: string;
  sandbox: string | null;
  exit_code: number | null;
  cut: number;
}
export interface PatchCell extends AnyCall {
  kind: "patch";
  changes: Array<Record<string, any>>;
  diff: string | null;
}
export interface HandoffCell extends AnyCall {
  kind: "handoff";
  target_id: string | null;
  title: string | null;
}
export interface PlanCell extends AnyCell {
  kind: "plan";
  steps: PlanStep[];
  explanation: string | null;
  done: boolean;
}
export interface ApprovalCell extends AnyCell {
  kind: "approval_question";
  request: ApprovalRequest;
  answer: ApprovalResolved | null;
}
export interface ElicitationCell extends AnyCell {
  kind: "elicitation";
  request: ElicitationRequest;
  action: "accept" | "decline" | "cancel" | null;
}
export interface NoticeCell extends AnyCell {
  kind: "notice";
  level: "note" | "warning" | "error";
  text: string;
  code: string | null;
}
export interface TaskEndCell extends AnyCell {
  kind: "task_end";
  status: string;
  usage: Usage | null;
}
export interface GapCell extends AnyCell {
  kind: "gap";
  from_seq: number;
  to_seq: number;
}
export type CallCell = ToolCallCell | CommandCell | PatchCell | HandoffCell;
export type QuestionCell = ApprovalCell | ElicitationCell;
export type Cell = UserCell | TextCell | CallCell | PlanCell | QuestionCell | NoticeCell | TaskEndCell | GapCell;

export interface QueuedMessage {
  task_id: string | null;
  item_id: string;
  preview: string;
  ts: string;
  attachments: number;
}
export interface ConversationView {
  id: string;
  parent_id: string | null;
  title: string | null;
  model: string;
  backend: string;
  depth: number;
  task_id: string | null;
  task_kind: string | null;
  since: string | null;
  waits: boolean;
  caller_id: string | null;
  open_questions: number;
  failed: boolean;
  closed: boolean;
  unread: number;
  context_tokens: number;
  context_window: number;
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
  cost_usd: number | null;
  queued: QueuedMessage[];
  taken_back: string | null;
  last_key: string | null;
  cells: Cell[];
  dropped: number;
  growing: Map<string, TextCell>;
  open_calls: Map<string, CallCell>;
  plan: PlanCell | null;
}
export interface ServerView {
  name: string;
  status: string;
  error: string | null;
}
export interface Changes {
  conversation_id: string | null;
  cell: string | null;
  new: boolean;
  removed: boolean;
  tree: boolean;
  questions: boolean;
  servers: boolean;
  totals: boolean;
}
export type Fold = (board: Board, event: EventEnvelope, data: any) => Changes;
