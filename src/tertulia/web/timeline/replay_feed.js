// A stored session as it was at one record: what a view needs of a feed, from `record/board` instead of events.

import { readSnapshot } from "../board/snapshot.js";
import { Feed } from "../link/feed.js";

/** @typedef {import("../board/board.js").Board} Board */

const FIRST_CELLS = 150;
const MOST_CELLS = 500;
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
    this.maxCells = FIRST_CELLS;
  }

  /** Show this record. Where one is being read, only the newest wish counts. @param {number} n */
  async goTo(n) {
    this.wanted = n;
    if (this.reading) return;
    this.reading = true;
    while (this.shown !== this.wanted) {
      const at_n = this.wanted;
      try {
        const answer = await this.boardAt(at_n, this.maxCells);
        this.notStored ??= (await this.endOfRecord()).notStored;
        this.board = readSnapshot(answer.board);
        this.at = lastTime(this.board);
        this.state = "live";
      } catch (error) {
        this.state = "failed";
        this.error = error instanceof Error ? error.message : String(error);
      }
      this.shown = this.state === "failed" ? NOTHING : at_n;
      this.onChange(this, null);
      if (this.state === "failed" && this.wanted === at_n) break;
    }
    this.reading = false;
  }

  /** Have more of the older cells. */
  async loadMore() {
    this.maxCells = MOST_CELLS;
    this.shown = NOTHING;
    await this.goTo(this.wanted);
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

/** @param {Board} board */
function lastTime(board) {
  const times = [...board.conversations.values()].map((view) => view.cells[view.cells.length - 1]?.ts ?? view.since ?? "");
  return Date.parse(times.sort().pop() ?? "") || 0;
}
