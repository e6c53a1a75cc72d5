// The state of the page: the connection, the sessions, what is chosen. Views read it, and change it by its methods.

import { useEffect, useReducer } from "./parts/html.js";
import { decoded, Link, takeToken } from "./link/rpc.js";
import { SessionFeed } from "./link/session_feed.js";
import { Topics } from "./link/topics.js";

/** @typedef {import("./types.js").SessionCard} SessionCard */
/** @typedef {{session: string | null, conversation: string | null, panel: string, page: string, n: string | null, all: boolean}} Route */

/** Sessions that are followed; of more the questions come when there are some. */
const MAX_FEEDS = 300;
const HIDDEN_AFTER_MS = 3_000;
/** The pages of a narrow screen. */
export const PAGES = ["conversations", "transcript", "panel"];

/** All of the page's state. */
export class AppState {
  constructor() {
    this.topics = new Topics();
    this.link = new Link(takeToken());
    /** @type {Map<string, SessionFeed>} */
    this.feeds = new Map();
    /** @type {Map<string, SessionCard>} */
    this.cards = new Map();
    /** @type {Route} */
    this.route = readRoute();
    /** The address that `route` was read from, or that was made from it. */
    this.address = location.hash;
    /** The past of the chosen session, while it is looked at. @type {import("./timeline/replay_feed.js").ReplayFeed | null} */
    this.replay = null;
    this.weave = false;
    this.finding = false;
    this.helping = false;
    /** A sentence for the person, and for screen readers. */
    this.notice = "";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.noticeTimer = undefined;
    this.inBackground = false;
    this.making = false;
    this.link.onState = (state) => this.linkChanged(state);
    this.link.onNotification = (method, params) => this.notified(method, params);
  }

  /** Connect, and watch the address and the visibility of the page. */
  start() {
    addEventListener("hashchange", () => this.setRoute(readRoute()));
    document.addEventListener("visibilitychange", () => this.visibilityChanged());
    this.link.start();
  }

  // ── the connection ───────────────────────────────────────────────────────────────────────────────────────────

  /** @param {string} state */
  linkChanged(state) {
    if (state === "open") void this.connected();
    this.topics.touch("link", "tree");
  }

  async connected() {
    const known = [...this.feeds.values()];
    await this.attempt(() => this.followHost());
    // Also one that does not run: the address may name a stored session.
    if (this.route.session) this.feed(this.route.session);
    this.showPast();
    for (const feed of known) void feed.load();
  }

  /** Hear of all sessions, and attend to their questions. */
  async followHost() {
    const { sessions } = await this.link.call("host/subscribe", {});
    this.setCards(sessions);
  }

  /** @param {SessionCard[]} cards */
  setCards(cards) {
    const ids = new Set(cards.map((card) => card.session_id));
    for (const card of cards) this.setCard(card);
    for (const id of this.cards.keys()) if (!ids.has(id)) this.dropCard(id);
    this.chooseFirst();
    this.topics.touch("sessions");
  }

  /** @param {SessionCard} card */
  setCard(card) {
    this.cards.set(card.session_id, card);
    // What is asked where no client attends is denied at once: so this page attends before there is a question.
    if (this.feeds.size < MAX_FEEDS || card.questions > 0) this.feed(card.session_id);
    this.topics.touch("sessions");
  }

  /** @param {string} id */
  dropCard(id) {
    this.cards.delete(id);
    if (id !== this.route.session) this.feeds.delete(id);
    else void this.feeds.get(id)?.load();
    this.topics.touch("sessions", "questions");
  }

  /** A session is deleted: nothing of it is held any more. @param {string} id */
  forget(id) {
    this.feeds.delete(id);
    if (this.replay?.sessionId === id) this.replay = null;
    this.topics.touch("sessions", "questions");
  }

  /** The feed of a session; made where there is none. @param {string} id @returns {SessionFeed} */
  feed(id) {
    let feed = this.feeds.get(id);
    if (!feed) {
      feed = new SessionFeed(this.link, id, (one, changes) => this.feedChanged(one, changes));
      this.feeds.set(id, feed);
      feed.whole = id === this.route.session;
      feed.wanted = feed.whole ? this.route.conversation : null;
      if (this.link.state === "open") void feed.load();
    }
    return feed;
  }

  /** @param {SessionFeed} feed @param {import("./types.js").Changes | null} changes */
  feedChanged(feed, changes) {
    const id = feed.sessionId;
    if (changes === null) {
      if (id === this.route.session && feed.board) this.chooseConversation(feed);
      const conversations = [...(feed.board?.conversations.keys() ?? [])].map((one) => `s/${id}/c/${one}`);
      this.topics.touch("sessions", "questions", `s/${id}`, `s/${id}/tree`, `s/${id}/totals`, ...conversations);
      return;
    }
    if (changes.conversation_id !== null) this.topics.touch(`s/${id}/c/${changes.conversation_id}`);
    if (changes.tree) this.topics.touch(`s/${id}/tree`, "sessions");
    if (changes.tree && changes.conversation_id === null) this.topics.touch(`s/${id}`);
    if (changes.questions) this.topics.touch("questions", "sessions");
    if (changes.servers) this.topics.touch(`s/${id}/servers`);
    if (changes.totals) this.topics.touch(`s/${id}/totals`);
  }

  /** @param {string} method @param {any} params */
  notified(method, params) {
    if (method === "event") this.feeds.get(params.session_id)?.take(params);
    else if (method === "host_event") this.hostChanged(params);
  }

  /** @param {{type: string, session: SessionCard}} event */
  hostChanged(event) {
    if (event.type === "session_closed") this.dropCard(event.session.session_id);
    else this.setCard(event.session);
    this.chooseFirst();
  }

  /** A page in the background hears only of what stays, and takes a new snapshot when it comes back. */
  visibilityChanged() {
    const feed = this.selected();
    if (!document.hidden) {
      if (this.inBackground && feed) void feed.load();
      this.inBackground = false;
      return;
    }
    setTimeout(() => {
      if (!document.hidden || this.inBackground) return;
      this.inBackground = true;
      if (feed?.state === "live") void feed.load();
    }, HIDDEN_AFTER_MS);
  }

  // ── what is chosen ───────────────────────────────────────────────────────────────────────────────────────────

  /** The feed of the chosen session, or of its past. @returns {SessionFeed | null} */
  selected() {
    if (this.replay && this.replay.sessionId === this.route.session) return /** @type {any} */ (this.replay);
    return (this.route.session && this.feeds.get(this.route.session)) || null;
  }

  chooseFirst() {
    if (this.route.session || this.route.all) return;
    const newest = [...this.cards.values()].sort((a, b) => (a.last_active_at < b.last_active_at ? 1 : -1))[0];
    if (newest) this.go({ session: newest.session_id }, true);
  }

  /** @param {SessionFeed} feed */
  chooseConversation(feed) {
    const chosen = this.route.conversation;
    if (chosen && feed.board?.conversations.has(chosen)) return;
    const first = feed.board?.root_id ?? feed.board?.conversations.keys().next().value ?? null;
    if (first && first !== chosen) this.go({ conversation: first }, true);
  }

  /** Change what is chosen, and the address with it. @param {Partial<Route>} change @param {boolean} [replace] */
  go(change, replace = false) {
    // The person has gone elsewhere, which we are about to hear of: that counts.
    if (replace && location.hash !== this.address) return;
    const other = change.session !== undefined && change.session !== this.route.session;
    const route = { ...this.route, ...(other ? { conversation: null, n: null } : {}), ...change };
    route.all = route.session === null;
    const address = writeRoute(route);
    if (address !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", address);
    this.setRoute(route);
  }

  /** @param {Route} route */
  setRoute(route) {
    const before = this.route;
    this.route = route;
    this.address = location.hash;
    if (route.session !== before.session) {
      this.feeds.get(before.session ?? "")?.follow(false);
      if (route.session) this.feed(route.session).follow(true);
    }
    this.showPast();
    const feed = this.selected();
    if (feed?.board && !route.conversation) this.chooseConversation(feed);
    this.topics.touch("route");
  }

  /** Where the address names a record, the session is shown as it was there. */
  showPast() {
    const { session, n } = this.route;
    if (!session || !n) {
      this.replay = null;
      return;
    }
    if (this.replay?.sessionId === session) void this.replay.goTo(Number(n));
    else void this.attempt(() => this.openPast(session));
  }

  /** @param {string} session */
  async openPast(session) {
    const { ReplayFeed } = await import("./timeline/replay_feed.js");
    // A person may have gone elsewhere meanwhile.
    if (this.route.session !== session || !this.route.n) return;
    if (this.replay?.sessionId !== session) this.replay = new ReplayFeed(this.link, session, (feed) => this.feedChanged(feed, null), () => this.cards.has(session));
    void this.replay.goTo(Number(this.route.n));
  }

  /** @param {boolean} finding */
  setFinding(finding) {
    this.finding = finding;
    this.topics.touch("find");
  }

  /** @param {boolean} helping */
  setHelping(helping) {
    this.helping = helping;
    this.topics.touch("help");
  }

  /** @param {boolean} weave */
  setWeave(weave) {
    this.weave = weave;
    this.topics.touch("weave");
  }

  /** Tell the person something, for a while. @param {string} text */
  say(text) {
    this.notice = text;
    clearTimeout(this.noticeTimer);
    this.noticeTimer = setTimeout(() => this.say(""), text ? 8_000 : 1e9);
    this.topics.touch("notice");
  }

  /** Begin a session and choose it. */
  startSession() {
    return this.make(async () => {
      const { session_id } = await this.link.call("session/start", {});
      this.go({ session: session_id, page: "transcript" });
    });
  }

  /** Make something; a second click on the button while it is made makes no other. @param {() => Promise<void>} act */
  async make(act) {
    if (this.making) return;
    this.making = true;
    await this.attempt(act);
    this.making = false;
  }

  /** Do what a person asked for; where it fails, say why. @param {() => Promise<void>} act */
  async attempt(act) {
    try {
      await act();
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error));
    }
  }
}

/** @returns {Route} */
function readRoute() {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?");
  const found = /^\/s\/([^/]+)(?:\/c\/([^/]+))?/.exec(path);
  const fields = new URLSearchParams(query);
  return {
    session: found?.[1] ? decoded(found[1]) : null,
    conversation: found?.[2] ? decoded(found[2]) : null,
    panel: fields.get("panel") ?? "approvals",
    page: PAGES.find((page) => page === fields.get("page")) ?? "transcript",
    n: /^[1-9][0-9]{0,11}$/.exec(fields.get("n") ?? "")?.[0] ?? null,
    all: location.hash.startsWith("#/") && !found,
  };
}

/** @param {Route} route */
function writeRoute(route) {
  const session = route.session ? `/s/${encodeURIComponent(route.session)}` : "/";
  const conversation = route.session && route.conversation ? `/c/${encodeURIComponent(route.conversation)}` : "";
  const fields = new URLSearchParams();
  if (route.panel !== "approvals") fields.set("panel", route.panel);
  if (route.page !== "transcript") fields.set("page", route.page);
  if (route.n) fields.set("n", route.n);
  const query = fields.toString();
  return `#${session}${conversation}${query ? `?${query}` : ""}`;
}

/** The one state of this page. */
export const app = new AppState();

/** Draw this view again when one of these topics is touched. @param {...string} topics */
export function useTopics(...topics) {
  const [, redraw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  useEffect(() => app.topics.on(topics, () => redraw(undefined)), [topics.join(" ")]);
}
