// Everything that waits for a person's answer, in all sessions, oldest first; and what was answered lately.

import { answerText, counted } from "../board/text.js";
import { html, useRef } from "../parts/html.js";
import { app, useTopics } from "../app_state.js";
import { lazy } from "../parts/lazy.js";
import { sessionName } from "../sessions/menu.js";

/** @typedef {{feed: import("../link/session_feed.js").SessionFeed, cell: any}} OpenQuestion */

const ApprovalCard = lazy(async () => (await import("./approval_card.js")).ApprovalCard);
const ElicitationCard = lazy(async () => (await import("./elicitation_card.js")).ElicitationCard);
const LATELY = 6;
/** Cards that are drawn; the others come as these are answered. */
const MOST_CARDS = 40;

/** @returns {OpenQuestion[]} */
export function openQuestions() {
  const all = [...app.feeds.values()].flatMap((feed) => [...(feed.board?.questions.values() ?? [])].map((cell) => ({ feed, cell })));
  return all.sort((a, b) => (a.cell.ts < b.cell.ts ? -1 : 1));
}

/** Cards for all questions. */
export function Approvals() {
  useTopics("questions", "sessions", "route");
  const open = openQuestions();
  const answered = useAnswered(open);
  return html`<div class="approvals">
    <h2 class="unseen">Approvals</h2>
    ${open.slice(0, MOST_CARDS).map(({ feed, cell }) => {
      const View = cell.kind === "elicitation" ? ElicitationCard : ApprovalCard;
      const session = feed.sessionId === app.route.session ? null : sessionName(feed.sessionId, app.cards.get(feed.sessionId));
      return html`<${View} key=${`${feed.sessionId} ${cell.key}`} feed=${feed} cell=${cell} session=${session} />`;
    })}
    ${open.length > MOST_CARDS && html`<p class="dim">${counted(open.length - MOST_CARDS, "more question waits", "more questions wait")}, and come here as these are answered.</p>`}
    ${open.length === 0 && html`<div class="empty calm">
      <p>No question waits.</p>
      <p class="dim">What a conversation of any session asks comes here, and the first answer counts, wherever it is given.</p>
    </div>`}
    ${answered.length > 0 && html`<section class="answered" aria-label="Answered lately">
      <h3>Answered lately</h3>
      <ul>${answered.map((cell) => html`<li key=${cell.key}>${answeredLine(cell)}</li>`)}</ul>
    </section>`}
  </div>`;
}

/** Questions that were open here and are answered now, the newest first. @param {OpenQuestion[]} open @returns {any[]} */
function useAnswered(open) {
  const seen = useRef(/** @type {Map<string, any>} */ (new Map()));
  const now = new Set(open.map(({ cell }) => cell.key));
  for (const { cell } of open) seen.current.set(cell.key, cell);
  const answered = [...seen.current.values()].filter((cell) => !now.has(cell.key) && (cell.answer || cell.action));
  for (const cell of answered.slice(0, -LATELY)) seen.current.delete(cell.key);
  return answered.slice(-LATELY).reverse();
}

/** @param {any} cell */
function answeredLine(cell) {
  const yes = cell.kind === "elicitation" ? cell.action === "accept" : cell.answer.decision === "allow";
  const title = cell.kind === "elicitation" ? cell.request.message : cell.request.title;
  const words = cell.kind === "elicitation" ? cell.action : answerText(cell.answer);
  return html`<span class=${yes ? "yes" : "no"} aria-hidden="true">${yes ? "✓" : "✗"}</span> ${title} <span class="dim">${words}</span>`;
}
