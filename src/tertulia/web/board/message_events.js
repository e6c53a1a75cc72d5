// Folds the events of messages: what persons and other conversations say, and what of it waits. As view/message_events.py.

import { addCell, addNotice, changed, NOTHING } from "./changes.js";
import { makeCell } from "./cells.js";

/** @typedef {import("../types.js").EventEnvelope} EventEnvelope */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("../types.js").Fold} Fold */

/** @type {Fold} */
function written(board, event, data) {
  const view = board.view(event);
  if (data.how === "queued") leaveQueue(view, data.item_id);
  const cell = makeCell("user_text", {
    // A message of an older record has no number of its own.
    key: `u${event.seq ?? data.item_id}`,
    ts: event.ts,
    seq: event.seq,
    text: data.text ?? "",
    item_id: data.item_id,
    how: data.how ?? "message",
    attachments: data.attachments ?? [],
    sender: data.sender ?? null,
    caller_id: data.caller_id ?? null,
  });
  return addCell(view, cell, { worthReading: false, tree: true });
}

/** @type {Fold} */
function queued(board, event, data) {
  const view = board.view(event);
  const { item_id, preview, attachments = 0 } = data;
  view.queued.push({ task_id: event.task_id, item_id, preview, ts: event.ts, attachments });
  return changed({ conversation_id: view.id, tree: true });
}

/** @type {Fold} */
function takenBack(board, event, data) {
  const view = board.view(event);
  leaveQueue(view, data.item_id);
  view.taken_back = event.task_id;
  return changed({ conversation_id: view.id, tree: true });
}

/** @param {ConversationView} view @param {string} itemId */
function leaveQueue(view, itemId) {
  view.queued = view.queued.filter((message) => message.item_id !== itemId);
}

/**
 * What the end of a task means that never began; null where it is the end of another one.
 * @param {ConversationView} view
 * @param {EventEnvelope} event
 */
export function endBeforeBeginning(view, event) {
  const taskId = event.task_id;
  if (taskId !== null && view.taken_back === taskId) {
    view.taken_back = null;
    return changed({ conversation_id: view.id, tree: true });
  }
  const dropped = view.queued.find((message) => message.task_id === taskId);
  if (dropped) {
    view.queued = view.queued.filter((message) => message.task_id !== taskId);
    return addNotice(view, event, `a message that waited was not begun: ${dropped.preview}`);
  }
  // A reader that has not seen a task begin sees at least that it ended.
  return view.task_id === null || taskId === view.task_id ? null : NOTHING;
}

/** @type {Fold} */
function widened(board, event, data) {
  const [before, after] = [setting(data.before), setting(data.after)];
  const text = `${data.field.replaceAll("_", " ")} was widened from ${before} to ${after}, at the ${data.by}`;
  return addNotice(board.view(event), event, text, { level: "warning", code: "rights_widened" });
}

/** @param {any} value @returns {string} */
function setting(value) {
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value === "string") return value;
  return Object.entries(value).map(([name, part]) => `${name.replaceAll("_", " ")} ${setting(part)}`).join(", ");
}

/** @type {Record<string, Fold>} */
export const MESSAGE_FOLDS = {
  user_message: written,
  message_queued: queued,
  message_taken_back: takenBack,
  rights_widened: widened,
};
