// What a view needs of a session, whether it is followed or replayed: its board, its state, and why texts are not there.

/** @typedef {import("../board/board.js").Board} Board */
/** @typedef {import("./rpc.js").Link} Link */
/** @typedef {"loading" | "live" | "stored" | "gone" | "failed"} FeedState `stored`: it does not run, its record is shown */

const LAST_EVENTS = 50;

/** One session of the server. Who shows it is told of each change. */
export class Feed {
  /**
   * @param {Link} link
   * @param {string} sessionId
   * @param {(feed: any, changes: import("../types.js").Changes | null) => void} onChange null: all is new
   */
  constructor(link, sessionId, onChange) {
    this.link = link;
    this.sessionId = sessionId;
    this.onChange = onChange;
    /** @type {Board | null} */
    this.board = null;
    /** @type {FeedState} */
    this.state = "loading";
    this.error = "";
    /** Why texts of its record are not there; "" where they are, null until it was looked up. @type {string | null} */
    this.notStored = null;
    /** Whether it is followed wholly, or for its questions alone. */
    this.whole = false;
    /** Whether it shows the past. */
    this.replays = false;
    /** The record that is shown, where it does. */
    this.shown = 0;
    /** Whether only the end of a record is known so far. */
    this.partial = false;
    /** What is shown before the cells of the board, by conversation. @type {Map<string, import("./recorded_cells.js").OlderCells>} */
    this.older = new Map();
  }

  /** The number of the last record, and the reason where texts of the last ones are not there.
   * @returns {Promise<{last_n: number, notStored: string}>} */
  async endOfRecord() {
    const { last_n, events } = await this.link.request("record/page", { session_id: this.sessionId, limit: LAST_EVENTS });
    return { last_n, notStored: events.find((/** @type {any} */ event) => event.not_stored)?.not_stored ?? "" };
  }

  /** The session as it was at a record. @param {number} at_n @param {number} max_cells */
  async boardAt(at_n, max_cells) {
    return this.link.request("record/board", { session_id: this.sessionId, at_n, max_cells });
  }

  /** Whether there are older cells of a conversation now. @param {import("./recorded_cells.js").OlderCells} older */
  async readOlder(older) {
    try {
      return await older.read(this.board?.conversations.get(older.of.conversation_id)?.cells ?? []);
    } catch {
      return false;
    }
  }
}
