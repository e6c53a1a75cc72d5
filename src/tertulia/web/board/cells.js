// The cells of a transcript, as view/cells.py has them. Each is a plain object that later events change in place;
// `revision` grows each time, so that a view knows what to draw again.

/** @typedef {import("../types.js").Cell} Cell */
/** @typedef {import("../types.js").GrowingCell} GrowingCell */

/** Characters of a running command's output that are kept; the end counts. */
export const MAX_OUTPUT = 256 * 1024;

const EVERY = { seq: null, revision: 0 };
const GROWING = { ...EVERY, pieces: [], missing: 0, length: 0 };
const CALL = {
  ...GROWING, arguments: null, done: false, success: null, truncated: false, duration_ms: null, allowed_by: null,
  lost: false,
};

/**
 * What each kind of cell has where nothing else is told; a snapshot leaves these values out.
 * @type {Record<string, Record<string, unknown>>}
 */
export const DEFAULTS = {
  user_text: { ...EVERY, how: "message", attachments: [], sender: null, caller_id: null },
  assistant_text: { ...GROWING, done: false },
  reasoning: { ...GROWING, done: false },
  tool_call: { ...CALL, server: null, progress: null, total: null, message: null },
  command: { ...CALL, sandbox: null, exit_code: null, cut: 0 },
  patch: { ...CALL, diff: null },
  handoff: { ...CALL, target_id: null, title: null },
  plan: { ...EVERY, explanation: null, done: false },
  approval_question: { ...EVERY, answer: null },
  elicitation: { ...EVERY, action: null },
  notice: { ...EVERY, code: null },
  task_end: { ...EVERY, usage: null },
  gap: { ...EVERY },
};

const CALL_KINDS = new Set(["tool_call", "command", "patch", "handoff"]);

/** Whether a cell is a call of a model. @param {Cell} cell @returns {boolean} */
export const isCall = (cell) => CALL_KINDS.has(cell.kind);

/**
 * A cell of this kind; what the fields do not say is as the defaults have it.
 * @param {string} kind
 * @param {Record<string, unknown>} fields
 * @returns {any}
 */
export function makeCell(kind, fields) {
  const defaults = DEFAULTS[kind];
  /** @type {any} */
  const cell = { kind, ...defaults, ...fields };
  // Arrays of the defaults are shared: a cell gets its own.
  if (defaults && "pieces" in defaults) cell.pieces = [...cell.pieces];
  return cell;
}

const SURROGATE = /[\ud800-\udfff]/;

/** How many characters a text has; those outside the first plane count once, as in the offsets of events.
 * @param {string} text @returns {number} */
export const characters = (text) => (SURROGATE.test(text) ? [...text].length : text.length);

/** The text from this character on. @param {string} text @param {number} start @returns {string} */
export const fromCharacter = (text, start) =>
  SURROGATE.test(text) ? [...text].slice(start).join("") : text.slice(start);

/** The whole text of a cell, joined once. @param {GrowingCell} cell @returns {string} */
export function textOf(cell) {
  if (cell.pieces.length > 1) cell.pieces = [cell.pieces.join("")];
  return cell.pieces[0] ?? "";
}

/**
 * Append a piece that begins at this offset of the stream.
 * @param {GrowingCell} cell
 * @param {string} piece
 * @param {number} offset
 * @returns {boolean} false where all of it is known already
 */
export function grow(cell, piece, offset) {
  if (offset < cell.length) {
    piece = fromCharacter(piece, cell.length - offset);
    offset = cell.length;
  }
  if (!piece) return false;
  cell.missing += offset - cell.length;
  cell.pieces.push(piece);
  cell.length = offset + characters(piece);
  cell.revision += 1;
  if (cell.kind === "command") cutBeginning(cell);
  return true;
}

/** Of a long output only the end is kept. @param {any} cell */
function cutBeginning(cell) {
  if (cell.length - cell.missing - cell.cut <= 2 * MAX_OUTPUT) return;
  const text = textOf(cell);
  const surplus = characters(text) - MAX_OUTPUT;
  cell.cut += surplus;
  cell.pieces = [fromCharacter(text, surplus)];
}

/** Take the whole text in place of the pieces. @param {GrowingCell} cell @param {string} text */
export function settle(cell, text) {
  cell.pieces = [text];
  cell.length = characters(text);
  cell.missing = 0;
  cell.revision += 1;
}
