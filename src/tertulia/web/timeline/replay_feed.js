// A stored session as it was at one record: what a view needs of a feed, from `record/board` instead of events.

import { readSnapshot } from "../board/snapshot.js";
import { Feed } from "../link/feed.js";
import { OlderCells } from "../link/recorded_cells.js";

/** @typedef {import("../board/board.js").Board} Board */

/** While a person moves; more once they stay. */
const MOVING_CELLS = 24;
const RESTING_CELLS = 240;
const REST_MS = 400;
/** Stands for no record; the first one is 1. */
const NOTHING = 0;

/** One session of the past, or the past of one that runs. */
export class ReplayFeed extends Feed {
  /** @param {import("../link/rpc.js").Link} link @param {string} sessionId @param {(feed: any, changes: import("../types.js").Changes | null) => void} onChange */
  constructor(link, sessionId, onChange) {
    super(link, sessionId, onChange);
    this.whole = true;
    this.replays = true;
    /** The time of the newest thing that is shown, in milliseconds since 1970. */
    this.at = 0;
    this.wanted = NOTHING;
    this.shown = NOTHING;
    this.reading = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.rest = undefined;
  }

  /** Show this record. While one is being read, only the newest request is remembered. @param {number} n */
  async goTo(n) {
    if (n === this.wanted && this.state !== "failed") return;
    this.wanted = n;
    clearTimeout(this.rest);
    if (this.reading) return;
    this.reading = true;
    while (this.shown !== this.wanted) {
      const at_n = this.wanted;
      try {
        await this.readBoard(at_n, MOVING_CELLS);
        this.notStored ??= (await this.endOfRecord()).notStored;
      } catch (error) {
        this.state = "failed";
        this.error = error instanceof Error ? error.message : String(error);
      }
      this.shown = this.state === "failed" ? NOTHING : at_n;
      this.onChange(this, null);
      if (this.state === "failed" && this.wanted === at_n) break;
    }
    this.reading = false;
    this.rest = setTimeout(() => void this.complete(this.shown), REST_MS);
  }

  /** @param {number} at_n @param {number} max_cells */
  async readBoard(at_n, max_cells) {
    const { board } = await this.boardAt(at_n, max_cells);
    // More of what is shown comes too late where a person has gone on, or up.
    if (max_cells !== MOVING_CELLS && (at_n !== this.wanted || this.older.size)) return;
    this.board = withKnownCells(this.board, readSnapshot(board));
    this.older.clear();
    this.at = lastTime(this.board);
    this.state = "live";
  }

  /** A person stays here: have more of the cells, to find in them and to weave them. @param {number} n */
  async complete(n) {
    const views = [...(this.board?.conversations.values() ?? [])];
    if (n === NOTHING || this.reading || this.older.size || !views.some((view) => view.dropped > 0)) return;
    try {
      await this.readBoard(n, RESTING_CELLS);
      this.onChange(this, null);
    } catch {
      // What is shown is right; there could only have been more of it.
    }
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
    const known = new Map(before?.conversations.get(view.id)?.cells.map((cell) => [cell.key, cell]));
    view.cells = view.cells.map((cell) => {
      const old = known.get(cell.key);
      return old && JSON.stringify(old) === JSON.stringify(cell) ? old : cell;
    });
  }
  return board;
}

/** @param {Board} board */
function lastTime(board) {
  const times = [...board.conversations.values()].map((view) => view.cells[view.cells.length - 1]?.ts ?? view.since ?? "");
  return Date.parse(times.sort().pop() ?? "") || 0;
}
