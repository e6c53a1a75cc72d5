// A board from the JSON of `session/board`, and back. As view/snapshot.py.

import { Board } from "./board.js";
import { DEFAULTS, isCall, makeCell } from "./cells.js";
import { makeView, VIEW_DEFAULTS } from "./conversation_view.js";

/** @typedef {Record<string, any>} Json */

const PLAIN_FIELDS = ["session_id", "epoch", "seq", "model", "root_id", "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd"];

/** The board of a snapshot; it takes the events that follow its `seq`. @param {Json} written @returns {Board} */
export function readSnapshot(written) {
  const board = new Board();
  for (const name of PLAIN_FIELDS) if (name in written) /** @type {Json} */ (board)[name] = written[name];
  board.questions = new Map(entries(written.questions, readCell));
  board.servers = new Map(entries(written.servers, (server) => ({ error: null, ...server })));
  board.task_owners = new Map(Object.entries(written.task_owners ?? {}));
  board.conversations = new Map(entries(written.conversations, (view) => readView(view, board)));
  return board;
}

/** @param {Json | undefined} map @param {(value: Json) => any} read @returns {Array<[string, any]>} */
const entries = (map, read) => Object.entries(map ?? {}).map(([key, value]) => [key, read(value)]);

/** @param {Json} cell */
const readCell = ({ kind, ...fields }) => makeCell(kind, fields);

/** @param {Json} written @param {Board} board */
function readView(written, board) {
  const cells = (written.cells ?? []).map((/** @type {Json} */ cell) => board.questions.get(cell.key) ?? readCell(cell));
  const queued = (written.queued ?? []).map((/** @type {Json} */ message) => ({ attachments: 0, ...message }));
  const view = makeView(written.id, { ...written, cells, queued });
  for (const cell of view.cells) relink(view, /** @type {any} */ (cell));
  return view;
}

/** Find again what is open. @param {import("../types.js").ConversationView} view @param {any} cell */
function relink(view, cell) {
  if (cell.done) return;
  if (isCall(cell)) view.open_calls.set(cell.call_id, cell);
  else if (cell.kind === "plan") view.plan = cell;
  else if (view.task_id !== null && (cell.kind === "assistant_text" || cell.kind === "reasoning")) view.growing.set(cell.item_id, cell);
}

/** The board as JSON, without what is as it is by default. @param {Board} board @returns {Json} */
export function writeSnapshot(board) {
  /** @type {Json} */
  const written = {};
  const empty = new Board();
  for (const name of PLAIN_FIELDS) {
    const value = /** @type {Json} */ (board)[name];
    if (value !== /** @type {Json} */ (empty)[name]) written[name] = value;
  }
  addMap(written, "conversations", board.conversations, writeView);
  addMap(written, "questions", board.questions, writeCell);
  addMap(written, "servers", board.servers, (server) => withoutDefaults(server, { error: null }));
  addMap(written, "task_owners", board.task_owners, (id) => id);
  return written;
}

/** @param {Json} written @param {string} name @param {Map<string, any>} map @param {(value: any) => any} write */
function addMap(written, name, map, write) {
  if (map.size) written[name] = Object.fromEntries([...map].map(([key, value]) => [key, write(value)]));
}

/** @param {import("../types.js").ConversationView} view */
function writeView(view) {
  const links = { growing: {}, open_calls: {}, plan: null };
  const queued = view.queued.map((message) => withoutDefaults(message, { attachments: 0 }));
  return withoutDefaults({ ...view, ...links, queued, cells: view.cells.map(writeCell) }, VIEW_DEFAULTS);
}

/** @param {Json} cell */
const writeCell = (cell) => withoutDefaults(cell, DEFAULTS[cell.kind] ?? {});

/** @param {Json} fields @param {Json} defaults */
function withoutDefaults(fields, defaults) {
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) => !(name in defaults && same(value, defaults[name]))));
}

/** @param {any} value @param {any} standard */
function same(value, standard) {
  if (standard === null || typeof standard !== "object") return value === standard;
  return value !== null && typeof value === "object" && Object.keys(value).length === 0;
}
