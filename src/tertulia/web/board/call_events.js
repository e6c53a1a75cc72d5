// Folds the events of calls: tools, commands, patches, MCP servers, and what persons are asked. As view/call_events.py.

import { addCell, addNotice, changeCell, changed, NOTHING } from "./changes.js";
import { grow, makeCell, settle } from "./cells.js";
import { replaceInView, waitingTargets } from "./conversation_view.js";
import { endTask } from "./task_events.js";
import { grouped } from "./text.js";

/** @typedef {import("./board.js").Board} Board */
/** @typedef {import("../types.js").EventEnvelope} EventEnvelope */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("../types.js").Fold} Fold */

/** The tools whose calls wait for another conversation. */
const HANDOFFS = new Set(["conv_create", "conv_send"]);
/** Its calls have no cell of their own: the plan has one. */
const PLAN_TOOL = "update_plan";

/** @param {any} value */
const text = (value) => (typeof value === "string" ? value : null);

/** @type {Fold} */
function begun(board, event, data) {
  if (data.name === PLAN_TOOL) return NOTHING;
  const common = {
    key: `${data.call_id}@${event.seq}`,
    ts: event.ts,
    seq: event.seq,
    call_id: data.call_id,
    name: data.name,
    arguments: data.arguments ?? null,
  };
  const own = data.arguments && typeof data.arguments === "object" ? data.arguments : {};
  const call = HANDOFFS.has(data.name)
    ? makeCell("handoff", { ...common, target_id: text(own.conversation_id), title: text(own.title) })
    : makeCell("tool_call", common);
  return openCall(board.view(event), call);
}

/** @param {ConversationView} view @param {any} call */
function openCall(view, call) {
  view.open_calls.set(call.call_id, call);
  return addCell(view, call, { worthReading: false, tree: true });
}

/** The conversation of an event, and its open call of that id. @param {Board} board @param {EventEnvelope} event @param {any} data */
function openCallOf(board, event, data) {
  const view = board.view(event);
  return { view, call: view.open_calls.get(data.call_id) };
}

/** @type {Fold} */
function ended(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  // A plan, or a call whose beginning this reader has not seen.
  if (!call) return NOTHING;
  view.open_calls.delete(data.call_id);
  call.done = true;
  call.success = data.success ?? null;
  call.truncated = data.truncated ?? false;
  call.duration_ms = data.duration_ms ?? null;
  if (call.kind !== "command" || call.exit_code === null) settle(call, data.output ?? "");
  // Every call was answered and no continuation has begun: the chain was stopped.
  if (view.waits && event.task_id === view.task_id && !waitingTargets(view).length) endTask(board, view);
  return changeCell(view, call, true);
}

/** What the cell of a command or a patch has from the call that it is; an executor's own has no call.
 * @param {EventEnvelope} event @param {string} callId @param {any} call */
function fieldsOfCall(event, callId, call) {
  const own = call
    ? { key: call.key, name: call.name, arguments: call.arguments }
    : { key: `${callId}@${event.seq}`, name: "", arguments: null };
  return { ...own, ts: event.ts, seq: event.seq, call_id: callId };
}

/** The call is now known to be a command or a patch: its cell stays where it is.
 * @param {ConversationView} view @param {any} call @param {any} special */
function become(view, call, special) {
  if (!call) return openCall(view, special);
  special.revision = call.revision;
  replaceInView(view, call, special);
  view.open_calls.set(special.call_id, special);
  return changeCell(view, special, true);
}

/** @type {Fold} */
function commandBegun(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  const { command, cwd } = data;
  const fields = { allowed_by: data.allowed_by ?? null, command, cwd, sandbox: data.sandbox ?? null };
  return become(view, call, makeCell("command", { ...fieldsOfCall(event, data.call_id, call), ...fields }));
}

/** @type {Fold} */
function commandOutput(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  if (!call || !grow(call, data.text, data.offset ?? 0)) return NOTHING;
  return changed({ conversation_id: view.id, cell: call.key });
}

/** @type {Fold} */
function commandEnded(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  if (!call || call.kind !== "command") return NOTHING;
  settle(call, data.output ?? "");
  call.exit_code = data.exit_code;
  call.cut = 0;
  call.truncated = data.truncated ?? false;
  call.duration_ms = data.duration_ms ?? null;
  call.allowed_by = data.allowed_by ?? call.allowed_by;
  closeOwn(view, call);
  return changed({ conversation_id: view.id, cell: call.key });
}

/** What an executor runs by itself is no call of a model, so no end of one follows.
 * @param {ConversationView} view @param {any} call */
function closeOwn(view, call) {
  if (call.name) return;
  view.open_calls.delete(call.call_id);
  call.done = true;
}

/** @type {Fold} */
function patchBegun(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  const fields = { changes: data.changes, diff: data.diff ?? null };
  return become(view, call, makeCell("patch", { ...fieldsOfCall(event, data.call_id, call), ...fields }));
}

/** @type {Fold} */
function patchEnded(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  if (!call) return NOTHING;
  settle(call, data.message ?? "");
  call.success = data.success;
  call.allowed_by = data.allowed_by ?? null;
  closeOwn(view, call);
  return changed({ conversation_id: view.id, cell: call.key });
}

/** @type {Fold} */
function serverCalled(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  if (!call || call.kind !== "tool_call") return NOTHING;
  call.server = data.server;
  call.allowed_by = data.allowed_by ?? null;
  return changeCell(view, call);
}

/** @type {Fold} */
function serverProgress(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  if (!call || call.kind !== "tool_call") return NOTHING;
  call.progress = data.progress ?? null;
  call.total = data.total ?? null;
  call.message = data.message ?? null;
  return changeCell(view, call);
}

/** @type {Fold} */
function serverStatus(board, _event, data) {
  board.servers.set(data.name, { name: data.name, status: data.status, error: data.error ?? null });
  return changed({ servers: true });
}

/** @type {Fold} */
function searchBegun(board, event, data) {
  const key = `${data.call_id}@${event.seq}`;
  const call = makeCell("tool_call", { key, ts: event.ts, seq: event.seq, call_id: data.call_id, name: "web_search" });
  return openCall(board.view(event), call);
}

/** @type {Fold} */
function searchEnded(board, event, data) {
  const { view, call } = openCallOf(board, event, data);
  if (!call) return NOTHING;
  view.open_calls.delete(data.call_id);
  call.arguments = { query: data.query ?? null };
  call.done = call.success = true;
  return changeCell(view, call, true);
}

/** @type {Fold} */
function planned(board, event, data) {
  const view = board.view(event);
  const explanation = data.explanation ?? null;
  if (view.plan) {
    view.plan.steps = data.plan;
    view.plan.explanation = explanation;
    return changeCell(view, view.plan);
  }
  view.plan = makeCell("plan", { key: `p${event.seq}`, ts: event.ts, seq: event.seq, steps: data.plan, explanation });
  return addCell(view, /** @type {any} */ (view.plan));
}

/** @type {Fold} */
function canvas(board, event, data) {
  const size = data.bytes.toLocaleString("en-US");
  const sentence = `canvas “${data.title || "untitled"}”, revision ${data.revision}, ${size} bytes`;
  return addNotice(board.view(event), event, sentence);
}

/** @type {Fold} */
const approvalAsked = (board, event, data) =>
  ask(board, event, makeCell("approval_question", { key: data.approval_id, ts: event.ts, seq: event.seq, request: data }));

/** @type {Fold} */
const elicited = (board, event, data) =>
  ask(board, event, makeCell("elicitation", { key: data.elicitation_id, ts: event.ts, seq: event.seq, request: data }));

/** @param {Board} board @param {EventEnvelope} event @param {any} cell */
function ask(board, event, cell) {
  const view = board.view(event);
  view.open_questions += 1;
  board.questions.set(cell.key, cell);
  addCell(view, cell);
  return changed({ conversation_id: view.id, cell: cell.key, new: true, tree: true, questions: true });
}

/** @type {Fold} */
function approvalResolved(board, event, data) {
  const cell = board.questions.get(data.approval_id);
  board.questions.delete(data.approval_id);
  if (!cell || cell.kind !== "approval_question") return NOTHING;
  cell.answer = data;
  return answered(board, event, cell);
}

/** @type {Fold} */
function elicitationResolved(board, event, data) {
  const cell = board.questions.get(data.elicitation_id);
  board.questions.delete(data.elicitation_id);
  if (!cell || cell.kind !== "elicitation") return NOTHING;
  cell.action = data.action;
  return answered(board, event, cell);
}

/** @type {Fold} */
function network(board, event, data) {
  const host = data.host ? `${data.host}:${data.port}` : "further hosts";
  const connections = data.connections ?? 1;
  const times = connections === 1 ? "" : `, ${grouped(connections)} connections`;
  const size = data.bytes ? `, ${grouped(data.bytes)} bytes` : "";
  const why = data.because ? ` (${data.because})` : "";
  const text = `network: ${host} ${data.verdict}${times}${size}${why}`;
  return addNotice(board.view(event), event, text, { worthReading: false });
}

/** @param {Board} board @param {EventEnvelope} event @param {any} cell */
function answered(board, event, cell) {
  const view = board.view(event);
  view.open_questions = Math.max(0, view.open_questions - 1);
  cell.revision += 1;
  return changed({ conversation_id: view.id, cell: cell.key, tree: true, questions: true });
}

/** @type {Record<string, Fold>} */
export const CALL_FOLDS = {
  tool_call_begin: begun,
  tool_call_end: ended,
  exec_command_begin: commandBegun,
  exec_command_output_delta: commandOutput,
  exec_command_end: commandEnded,
  patch_apply_begin: patchBegun,
  patch_apply_end: patchEnded,
  mcp_tool_call_begin: serverCalled,
  mcp_tool_call_progress: serverProgress,
  mcp_server_status: serverStatus,
  network_access: network,
  web_search_begin: searchBegun,
  web_search_end: searchEnded,
  plan_update: planned,
  canvas_updated: canvas,
  approval_request: approvalAsked,
  approval_resolved: approvalResolved,
  elicitation_request: elicited,
  elicitation_resolved: elicitationResolved,
};
