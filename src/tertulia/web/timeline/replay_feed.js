// A stored session as it was at one record: what a view needs of a feed, from `record/board` instead of events.

import { readSnapshot } from "../board/snapshot.js";
import { Feed } from "../link/feed.js";
import { OlderCells } from "../link/recorded_cells.js";
import { readStretch } from "./stretch.js";

/** @typedef {import("../board/board.js").Board} Board */
/** @typedef {import("./stretch.js").Stretch} Stretch */

/** Of each conversation, of a record that was not read ahead. */
const MOVING_CELLS = 16;
const REST_MS = 150;
/** A step that is not longer is likely to be followed by others. */
const NEAR = 100;
/** The newest cells of a conversation: those that are drawn. */
const DRAWN_CELLS = 160;
/** Stands for no record; the first one is 1. */
const NOTHING = 0;

/** One session of the past, or the past of one that runs. */
export class ReplayFeed extends Feed {
  /** @param {import("../link/rpc.js").Link} link @param {string} sessionId
   * @param {(feed: any, changes: import("../types.js").Changes | null) => void} onChange @param {() => boolean} runs whether the session runs */
  constructor(link, sessionId, onChange, runs) {
    super(link, sessionId, onChange);
    this.runs = runs;
    this.whole = true;
    this.replays = true;
    /** The time of the newest thing that is shown, in milliseconds since 1970. */
    this.at = 0;
    this.wanted = NOTHING;
    this.shown = NOTHING;
    this.reading = false;
    /** The last record with an event, as far as it was looked up. */
    this.end = Infinity;
    /** What was read ahead. @type {Stretch | null} */
    this.stretch = null;
    this.readingAhead = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.rest = undefined;
  }

  /** Show this record. While one is being read, only the newest request is remembered. @param {number} n */
  async goTo(n) {
    if (n === this.wanted && this.state !== "failed") return;
    const way = n - this.wanted;
    this.wanted = n;
    clearTimeout(this.rest);
    if (this.stretch?.has(n) && !this.isEnd(n)) {
      this.show(n, this.stretch.at(n));
      if (this.stretch.runsOut(n, way)) void this.readAhead(n);
      return;
    }
    if (this.reading) return;
    this.reading = true;
    while (this.shown !== this.wanted) {
      const at_n = this.wanted;
      await this.readRecord(at_n);
      if (this.state === "failed" && this.wanted === at_n) break;
    }
    this.reading = false;
    if (Math.abs(way) <= NEAR) void this.readAhead(this.shown);
    else this.rest = setTimeout(() => void this.readAhead(this.shown), REST_MS);
  }

  /** @param {number} n */
  async readRecord(n) {
    try {
      const { board } = await this.boardAt(n, MOVING_CELLS);
      if (this.notStored === null || this.isEnd(n)) {
        const { last_n, notStored } = await this.endOfRecord();
        this.end = last_n;
        this.notStored ??= notStored;
      }
      const read = readSnapshot(board);
      if (this.isEnd(n)) read.stop();
      if (this.wanted === n || !this.stretch?.has(this.wanted)) this.show(n, read);
    } catch (error) {
      this.state = "failed";
      this.shown = NOTHING;
      this.error = error instanceof Error ? error.message : String(error);
      this.onChange(this, null);
    }
  }

  /** Whether a record is the last one of a process that is gone: nothing goes on there. @param {number} n */
  isEnd(n) {
    return n >= this.end && !this.runs();
  }

  /** @param {number} n @param {Board} board */
  show(n, board) {
    this.board = board === this.board ? board : withKnownCells(this.board, board);
    this.older.clear();
    this.at = lastTime(board);
    this.state = "live";
    this.shown = n;
    this.onChange(this, null);
  }

  /** Have the records around this one, and more of their cells, to find in them and to weave them. @param {number} n */
  async readAhead(n) {
    if (n === NOTHING || this.readingAhead) return;
    this.readingAhead = true;
    try {
      const stretch = await readStretch(this, n);
      this.stretch = stretch;
      // What a person sees changes only where they have not gone up to older cells.
      if (stretch.has(this.shown) && this.shown === this.wanted && !this.older.size) {
        const board = stretch.at(this.shown);
        if (this.isEnd(this.shown)) stretch.stop();
        this.show(this.shown, board);
      }
    } catch {
      // What is shown is right; the next step asks the server.
    }
    this.readingAhead = false;
  }

  /** Have more of the older cells of a conversation. @param {string} id */
  async loadMore(id) {
    const older = this.older.get(id) ?? new OlderCells(this.link, this.sessionId, id, this.shown);
    if (!(await this.readOlder(older))) return;
    this.older.set(id, older);
    this.onChange(this, null);
  }

  /** Nothing to do after a lost connection: the past has not changed. */
  async load() {}
  /** There is nothing to follow. */
  follow() {}
  /** Nothing in the past is new. */
  unread() {
    return 0;
  }
  /** Nothing in the past is new. */
  read() {}
}

/** The board, with the cells of the one before where they are the same: those are not drawn again.
 * @param {Board | null} before @param {Board} board */
function withKnownCells(before, board) {
  for (const view of board.conversations.values()) {
    const known = new Map(before?.conversations.get(view.id)?.cells.slice(-DRAWN_CELLS).map((cell) => [cell.key, cell]));
    const first = Math.max(0, view.cells.length - DRAWN_CELLS);
    view.cells = view.cells.map((cell, index) => {
      const old = index < first ? undefined : known.get(cell.key);
      return old && isDone(cell) && JSON.stringify(old) === JSON.stringify(cell) ? old : cell;
    });
  }
  return board;
}

/** Whether no event changes a cell any more: one that is still open belongs to the board that will change it. @param {any} cell */
const isDone = (cell) => cell.done !== false && !(cell.kind === "approval_question" && !cell.answer) && !(cell.kind === "elicitation" && !cell.action);

/** @param {Board} board */
function lastTime(board) {
  const times = [...board.conversations.values()].map((view) => view.cells[view.cells.length - 1]?.ts ?? view.since ?? "");
  return Date.parse(times.sort().pop() ?? "") || 0;
}
