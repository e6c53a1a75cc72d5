// Follows one session without loss: a snapshot of its board, then every event after it. Whatever may have been missed
// (a lost connection, a reader that was too slow, a new life of the session) is made good by a new snapshot.

import { changed } from "../board/changes.js";
import { readSnapshot } from "../board/snapshot.js";
import { Feed } from "./feed.js";
import { lastCells, OlderCells } from "./recorded_cells.js";
import { RpcError } from "./rpc.js";

/** @typedef {import("../board/board.js").Board} Board */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("./feed.js").FeedState} FeedState */

const FIRST_CELLS = 240;
/** After any record. */
const END = 2 ** 52;
const RELOAD_MS = 1_000;
/** What a session that is not looked at is followed for: its state and its questions. */
const FEW_TYPES = [
  "session_configured", "conversation_opened", "conversation_closed", "task_started", "task_continued", "task_complete",
  "turn_aborted", "approval_request", "approval_resolved", "elicitation_request", "elicitation_resolved", "tool_call_begin",
  "tool_call_end",
];

/** One session, followed wholly or for its questions alone. */
export class SessionFeed extends Feed {
  /** @param {import("./rpc.js").Link} link @param {string} sessionId @param {(feed: SessionFeed, changes: import("../types.js").Changes | null) => void} onChange */
  constructor(link, sessionId, onChange) {
    super(link, sessionId, onChange);
    this.notStored = "";
    /** The conversation that is looked at first, where one was chosen. @type {string | null} */
    this.wanted = null;
    this.maxCells = FIRST_CELLS;
    this.turn = 0;
    this.reloadPlanned = false;
    this.lastLoad = -Infinity;
    /** How many cells of each conversation a person has seen. @type {Map<string, number> | null} */
    this.seen = null;
  }

  /** Follow the session wholly, or only for its questions. @param {boolean} whole */
  follow(whole) {
    if (whole === this.whole && this.board) return;
    this.whole = whole;
    void this.load();
  }

  /** Have more of the older cells of a conversation: from its record, or where that has no texts, from the server's memory.
   * @param {string} id */
  async loadMore(id) {
    const older = this.older.get(id) ?? new OlderCells(this.link, this.sessionId, id);
    if (await this.readOlder(older)) {
      this.older.set(id, older);
      this.onChange(this, moreCells(id));
    } else if (this.state === "live") {
      this.maxCells *= 4;
      await this.load();
    }
  }

  /** Show another board of the session. @param {Board} board */
  show(board) {
    for (const [id, older] of this.older) {
      const cells = board.conversations.get(id)?.cells ?? [];
      if (!older.goOn(this.board?.conversations.get(id)?.cells ?? [], cells)) this.older.delete(id);
    }
    this.board = board;
  }

  /** Take a new snapshot and go on from there. What comes in the meantime comes again. */
  async load() {
    const turn = ++this.turn;
    this.lastLoad = performance.now();
    if (!this.board) this.state = "loading";
    try {
      const session_id = this.sessionId;
      const answer = await this.link.call("session/board", { session_id, max_cells: this.whole ? this.maxCells : 1 });
      if (turn !== this.turn) return;
      await this.subscribe(answer.seq);
      if (turn !== this.turn) return;
      const board = readSnapshot(answer.board);
      board.epoch = answer.epoch;
      board.seq = answer.seq;
      this.show(board);
      this.state = "live";
      this.notStored = "";
      this.seen ??= new Map([...board.conversations].map(([id, view]) => [id, view.unread]));
    } catch (error) {
      if (turn !== this.turn) return;
      this.fail(error);
      if (this.state === "gone" && this.whole) await this.loadStored(turn);
      if (turn !== this.turn) return;
      if (this.state === "gone") this.board?.stop();
    }
    this.onChange(this, null);
  }

  /** Show what the record has of a session that does not run. @param {number} turn */
  async loadStored(turn) {
    try {
      const { board, notStored } = await this.lastCells();
      if (turn !== this.turn) return;
      this.notStored = notStored;
      this.partial = true;
      if (!this.board && board.conversations.size) this.showStored(board);
      const answer = await this.boardAt(END, FIRST_CELLS);
      if (turn !== this.turn) return;
      this.partial = false;
      this.showStored(readSnapshot(answer.board));
    } catch (error) {
      // It is not stored, or its record cannot be read: what was shown last stays.
      if (turn === this.turn && !this.board) this.fail(error, "failed");
    }
  }

  /** The last cells of the conversation that is looked at; of the root where the record has no such one. */
  async lastCells() {
    try {
      return await lastCells(this.link, this.sessionId, this.wanted ?? "root");
    } catch (error) {
      if (!this.wanted) throw error;
      return lastCells(this.link, this.sessionId, "root");
    }
  }

  /** Show this of a record, in which nothing goes on. @param {Board} board */
  showStored(board) {
    board.stop();
    this.show(board);
    this.state = "stored";
    this.seen = new Map([...board.conversations].map(([id, view]) => [id, view.unread]));
    this.onChange(this, null);
  }

  /** A page in the background hears only of what stays. @param {number} after */
  async subscribe(after) {
    const few = this.whole ? {} : { types: FEW_TYPES };
    const passing = this.whole && !document.hidden;
    await this.link.call("events/subscribe", { session_id: this.sessionId, after_seq: after, attend: true, passing, ...few });
  }

  /** @param {unknown} error @param {FeedState} [gone] the state where there is no such session */
  fail(error, gone = "gone") {
    const code = error instanceof RpcError ? error.code : "internal";
    if (code === "away") return;
    this.state = code === "not_found" || code === "closed" ? gone : "failed";
    this.error = error instanceof Error ? error.message : String(error);
  }

  /** An event of this session has come. @param {import("../types.js").EventEnvelope} event */
  take(event) {
    if (this.state !== "live" || !this.board) return;
    if (event.type === "subscriber_lagged" || (event.seq !== null && event.epoch !== this.board.epoch)) {
      this.reloadSoon();
      return;
    }
    this.onChange(this, this.board.take(event));
  }

  /** Take a new snapshot, at most one a second. */
  reloadSoon() {
    if (this.reloadPlanned) return;
    this.reloadPlanned = true;
    const wait = Math.max(0, this.lastLoad + RELOAD_MS - performance.now());
    setTimeout(() => {
      this.reloadPlanned = false;
      void this.load();
    }, wait);
  }

  /** How many cells worth reading came since a person looked. @param {ConversationView} view */
  unread(view) {
    return Math.max(0, view.unread - (this.seen?.get(view.id) ?? 0));
  }

  /** A person has seen all of this conversation. @param {string} id */
  read(id) {
    const view = this.board?.conversations.get(id);
    if (!view || !this.unread(view)) return;
    this.seen?.set(id, view.unread);
    this.onChange(this, moreCells(id));
  }
}

/** What has changed with more cells of a conversation. @param {string} id @returns {import("../types.js").Changes} */
const moreCells = (id) => changed({ conversation_id: id, tree: true });
