// What a model was sent with one request, and the proof of it.

import { counted } from "../board/text.js";
import { html, useState } from "../parts/html.js";
import { useAnswer } from "../parts/answer.js";
import { app, useTopics } from "../app_state.js";
import { clock } from "../timeline/lanes.js";
import { lastUpTo, useOutline } from "../timeline/outline.js";

/** @type {Record<string, [string, string]>} */
const VERDICTS = { same: ["✓", "ok"], different: ["✗", "bad"], unknown: ["?", "warn"] };
const MOST_REQUESTS = 200;
/** Parts of a long request that are drawn at first. */
const [HEAD, TAIL] = [20, 60];

/** @param {{feed: any, view: import("../types.js").ConversationView | null}} props */
export function Prompt({ feed, view }) {
  useTopics("route", feed ? `s/${feed.sessionId}/totals` : "tree");
  if (!feed || !view) return null;
  return html`<${Requests} key=${view.id} feed=${feed} view=${view} />`;
}

/** @param {{feed: any, view: import("../types.js").ConversationView}} props */
function Requests({ feed, view }) {
  const { outline, error } = useOutline(feed.sessionId, feed.replays ? "" : String(view.input_tokens));
  const [chosen, setChosen] = useState(/** @type {number | null} */ (null));
  if (error) return html`<p class="dim">What was sent is read from the record: ${error}</p>`;
  if (!outline) return null;
  const requests = outline.requests.filter((request) => request.conversation_id === view.id);
  const newest = app.route.n === null ? requests[requests.length - 1] : lastUpTo(requests, Number(app.route.n)) ?? requests[0];
  const n = chosen ?? newest?.n;
  if (!n) return html`<div class="empty calm"><p>No request was sent to a model here yet.</p></div>`;
  const at = requests.findIndex((request) => request.n === n);
  const choose = (/** @type {any} */ event) => setChosen(Number(event.currentTarget.value));
  const listed = requests.map((request, index) => ({ request, index })).slice(-MOST_REQUESTS).reverse();
  return html`<div class="prompt-head lead">
      <button type="button" class="quiet" disabled=${at <= 0} onClick=${() => setChosen(requests[at - 1]?.n ?? n)} aria-label="The request before">‹</button>
      <label>Request <select value=${n} onChange=${choose}>${listed.map(({ request, index }) => html`<option value=${request.n}>${index + 1} of ${requests.length}, ${clock(request.at)}</option>`)}</select></label>
      <button type="button" class="quiet" disabled=${at < 0 || at >= requests.length - 1} onClick=${() => setChosen(requests[at + 1]?.n ?? n)} aria-label="The request after">›</button>
      ${String(n) !== app.route.n && html`<button type="button" class="quiet" onClick=${() => app.go({ n: String(n) })}>Go there</button>`}
    </div>
    <${Request} key=${n} sessionId=${feed.sessionId} n=${n} />`;
}

/** @param {{sessionId: string, n: number}} props */
function Request({ sessionId, n }) {
  const { answer, error } = useAnswer("record/prompt", { session_id: sessionId, n });
  const [more, setMore] = useState(/** @type {{parts: any[], next: number | null} | null} */ (null));
  if (error) return html`<p class="bad">${error}</p>`;
  if (!answer) return html`<p class="dim">Reading…</p>`;
  const [mark, look] = VERDICTS[answer.verdict] ?? ["?", "warn"];
  const before = answer.before;
  const same = before?.same_parts ?? 0;
  const parts = withTexts(answer.parts, more?.parts ?? []);
  const next = more ? more.next : answer.next_offset;
  const readOn = () =>
    app.attempt(async () => {
      const rest = await app.link.request("record/prompt", { session_id: sessionId, n, offset: next });
      setMore({ parts: [...(more?.parts ?? []), ...rest.parts], next: rest.next_offset ?? null });
    });
  return html`<div class=${`verdict is-${answer.verdict}`}><span class=${look} aria-hidden="true">${mark}</span> ${answer.sentence}</div>
    <dl class="facts-list prompt-facts">
      <div><dt>model</dt><dd>${answer.model}</dd></div>
      <div><dt>size</dt><dd class="number">${answer.bytes.toLocaleString()} bytes in ${parts.length} parts</dd></div>
      <div><dt>digest</dt><dd><code>${answer.digest}</code></dd></div>
      ${before && html`<div><dt>before</dt><dd>the first ${same} parts are those of the request before: ${answer.cached_prefix_bytes.toLocaleString()} bytes that a cache can give${before.removed_parts ? `; ${before.removed_parts} parts of it are gone` : ""}</dd></div>`}
    </dl>
    <${Parts} key=${n} parts=${parts} same=${before ? same : Infinity} />
    ${next !== null && next !== undefined && html`<button type="button" onClick=${readOn}>Read more of the texts</button>`}`;
}

/** Of many parts the first and the last, between them a button for the rest. @param {{parts: any[], same: number}} props */
function Parts({ parts, same }) {
  const [all, setAll] = useState(parts.length <= HEAD + TAIL + 1);
  const drawn = (/** @type {any} */ part) => html`<${Part} key=${part.index} part=${part} isNew=${part.index >= same} />`;
  if (all) return html`<ol class="prompt-parts">${parts.map(drawn)}</ol>`;
  return html`<ol class="prompt-parts">${parts.slice(0, HEAD).map(drawn)}
    <li key="rest"><button type="button" class="quiet" onClick=${() => setAll(true)}>${counted(parts.length - HEAD - TAIL, "more part")}</button></li>
    ${parts.slice(-TAIL).map(drawn)}</ol>`;
}

/** The parts, with pieces of texts that came later at their ends. @param {any[]} parts @param {any[]} more @returns {any[]} */
function withTexts(parts, more) {
  const texts = new Map(parts.map((part) => [part.index, part.text]));
  for (const part of more) if (part.text) texts.set(part.index, (texts.get(part.index) ?? "") + part.text);
  return parts.map((part) => ({ ...part, text: texts.get(part.index) }));
}

/** @param {{part: any, isNew: boolean}} props */
function Part({ part, isNew }) {
  const [open, setOpen] = useState(false);
  const name = part.name === "item" ? itemName(part) : part.name;
  return html`<li class=${isNew ? "is-new" : ""}><details onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary><span class="part-name">${name}</span> <span class="number dim">${part.bytes.toLocaleString()} B</span>
      ${isNew && html`<span class="badge">new</span>`} <code class="dim preview">${(part.digest ?? "").slice(0, 12)}</code></summary>
    ${open && html`<${PartText} part=${part} />`}
  </details></li>`;
}

/** @param {{part: any}} props */
function PartText({ part }) {
  if (part.text !== undefined && part.text !== null) return html`<pre class="request-text">${part.text}</pre>`;
  return html`<p class="dim">${part.not_stored ? `Not stored: ${part.not_stored}.` : "Its text comes with more of the texts."}</p>`;
}

/** What an item is, in words. @param {{type?: string, role?: string, tool?: string}} part */
function itemName({ type = "", role = "", tool }) {
  if (type === "tool_call") return tool ? `call of ${tool}` : "call";
  return { user: "user", assistant: "assistant", tool_output: "output of a call" }[type] ?? (type || role);
}
