// What one event changed, and the ways in which cells change. As view/board_state.py.

import { addToView } from "./conversation_view.js";
import { makeCell } from "./cells.js";

/** @typedef {import("../types.js").Changes} Changes */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("../types.js").Cell} Cell */

/** @type {Changes} */
export const NOTHING = Object.freeze({ conversation_id: null, cell: null, new: false, removed: false, tree: false, questions: false, servers: false, totals: false });

/** @param {Partial<Changes>} fields @returns {Changes} */
export const changed = (fields) => ({ ...NOTHING, ...fields });

/**
 * Put a cell at the end of a conversation.
 * @param {ConversationView} view
 * @param {Cell} cell
 * @param {{worthReading?: boolean, tree?: boolean, questions?: boolean}} [how]
 */
export function addCell(view, cell, { worthReading = true, tree = false, questions = false } = {}) {
  addToView(view, cell);
  view.last_key = cell.key;
  if (worthReading) view.unread += 1;
  return changed({ conversation_id: view.id, cell: cell.key, new: true, tree: tree || worthReading, questions });
}

/** Say that a cell has changed. @param {ConversationView} view @param {Cell} cell @param {boolean} [tree] */
export function changeCell(view, cell, tree = false) {
  cell.revision += 1;
  return changed({ conversation_id: view.id, cell: cell.key, tree });
}

/**
 * Put a sentence about an event at the end of a conversation.
 * @param {ConversationView} view
 * @param {import("../types.js").EventEnvelope} event
 * @param {string} text
 * @param {{level?: "note" | "warning" | "error", code?: string | null, worthReading?: boolean}} [how]
 */
export function addNotice(view, event, text, { level = "note", code = null, worthReading = true } = {}) {
  const notice = makeCell("notice", { key: `n${event.seq}`, ts: event.ts, seq: event.seq, level, text, code });
  return addCell(view, notice, { worthReading });
}
