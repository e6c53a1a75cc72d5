// Folds the events of the session, its conversations, their tasks and the texts of models. As view/task_events.py.

import { addCell, addNotice, changed, NOTHING } from "./changes.js";
import { grow, makeCell, settle } from "./cells.js";
import { waitingTargets } from "./conversation_view.js";
import { endBeforeBeginning } from "./message_events.js";
import { grouped } from "./text.js";

/** @typedef {import("./board.js").Board} Board */
/** @typedef {import("../types.js").EventEnvelope} EventEnvelope */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("../types.js").Fold} Fold */

/** Cells among which the text of a late piece may be whole already. */
const LATE = 20;

/** @type {Fold} */
function configured(board, event, data) {
  board.session_id = event.session_id;
  board.root_id = data.root_conversation_id;
  board.model = data.model;
  return changed({ tree: true });
}

/** @type {Fold} */
function opened(board, event, data) {
  const view = board.view(event);
  view.parent_id = data.parent_id ?? null;
  view.title = data.title ?? null;
  view.model = data.model;
  view.backend = data.backend;
  view.closed = false;
  const parent = view.parent_id === null ? undefined : board.conversations.get(view.parent_id);
  view.depth = parent ? parent.depth + 1 : 0;
  const owner = event.task_id === null ? undefined : board.task_owners.get(event.task_id);
  const caller = owner === undefined ? undefined : board.conversations.get(owner);
  if (caller) nameTarget(caller, view);
  return changed({ conversation_id: view.id, tree: true });
}

/** Calls open their conversations in order: the first one with this title that has none yet.
 * @param {ConversationView} caller @param {ConversationView} view */
function nameTarget(caller, view) {
  for (const call of caller.open_calls.values()) {
    if (call.kind === "handoff" && call.target_id === null && call.title === view.title) {
      call.target_id = view.id;
      call.revision += 1;
      return;
    }
  }
}

/** @type {Fold} */
function closed(board, event) {
  const view = board.view(event);
  endTask(board, view);
  view.closed = true;
  return changed({ conversation_id: view.id, tree: true });
}

/** @type {Fold} */
function started(board, event, data) {
  const view = board.view(event);
  const caller = view.caller_id;
  endTask(board, view);
  view.task_id = event.task_id;
  view.task_kind = data.kind;
  view.since = event.ts;
  view.failed = false;
  if (event.task_id !== null) board.task_owners.set(event.task_id, view.id);
  if (data.kind === "continuation") {
    view.caller_id = caller;
    return changed({ conversation_id: view.id, tree: true });
  }
  if (view.plan) {
    view.plan.done = true;
    view.plan = null;
  }
  if (data.kind === "target") view.caller_id = findCaller(board, view.id);
  return changed({ conversation_id: view.id, tree: true });
}

/** The task is the same, in another process: what was asked in its name is asked again. @type {Fold} */
function continued(board, event, data) {
  const view = board.view(event);
  const dropped = dropQuestions(board, view);
  view.task_id = event.task_id;
  view.task_kind = data.kind;
  view.since = event.ts;
  view.failed = false;
  view.waits = false;
  if (event.task_id !== null) board.task_owners.set(event.task_id, view.id);
  const text = `goes on after a crash, attempt ${data.attempt}`;
  const notice = makeCell("notice", { key: `n${event.seq}`, ts: event.ts, seq: event.seq, level: "note", text, code: null });
  return addCell(view, notice, { tree: true, questions: dropped });
}

/** Only conversations with a task can wait, so few are looked at. @param {Board} board @param {string} target */
function findCaller(board, target) {
  for (const id of board.task_owners.values()) {
    const view = board.conversations.get(id);
    if (view && waitingTargets(view).includes(target)) return id;
  }
  return null;
}

/** The conversation has no task any more. @param {Board} board @param {ConversationView} view */
export function endTask(board, view) {
  if (view.task_id !== null) board.task_owners.delete(view.task_id);
  view.task_id = view.task_kind = view.since = view.caller_id = null;
  view.waits = false;
  view.growing.clear();
}

/** @type {Fold} */
function completed(board, event, data) {
  const view = board.view(event);
  endTask(board, view);
  view.failed = data.status === "failed";
  const cell = makeCell("task_end", {
    key: `e${event.seq}`, ts: event.ts, seq: event.seq, status: data.status, usage: data.usage ?? null,
  });
  return addCell(view, cell, { worthReading: view.failed, tree: true });
}

/** @type {Fold} */
function aborted(board, event, data) {
  const view = board.view(event);
  const changes = endBeforeBeginning(view, event);
  if (changes !== null) return changes;
  if (data.reason === "replaced") {
    // It has handed over. The task is kept, so that a conversation opened in its name finds the call.
    view.waits = true;
    view.since = event.ts;
    view.growing.clear();
    return changed({ conversation_id: view.id, tree: true });
  }
  endTask(board, view);
  const dropped = data.reason === "crash" && dropQuestions(board, view);
  const cell = makeCell("task_end", { key: `e${event.seq}`, ts: event.ts, seq: event.seq, status: data.reason });
  return addCell(view, cell, { tree: true, questions: dropped });
}

/**
 * Forget the open questions of a conversation: the process that asked is gone, and no answer would reach it.
 * @param {Board} board @param {ConversationView} view
 */
function dropQuestions(board, view) {
  const open = view.cells.filter((cell) => board.questions.has(cell.key));
  for (const cell of open) board.questions.delete(cell.key);
  view.open_questions = 0;
  return open.length > 0;
}

/** @param {EventEnvelope} event @param {any} data */
function textCell(event, data) {
  const kind = event.type.startsWith("agent_message") ? "assistant_text" : "reasoning";
  return makeCell(kind, { key: data.item_id, ts: event.ts, item_id: data.item_id });
}

/** Looked up with the first piece of a text only, and among the newest cells only. @param {ConversationView} view @param {string} itemId */
const isSettled = (view, itemId) =>
  view.cells.slice(-LATE).some((cell) => cell.key === itemId && (cell.kind === "assistant_text" || cell.kind === "reasoning") && cell.done);

/** @type {Fold} */
function growText(board, event, data) {
  const view = board.view(event);
  const known = view.growing.get(data.item_id);
  if (known) {
    return grow(known, data.text, data.offset ?? 0) ? changed({ conversation_id: view.id, cell: known.key }) : NOTHING;
  }
  // A reader that follows events and then takes the board has pieces of answers that are whole in it.
  if (isSettled(view, data.item_id)) return NOTHING;
  const cell = textCell(event, data);
  view.growing.set(data.item_id, cell);
  grow(cell, data.text, data.offset ?? 0);
  return addCell(view, cell);
}

/** @type {Fold} */
function settleText(board, event, data) {
  const view = board.view(event);
  let cell = view.growing.get(data.item_id);
  view.growing.delete(data.item_id);
  let changes = null;
  if (!cell) {
    cell = textCell(event, data);
    changes = addCell(view, /** @type {any} */ (cell));
  }
  const text = /** @type {any} */ (cell);
  settle(text, data.text);
  text.done = true;
  text.seq = event.seq;
  return changes ?? changed({ conversation_id: view.id, cell: text.key });
}

/** @type {Fold} */
function counted(board, event, data) {
  const { usage } = data;
  const view = board.view(event);
  view.context_tokens = usage.total_tokens ?? 0;
  view.context_window = data.context_window ?? 0;
  for (const counter of [view, board]) {
    counter.input_tokens += usage.input_tokens ?? 0;
    counter.cached_input_tokens += usage.cached_input_tokens ?? 0;
    counter.output_tokens += usage.output_tokens ?? 0;
    if (data.cost_usd != null) counter.cost_usd = (counter.cost_usd ?? 0) + data.cost_usd;
  }
  return changed({ conversation_id: view.id, totals: true });
}

/** @type {Fold} */
function background(board, event, data) {
  const view = board.view(event);
  if (!data.discard_deltas || !view.growing.size) return addNotice(view, event, data.message, { worthReading: false });
  const unfinished = new Set(/** @type {any[]} */ ([...view.growing.values()]));
  view.cells = view.cells.filter((cell) => !unfinished.has(cell));
  view.unread = Math.max(0, view.unread - unfinished.size);
  view.growing.clear();
  addNotice(view, event, data.message);
  return changed({ conversation_id: view.id, removed: true, tree: true });
}

/** @type {Fold} */
const warning = (board, event, data) =>
  addNotice(board.view(event), event, data.message, { level: "warning", code: data.code ?? null });

/** @type {Fold} */
const error = (board, event, data) =>
  addNotice(board.view(event), event, data.message, { level: "error", code: data.code ?? null });

/** @type {Fold} */
function compacted(board, event, data) {
  const text = data.compacted
    ? `${grouped(data.removed_items)} older items became a summary: ` +
      `${grouped(data.before_tokens)} tokens are ${grouped(data.after_tokens)} now`
    : `the history could not be shortened: ${data.reason}`;
  return addNotice(board.view(event), event, text, { worthReading: false });
}

/** @type {Fold} */
function lagged(board, event, data) {
  // Where only deltas were dropped, the next delta of each text tells by its offset.
  if (data.from_seq == null || data.to_seq == null) return NOTHING;
  for (const view of board.conversations.values()) {
    if (view.closed) continue;
    const gap = makeCell("gap", { key: `g${data.from_seq}`, ts: event.ts, from_seq: data.from_seq, to_seq: data.to_seq });
    addCell(view, gap, { worthReading: false });
  }
  return changed({ tree: true });
}

/** @type {Record<string, Fold>} */
export const TASK_FOLDS = {
  session_configured: configured,
  conversation_opened: opened,
  conversation_closed: closed,
  task_started: started,
  task_continued: continued,
  task_complete: completed,
  turn_aborted: aborted,
  agent_message_delta: growText,
  agent_reasoning_delta: growText,
  agent_message: settleText,
  agent_reasoning: settleText,
  token_count: counted,
  background_event: background,
  warning,
  error,
  history_compacted: compacted,
  subscriber_lagged: lagged,
};
