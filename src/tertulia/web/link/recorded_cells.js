// Cells made of the events of a record, a page of them at a time, from the end backwards: what no snapshot has.

import { Board } from "../board/board.js";
import { isCall } from "../board/cells.js";

/** @typedef {import("./rpc.js").Link} Link */
/** @typedef {import("../types.js").Cell} Cell */
/** @typedef {{events: any[], first_n: number | null, last_n: number | null, at_start: boolean}} RecordPage */

const PAGE = 400;

/** Fold events of a record in. @param {Board} board @param {any[]} events @param {number} [from] the first of them that is taken @param {number} [to] */
export function takeRecorded(board, events, from = 0, to = events.length) {
  for (let index = from; index < to; index += 1) {
    const event = events[index];
    const { new: isNew, conversation_id } = board.take(event);
    // Of what a fork was begun with some has no number that would tell one cell from another.
    const cell = event.copied && isNew ? board.conversations.get(conversation_id ?? "")?.cells.at(-1) : null;
    if (cell?.key.endsWith("null")) cell.key = `copy${event.n}.${index}`;
  }
}

/** The reason why texts of these events are not there; "" where they are. @param {any[]} events @returns {string} */
export const whyNotStored = (events) => events.find((event) => event.not_stored)?.not_stored ?? "";

/** What the end of a record shows of one conversation, long before all of a long record was read.
 * @param {Link} link @param {string} session_id @param {string} conversation_id */
export async function lastCells(link, session_id, conversation_id) {
  const { events, at_start } = await link.request("record/page", { session_id, conversation_id, limit: PAGE });
  const board = new Board();
  board.session_id = session_id;
  board.root_id = conversation_id === "root" ? (events[0]?.conversation_id ?? null) : null;
  takeRecorded(board, events);
  for (const view of board.conversations.values()) view.dropped = at_start ? 0 : 1;
  return { board, notStored: whyNotStored(events) };
}

/** Where the cells of a snapshot begin that follow each other: calls that are still open stand before them, however old. @param {Cell[]} cells */
function beginOf(cells) {
  const place = cells.findIndex((cell) => cell.seq !== null && !(isCall(cell) && !(/** @type {any} */ (cell).done)));
  return Math.max(0, place);
}

/** The cells of one conversation before those that a snapshot has. */
export class OlderCells {
  /** @param {Link} link @param {string} session_id @param {string} conversation_id @param {number} [last] the record that is looked at, where it is not the last */
  constructor(link, session_id, conversation_id, last = Infinity) {
    this.link = link;
    this.of = { session_id, conversation_id };
    this.last = last;
    /** @type {Cell[]} */
    this.cells = [];
    /** How many have been put before others so far. */
    this.prepended = 0;
    /** Where the next page ends. @type {number | null} */
    this.before = null;
    this.atStart = false;
    /** What happened after these cells and may belong to one of them. @type {any[]} */
    this.after = [];
  }

  /** Read one page more. @param {Cell[]} newer the cells that follow @returns {Promise<boolean>} false: the record does not have them */
  async read(newer) {
    const page = await this.page(newer);
    if (!page || whyNotStored(page.events)) return false;
    const known = new Set(newer.map((cell) => cell.key));
    const found = this.fold(page.events).filter((cell) => !known.has(cell.key));
    this.cells = [...found, ...this.cells];
    this.prepended += found.length;
    this.before = page.first_n;
    this.atStart = page.at_start || page.first_n === null;
    this.after = page.events;
    return true;
  }

  /** @param {Cell[]} newer @returns {Promise<RecordPage | null>} */
  async page(newer) {
    if (this.before !== null) return this.link.request("record/page", { ...this.of, before_n: this.before, limit: PAGE });
    const before_seq = newer[beginOf(newer)]?.seq;
    if (!before_seq) return null;
    const page = await this.link.request("record/page", { ...this.of, before_seq, limit: PAGE });
    const { events } = await this.link.request("record/page", { ...this.of, after_n: page.last_n ?? 0, limit: PAGE });
    this.after = events.filter((/** @type {any} */ event) => event.n <= this.last);
    return page;
  }

  /** The cells of a page, as they are by now: a call of it may have ended after it. @param {any[]} events @returns {Cell[]} */
  fold(events) {
    const board = new Board();
    const cells = () => board.conversations.get(this.of.conversation_id)?.cells ?? [];
    takeRecorded(board, events);
    const count = cells().length;
    takeRecorded(board, this.after);
    return cells().slice(0, count);
  }

  /** Go on with a new snapshot. @param {Cell[]} shown the cells of the old one @param {Cell[]} cells of the new one
   * @returns {boolean} false: cells between are missing */
  goOn(shown, cells) {
    const first = cells[beginOf(cells)]?.key;
    const all = [...this.cells, ...shown.slice(beginOf(shown))];
    const place = all.findIndex((cell) => cell.key === first);
    if (place >= 0) this.cells = all.slice(0, place);
    return place >= 0;
  }
}
