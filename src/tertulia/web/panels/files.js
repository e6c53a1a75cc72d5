// What the last message of a conversation did to files, and its undo: shown first, done when the user says so.

import { html, useState } from "../parts/html.js";
import { FileDiff, filesOf } from "../parts/diff.js";
import { useAnswer } from "../parts/answer.js";
import { app, useTopics } from "../app_state.js";

/** @type {Record<string, string>} */
const VERBS = { added: "comes back", deleted: "goes", modified: "changes back" };
/** @type {Record<string, string>} */
const DONE = { added: "came back", deleted: "is gone", modified: "changed back" };

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
  /** @param {Record<string, any>} how */
  const restore = (how) =>
    app.attempt(async () => {
      setPlan(await app.link.call("checkpoint/restore", { ...about, ...how }));
      if (!how.dry_run) setTurn(turn + 1);
    });
  const empty = html`<div class="empty calm"><p>${error || "No message here has changed files, or all of it is undone."}</p></div>`;
  return html`<div class="server-head lead"><h2>Files</h2><span class="space"></span>
      <button type="button" class="quiet" disabled=${!answer || Boolean(error)} onClick=${() => restore({ dry_run: true })}>Undo…</button></div>
    ${plan && html`<${Plan} plan=${plan} act=${restore} leave=${() => setPlan(null)} />`}
    ${error || !answer ? empty : filesOf(answer.diff).map((file) => html`<${FileDiff} key=${file.path} file=${file} open=${true} />`)}
    ${answer && html`<p class="dim">${answer.not_captured}</p>`}`;
}

/** @param {{plan: any, act: (how: Record<string, any>) => void, leave: () => void}} props */
function Plan({ plan, act, leave }) {
  const verbs = plan.restored ? DONE : VERBS;
  return html`<section class="server" aria-label="Undo">
    <ul>${plan.files.map((/** @type {any} */ file) => html`<li>${file.path} ${verbs[file.status] ?? file.status}</li>`)}
      ${plan.left.map((/** @type {any} */ file) => html`<li class="warn">left: ${file.path}: ${file.reason}</li>`)}</ul>
    ${plan.dry_run ? html`<${Choices} plan=${plan} act=${act} leave=${leave} />` : html`<${Outcome} plan=${plan} act=${act} leave=${leave} />`}
  </section>`;
}

/** Before it is done. @param {{plan: any, act: (how: Record<string, any>) => void, leave: () => void}} props */
const Choices = ({ plan, act, leave }) => html`
  <button type="button" disabled=${!plan.files.length} onClick=${() => act({})}>Undo these</button>
  ${plan.left.length > 0 && html` <button type="button" class="danger" onClick=${() => act({ force: true })}>Undo all, also what others changed</button>`}
  <button type="button" class="quiet" onClick=${leave}>Leave them</button>`;

/** And after it. @param {{plan: any, act: (how: Record<string, any>) => void, leave: () => void}} props */
const Outcome = ({ plan, act, leave }) => html`
  <p class=${plan.restored ? "ok" : "dim"}>${plan.restored ? "Done." : "No file had to be changed."}</p>
  ${plan.undo_id && html`<button type="button" onClick=${() => act({ id: plan.undo_id })}>Take this back</button>`}
  <button type="button" class="quiet" onClick=${leave}>Close</button>`;
