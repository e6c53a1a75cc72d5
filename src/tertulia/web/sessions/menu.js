// The chosen session, and the list of those that run.

import { stateOf } from "../board/conversation_view.js";
import { age, counted, shortName } from "../board/text.js";
import { classes, html, useEffect, useRef, useState } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";

/** @typedef {import("../types.js").SessionCard} SessionCard */

/** What a session is called: its title, else what was first said in it.
 * @param {string} id @param {SessionCard | undefined} card */
export function sessionName(id, card) {
  if (card?.title || card?.preview) return card.title || card.preview || "";
  const board = app.feeds.get(id)?.board;
  const root = board?.root_id ? board.conversations.get(board.root_id) : undefined;
  const first = root?.cells.find((cell) => cell.kind === "user_text");
  if (root?.title) return root.title;
  return first?.kind === "user_text" ? first.text.split("\n")[0]?.slice(0, 60) || shortName(id) : `session ${shortName(id)}`;
}

/** @param {string} id @param {SessionCard | undefined} card @returns {{look: string, word: string}} */
export function sessionState(id, card) {
  const feed = app.feeds.get(id);
  const board = feed?.board;
  const questions = board ? board.questions.size : (card?.questions ?? 0);
  if (questions) return { look: "asking", word: `${counted(questions, "question")} for you` };
  if (feed && !card && feed.state !== "live" && feed.state !== "loading") return { look: "idle", word: "does not run" };
  const running = board ? board.task_owners.size : (card?.running ?? 0);
  if (running) return { look: "running", word: `${running} at work` };
  const failed = board && [...board.conversations.values()].some((view) => stateOf(view) === "failed");
  return failed ? { look: "failed", word: "failed" } : { look: "idle", word: "ready" };
}

/** @type {Record<string, string>} */
export const MARKS = { asking: "?", running: "●", failed: "✗", idle: "○" };

/** A button with the session's name, and below it the list. */
export function SessionsMenu() {
  useTopics("sessions", "route");
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    const close = (/** @type {Event} */ event) => {
      if (!box.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [open]);
  const id = app.route.session;
  const pressed = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && setOpen(false);
  const others = [...app.cards.values()].filter((card) => card.session_id !== id && sessionState(card.session_id, card).look === "asking").length;
  return html`<div class="sessions" ref=${box} onKeyDown=${pressed}>
    <button type="button" class="session-button" aria-haspopup="true" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      ${id ? html`<${SessionLine} id=${id} />` : "All sessions"} <span aria-hidden="true">▾</span>
      ${others > 0 && html`<span class="badge asking" title="Other sessions ask you">${others}</span>`}
    </button>
    ${open && html`<div class="session-list">
      <h2>Sessions that run <span class="dim">${app.cards.size}</span></h2>
      <ul>${[...app.cards.values()].sort(byImportance).slice(0, 100).map((card) => html`<li key=${card.session_id}>
        <button type="button" class=${classes("session-choice", card.session_id === id && "chosen")} aria-current=${card.session_id === id ? "true" : undefined}
          onClick=${() => (setOpen(false), app.go({ session: card.session_id, page: "transcript" }))}>
          <${SessionLine} id=${card.session_id} card=${card} />
          <span class="dim session-more">${[card.model, card.where === "elsewhere" ? `in ${card.process?.program ?? "another process"}` : null, card.last_active_at && age(card.last_active_at, Date.now())].filter(Boolean).join(" · ")}</span>
        </button></li>`)}
      </ul>
      <button type="button" class="quiet" onClick=${() => (setOpen(false), app.go({ session: null, page: "transcript" }))}>All sessions</button>
      <button type="button" class="quiet" onClick=${() => (setOpen(false), void app.startSession())}>New session</button>
    </div>`}
  </div>`;
}

/** @param {SessionCard} a @param {SessionCard} b */
function byImportance(a, b) {
  const order = ["asking", "running", "failed", "idle"];
  const rank = (/** @type {SessionCard} */ card) => order.indexOf(sessionState(card.session_id, card).look);
  return rank(a) - rank(b) || (a.last_active_at < b.last_active_at ? 1 : -1);
}

/** @param {{id: string, card?: SessionCard}} props */
function SessionLine({ id, card = app.cards.get(id) }) {
  const { look, word } = sessionState(id, card);
  return html`<span class=${`session-line is-${look}`}><span class="mark" aria-hidden="true">${MARKS[look]}</span><span class="session-name">${sessionName(id, card)}</span> <span class="dim session-state">${word}</span></span>`;
}
