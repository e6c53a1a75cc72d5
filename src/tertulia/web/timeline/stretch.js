// A stretch of a record that was read ahead: the board at its beginning and the events after it. A step inside it asks
// the server nothing.

import { readSnapshot } from "../board/snapshot.js";
import { takeRecorded } from "../link/recorded_cells.js";

/** @typedef {import("../board/board.js").Board} Board */

/** Events of a stretch, and how many records before the one that is looked at it begins. */
const EVENTS = 600;
const BEFORE = 300;
const FEW = 80;
/** Of each conversation at its beginning. */
const CELLS = 240;

/** The boards of all records of one stretch. */
export class Stretch {
  /** @param {number} first @param {any} board that of the first record, as it was sent @param {any} page what came after it */
  constructor(first, board, page) {
    this.first = first;
    this.last = page.last_n ?? first;
    this.atEnd = page.at_end;
    /** @type {any[]} */
    this.events = page.events;
    this.beginning = board;
    /** The board that was folded last, and how many of the events it has. */
    this.board = readSnapshot(structuredClone(board));
    this.taken = 0;
  }

  /** Whether a record lies in it. @param {number} n */
  has(n) {
    return n >= this.first && n <= this.last;
  }

  /** Whether few of it are left in the direction of a step. @param {number} n @param {number} way */
  runsOut(n, way) {
    return way < 0 ? this.first > 1 && n - this.first < FEW : !this.atEnd && this.last - n < FEW;
  }

  /** No process goes on with what its last board shows: it is folded anew for the next step. */
  stop() {
    this.board.stop();
    this.taken = Infinity;
  }

  /** The board at a record: the same one, folded on, where that lies further on. @param {number} n @returns {Board} */
  at(n) {
    const count = countUpTo(this.events, n);
    if (count < this.taken) {
      this.board = readSnapshot(structuredClone(this.beginning));
      this.taken = 0;
    }
    takeRecorded(this.board, this.events, this.taken, count);
    this.taken = count;
    return this.board;
  }
}

/** How many of the events are not after a record. @param {any[]} events @param {number} n */
function countUpTo(events, n) {
  const next = events.findIndex((event) => event.n > n);
  return next < 0 ? events.length : next;
}

/** Read the stretch around a record. @param {import("../link/feed.js").Feed} feed @param {number} n */
export async function readStretch(feed, n) {
  const { n: first, board } = await feed.boardAt(Math.max(1, n - BEFORE), CELLS);
  const page = await feed.link.request("record/page", { session_id: feed.sessionId, after_n: first, limit: EVENTS });
  return new Stretch(first, board, page);
}
