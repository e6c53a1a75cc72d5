// Folds the events of a session into what the page shows. It does what view/board.py does, event for event: the golden
// cases of tests/view/cases run through both.

import { CALL_FOLDS } from "./call_events.js";
import { NOTHING } from "./changes.js";
import { makeView, stopView } from "./conversation_view.js";
import { MESSAGE_FOLDS } from "./message_events.js";
import { TASK_FOLDS } from "./task_events.js";

/** @typedef {import("../types.js").EventEnvelope} EventEnvelope */
/** @typedef {import("../types.js").ConversationView} ConversationView */
/** @typedef {import("../types.js").Changes} Changes */

/** @type {Map<string, import("../types.js").Fold>} */
const FOLDS = new Map(Object.entries({ ...TASK_FOLDS, ...MESSAGE_FOLDS, ...CALL_FOLDS }));

/** A board that follows a session. Only `take`, `read` and `stop` change it. */
export class Board {
  constructor() {
    /** @type {string | null} */
    this.session_id = null;
    this.epoch = 0;
    this.seq = 0;
    this.model = "";
    /** @type {string | null} */
    this.root_id = null;
    /** @type {Map<string, ConversationView>} */
    this.conversations = new Map();
    /** @type {Map<string, any>} */
    this.questions = new Map();
    /** @type {Map<string, import("../types.js").ServerView>} */
    this.servers = new Map();
    this.input_tokens = 0;
    this.cached_input_tokens = 0;
    this.output_tokens = 0;
    /** @type {number | null} */
    this.cost_usd = null;
    /** @type {Map<string, string>} */
    this.task_owners = new Map();
  }

  /**
   * Fold one event in. A durable event that was taken before changes nothing.
   * @param {EventEnvelope} event
   * @returns {Changes}
   */
  take(event) {
    const { seq } = event;
    if (seq !== null) {
      if (event.epoch === this.epoch && seq <= this.seq) return NOTHING;
      this.epoch = event.epoch;
      this.seq = seq;
    }
    const fold = FOLDS.get(event.type);
    return fold ? fold(this, event, event.data) : NOTHING;
  }

  /**
   * The conversation of an event; one whose beginning this reader has not seen begins here.
   * @param {EventEnvelope} event
   * @returns {ConversationView}
   */
  view(event) {
    const id = event.conversation_id || this.root_id || "";
    let view = this.conversations.get(id);
    if (!view) this.conversations.set(id, (view = makeView(id)));
    return view;
  }

  /** All conversations, each below its parent, in the order in which they were opened. @returns {ConversationView[]} */
  tree() {
    /** @type {Map<string | null, ConversationView[]>} */
    const children = new Map();
    for (const view of this.conversations.values()) {
      const parent = view.parent_id !== null && this.conversations.has(view.parent_id) ? view.parent_id : null;
      const siblings = children.get(parent);
      if (siblings) siblings.push(view);
      else children.set(parent, [view]);
    }
    /** @type {ConversationView[]} */
    const ordered = [];
    const waiting = [...(children.get(null) ?? [])].reverse();
    for (let view = waiting.pop(); view; view = waiting.pop()) {
      ordered.push(view);
      waiting.push(...[...(children.get(view.id) ?? [])].reverse());
    }
    return ordered;
  }

  /** From the first conversation that waits for this one, down to it. @param {string} id @returns {string[]} */
  chain(id) {
    /** @type {string[]} */
    const path = [];
    /** @type {string | null} */
    let at = id;
    while (at !== null && !path.includes(at)) {
      path.push(at);
      at = this.conversations.get(at)?.caller_id ?? null;
    }
    return path.reverse();
  }

  /** The conversations that have a task at work; those that wait for others aside. @returns {string[]} */
  running() {
    return [...this.task_owners.values()].filter((id) => this.conversations.get(id)?.waits === false);
  }

  /** The process of the session has ended, perhaps without a word, and no event will tell it. */
  stop() {
    this.questions.clear();
    this.task_owners.clear();
    for (const view of this.conversations.values()) stopView(view);
  }

  /** A person has seen all of this conversation. @param {string} id */
  read(id) {
    const view = this.conversations.get(id);
    if (view) view.unread = 0;
  }
}
