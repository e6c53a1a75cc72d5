// One conversation as a screen shows it: its state, what it does now, and its transcript. As view/conversation_view.py.

/** @typedef {import("../types.js").Cell} Cell */
/** @typedef {import("../types.js").ConversationView} ConversationView */

/** Cells of one conversation; the record has those before. */
export const MAX_CELLS = 20_000;

/** What a snapshot leaves out. @type {Record<string, unknown>} */
export const VIEW_DEFAULTS = {
  parent_id: null, title: null, model: "", backend: "", depth: 0, task_id: null, task_kind: null, since: null,
  waits: false, caller_id: null, open_questions: 0, failed: false, closed: false, unread: 0, context_tokens: 0,
  context_window: 0, input_tokens: 0, cached_input_tokens: 0, output_tokens: 0, cost_usd: null, queued: [],
  taken_back: null, last_key: null, cells: [], dropped: 0, growing: {}, open_calls: {}, plan: null,
};

/** @param {string} id @param {Record<string, any>} [fields] @returns {ConversationView} */
export function makeView(id, fields = {}) {
  const lists = { queued: [...(fields.queued ?? [])], cells: [...(fields.cells ?? [])] };
  return /** @type {any} */ ({ ...VIEW_DEFAULTS, ...fields, id, ...lists, growing: new Map(), open_calls: new Map(), plan: null });
}

/** In one word; the first that holds. @param {ConversationView} view @returns {import("../types.js").ConversationState} */
export function stateOf(view) {
  if (view.closed) return "closed";
  if (view.open_questions) return "asking";
  if (view.waits) return "waiting";
  if (view.task_id !== null) return "running";
  return view.failed ? "failed" : "idle";
}

/** Put a cell at the end; the oldest go where there are too many. @param {ConversationView} view @param {Cell} cell */
export function addToView(view, cell) {
  view.cells.push(cell);
  if (view.cells.length > MAX_CELLS) {
    const surplus = MAX_CELLS / 10;
    view.cells.splice(0, surplus);
    view.dropped += surplus;
  }
}

/** Put a cell in the place of another, which is near the end.
 * @param {ConversationView} view @param {Cell} old @param {Cell} next */
export function replaceInView(view, old, next) {
  const index = view.cells.lastIndexOf(old);
  if (index >= 0) view.cells[index] = next;
}

/** End what it does without a word: nothing of it asks, works or waits any more. @param {ConversationView} view */
export function stopView(view) {
  Object.assign(view, { task_id: null, task_kind: null, since: null, caller_id: null, waits: false, open_questions: 0 });
  for (const call of view.open_calls.values()) Object.assign(call, { done: true, lost: true, revision: call.revision + 1 });
  view.open_calls.clear();
  view.growing.clear();
}

/** The conversations whose answers it waits for, in the order of the calls.
 * @param {ConversationView} view @returns {string[]} */
export const waitingTargets = (view) =>
  [...view.open_calls.values()].flatMap((call) => (call.kind === "handoff" && call.target_id !== null ? [call.target_id] : []));
