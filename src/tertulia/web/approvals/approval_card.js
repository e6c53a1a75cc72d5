// One approval: which conversation asks, through which callers, for what exactly, where, how confined, why, and what a yes allows.

import { namesOf, setterText } from "../board/text.js";
import { classes, html, useState } from "../parts/html.js";
import { useNow } from "../parts/now.js";
import { useTopics } from "../app_state.js";
import { cardKey, timeLeft, useResolve } from "./answering.js";
import { WholeDetail } from "./whole_detail.js";

/** @typedef {import("../types.js").ApprovalRequest} ApprovalRequest */

/** @type {Record<string, string>} */
const ACTS = {
  exec: "asks to run a command",
  patch: "asks to change files",
  escalation: "asks to leave the sandbox",
  network: "asks to reach a host",
};
/** @type {Array<[number | null, string]>} */
const TIMES = [[null, "until it closes"], [300, "for 5 min"], [3_600, "for 1 h"], [28_800, "for 8 h"]];
const SHORT_S = 60;

/** @param {ApprovalRequest} request */
function actOf(request) {
  const tool = request.tool || "a tool";
  return ACTS[request.kind] ?? (request.server ? `asks to use ${tool} of ${request.server}` : `asks to use ${tool}`);
}

/** @param {{feed: any, cell: import("../types.js").ApprovalCell, session: string | null}} props */
export function ApprovalCard({ feed, cell, session }) {
  useTopics(`s/${feed.sessionId}`);
  const { request } = cell;
  const [scope, setScope] = useState(/** @type {string} */ (request.scopes[0] ?? "once"));
  const [time, setTime] = useState(0);
  const [reason, setReason] = useState("");
  const [whole, setWhole] = useState(!request.hidden);
  const { busy, resolve } = useResolve(feed, request.approval_id);
  const allow = () => whole && resolve({ decision: "allow", scope, ...(TIMES[time]?.[0] && scope !== "once" ? { ttl_s: TIMES[time]?.[0] } : {}) });
  const deny = () => resolve({ decision: "deny", ...(reason.trim() ? { message: reason.trim() } : {}) });
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const act = { y: allow, n: deny }[cardKey(event) ?? ""];
    if (!act) return;
    event.preventDefault();
    void act();
  };
  const denyByEnter = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (reason.trim()) void deny();
  };
  const chain = [...request.chain, request.conversation_id].map(namesOf(feed.board)).join(" › ");
  return html`<article class=${classes("card", leaves(request) && "leaves")} tabindex="0" aria-label=${`${chain} ${actOf(request)}`} onKeyDown=${pressed}>
    <header>
      ${session !== null && html`<div class="dim whose-session">in ${session}</div>`}
      <div class="card-title"><span class="who">${chain}</span> <span class="act">${actOf(request)}</span><${TimeLeft} at=${request.expires_at} /></div>
    </header>
    <${WholeDetail} feed=${feed} request=${request} whole=${() => setWhole(true)} />
    <${Facts} request=${request} />
    <${Matches} request=${request} />
    <${Scopes} request=${request} scope=${scope} setScope=${setScope} time=${time} setTime=${setTime} name=${namesOf(feed.board)(request.conversation_id)} />
    <div class="card-buttons">
      <button type="button" class="yes-button" disabled=${busy || !whole} onClick=${allow}>${whole ? "Allow" : "Fetching all of it…"} ${whole && scopeWord(scope, namesOf(feed.board)(request.conversation_id))}</button>
      <textarea rows="1" class="reason" aria-label="Why not; the model reads it" placeholder="No, because…" title="The model reads it" value=${reason}
        onInput=${(/** @type {any} */ event) => setReason(event.target.value)} onKeyDown=${denyByEnter}></textarea>
      <button type="button" class="no-button" disabled=${busy} onClick=${deny}>Deny</button>
    </div>
    <p class="dim keys-hint">With this card focused: <kbd>y</kbd> allow, <kbd>n</kbd> deny.</p>
  </article>`;
}

/** @param {ApprovalRequest} request */
const leaves = (request) => request.kind === "escalation" || Boolean(request.sandbox?.startsWith("danger"));

/** @param {{at: string | null | undefined}} props */
function TimeLeft({ at }) {
  const now = useNow(Boolean(at));
  if (!at) return null;
  const soon = Date.parse(at) - now < SHORT_S * 1000;
  return html`<span class=${classes("time-left", soon && "soon")} title="No answer by then is a no" aria-label=${`${timeLeft(at, now)} left`} role="timer" aria-live="off">${timeLeft(at, now)}</span>`;
}

/** @param {{request: ApprovalRequest}} props */
function Facts({ request }) {
  const rows = [
    ["in", request.cwd, ""],
    ["sandbox", request.sandbox && (leaves(request) ? `LEAVES IT: ${request.sandbox}` : request.sandbox), leaves(request) ? "bad" : ""],
    ["because", request.because && `${request.because.rule}, set by ${setterText(request.because.set_by)}`, ""],
    ["changed", request.changed?.length ? `since the last yes: ${request.changed.join(", ")}` : null, "warn"],
    ["its reason", request.justification, ""],
  ].filter(([, value]) => value);
  return html`<dl class="facts-list">${rows.map(([name, value, look]) => html`<div><dt>${name}</dt><dd class=${look}>${value}</dd></div>`)}</dl>`;
}

/** @param {{request: ApprovalRequest}} props */
function Matches({ request }) {
  if (!request.matches.length) return null;
  return html`<details class="matches"><summary>What a yes for longer matches</summary>
    <p class="dim">Exactly this, and nothing else:</p>
    <ul>${request.matches.map((match) => html`<li>${match}</li>`)}</ul>
  </details>`;
}

/** @param {string} scope @param {string} name */
function scopeWord(scope, name) {
  return { once: "once", conversation: `for ${name}`, session: "for the session", project: "for the project" }[scope] ?? scope;
}

/** @param {any} props */
function Scopes({ request, scope, setScope, time, setTime, name }) {
  if (request.scopes.length < 2) return html`<p class="dim only-once">A yes holds ${scopeWord(scope, name)}.</p>`;
  return html`<fieldset class="scopes"><legend>A yes holds</legend>
    ${request.scopes.map((/** @type {string} */ one) => html`<label><input type="radio" name=${`scope-${request.approval_id}`} value=${one} checked=${one === scope} onChange=${() => setScope(one)} /> ${scopeWord(one, name)}</label>`)}
    ${(scope === "conversation" || scope === "session") && html`<select aria-label="How long" value=${String(time)} onChange=${(/** @type {any} */ event) => setTime(Number(event.target.value))}>
      ${TIMES.map(([, word], index) => html`<option value=${String(index)}>${word}</option>`)}
    </select>`}
  </fieldset>`;
}
