// What the last message of a conversation did to files, and its undo: shown first, done when the user says so.

import { html, useState } from "../parts/html.js";
import { FileDiff, filesOf } from "../parts/diff.js";
import { useAnswer } from "../parts/answer.js";
import { app, useTopics } from "../app_state.js";

/** @type {Record<string, string>} */
const VERBS = { added: "comes back", deleted: "goes", modified: "changes back" };

/** @param {{feed: any, view: import("../types.js").ConversationView | null}} props */
export function Files({ feed, view }) {
  useTopics(feed ? `s/${feed.sessionId}/totals` : "tree");
  if (!feed || !view || feed.replays) return null;
  return html`<${Changes} key=${view.id} feed=${feed} view=${view} />`;
}

/** @param {{feed: any, view: import("../types.js").ConversationView}} props */
function Changes({ feed, view }) {
  const [plan, setPlan] = useState(/** @type {any} */ (null));
  const [turn, setTurn] = useState(0);
  const about = { session_id: feed.sessionId, conversation_id: view.id };
  const { answer, error } = useAnswer("checkpoint/diff", about, `${view.input_tokens} ${turn}`);
  /** @param {boolean} dry_run */
  const restore = (dry_run) =>
    app.attempt(async () => {
      const shown = await app.link.call("checkpoint/restore", { ...about, dry_run });
      setPlan(dry_run ? shown : { ...shown, done: true });
      if (!dry_run) setTurn(turn + 1);
    });
  const empty = html`<div class="empty calm"><p>${error || "No message here has changed files, or all of it is undone."}</p></div>`;
  return html`<div class="server-head lead"><h2>Files</h2><span class="space"></span>
      <button type="button" class="quiet" disabled=${!answer || Boolean(error)} onClick=${() => restore(true)}>Undo…</button></div>
    ${plan && html`<${Plan} plan=${plan} act=${() => restore(false)} leave=${() => setPlan(null)} />`}
    ${error || !answer ? empty : filesOf(answer.diff).map((file) => html`<${FileDiff} key=${file.path} file=${file} open=${true} />`)}
    ${answer && html`<p class="dim">${answer.not_captured}</p>`}`;
}

/** @param {{plan: any, act: () => void, leave: () => void}} props */
function Plan({ plan, act, leave }) {
  return html`<section class="server" aria-label="Undo">
    <ul>${plan.files.map((/** @type {any} */ file) => html`<li>${file.path} ${VERBS[file.status] ?? file.status}</li>`)}
      ${plan.left.map((/** @type {any} */ file) => html`<li class="warn">left: ${file.path}: ${file.reason}</li>`)}</ul>
    ${plan.done
      ? html`<p class="ok">Undone.</p><button type="button" class="quiet" onClick=${leave}>Close</button>`
      : html`<button type="button" disabled=${!plan.files.length} onClick=${act}>Undo these</button> <button type="button" class="quiet" onClick=${leave}>Leave them</button>`}
  </section>`;
}
