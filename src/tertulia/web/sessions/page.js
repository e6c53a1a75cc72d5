// All sessions of this machine: those that run here, those of other processes, those that are stored; and a search.

import { age, counted, dollars, grouped } from "../board/text.js";
import { html, useEffect, useState } from "../parts/html.js";
import { useAnswer } from "../parts/answer.js";
import { app, useTopics } from "../app_state.js";
import { MARKS, sessionName, sessionState } from "./menu.js";
import { DeleteSession } from "./stored_acts.js";

/** @typedef {import("../types.js").RecordSummary} RecordSummary */

const PAGE = 50;
const TYPED_MS = 250;
/** @type {Array<[RecordSummary["state"], string]>} */
const GROUPS = [["here", "Running here"], ["elsewhere", "Running in other processes"], ["stored", "Stored"]];

/** The page that the address `#/` leads to. */
export function SessionsPage() {
  useTopics("sessions");
  const [typed, setTyped] = useState("");
  const [query, setQuery] = useState("");
  const [limit, setLimit] = useState(PAGE);
  useEffect(() => {
    const timer = setTimeout(() => setQuery(typed.trim()), TYPED_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const running = [...app.cards.values()].map((card) => `${card.session_id} ${card.state}`).join();
  const [deleted, setDeleted] = useState(0);
  const { answer, error } = useAnswer("record/list", { limit, ...(query ? { query } : {}) }, `${running} ${deleted}`);
  const records = withRunning(/** @type {RecordSummary[]} */ (answer?.records ?? []).filter((record) => !record.purpose), query);
  return html`<div class="sessions-page">
    <div class="sessions-head">
      <h2>Sessions</h2><span class="space"></span>
      <input type="search" aria-label="Search sessions" placeholder="Search sessions" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} />
      <button type="button" class="primary" onClick=${() => void app.startSession()}>New session</button>
    </div>
    ${error && html`<p class="bad">${error}</p>`}
    ${GROUPS.map(([state, title]) => html`<${Group} key=${state} title=${title} records=${records.filter((record) => record.state === state)} gone=${() => setDeleted(deleted + 1)} />`)}
    ${answer && !records.length && html`<p class="empty">${query ? "No session fits." : "There is no session yet. Start one here, or in a terminal with tertulia."}</p>`}
    ${query && html`<${Hits} query=${query} />`}
    ${answer?.next && html`<button type="button" class="earlier" onClick=${() => setLimit(Math.min(500, limit * 2))}>Older sessions</button>`}
  </div>`;
}

/** Sessions that store nothing are in no record: they are listed as far as they run. @param {RecordSummary[]} records @param {string} query */
function withRunning(records, query) {
  if (query) return records;
  const known = new Set(records.map((record) => record.session_id));
  const more = [...app.cards.values()].filter((card) => !known.has(card.session_id));
  return [...more.map((card) => ({ ...card, state: card.where, items: 0, storage: /** @type {const} */ ("none") })), ...records];
}

/** @param {{title: string, records: RecordSummary[], gone: () => void}} props `gone`: one of them was deleted */
function Group({ title, records, gone }) {
  if (!records.length) return null;
  return html`<section aria-label=${title}><h3>${title} <span class="dim">${records.length}</span></h3>
    <ul class="session-rows">${records.map((record) => html`<${Row} key=${record.session_id} record=${record} gone=${gone} />`)}</ul></section>`;
}

/** @param {{record: RecordSummary, gone: () => void}} props */
function Row({ record, gone }) {
  const id = record.session_id;
  const card = app.cards.get(id);
  const live = record.state !== "stored" && card ? sessionState(id, card) : { look: "idle", word: record.storage === "full" ? "" : "not all of it is stored" };
  const facts = [
    record.conversations > 1 && counted(record.conversations, "conversation"),
    record.tokens > 0 && `${grouped(record.tokens)} tokens`,
    record.cost_usd != null && dollars(record.cost_usd),
    record.model,
    record.cwd,
  ].filter(Boolean);
  const name = (!card && (record.title || record.preview)) || sessionName(id, card);
  return html`<li class="session-item"><button type="button" class=${`session-row is-${live.look}`} onClick=${() => app.go({ session: id, page: "transcript" })}>
    <span class="mark" aria-hidden="true">${record.state === "stored" ? "·" : MARKS[live.look]}</span>
    <span class="row-text"><span class="row-name">${name}</span>
      <span class="facts-line">${live.word && html`<span class="row-act">${live.word}</span> · `}${facts.join(" · ")}</span>${record.error && html`<span class="bad">${record.error}</span>`}</span>
    <span class="dim when">${record.last_active_at && age(record.last_active_at, Date.now())}</span>
  </button>${record.state === "stored" && html`<${DeleteSession} id=${id} name=${name} gone=${gone} />`}</li>`;
}

/** Where the words stand in the records. @param {{query: string}} props */
function Hits({ query }) {
  const { answer } = useAnswer("record/search", { query, limit: 30 });
  if (!answer?.hits?.length) return null;
  return html`<section aria-label="Found in texts"><h3>Found in texts</h3><ul class="session-rows">
    ${answer.hits.map((/** @type {any} */ hit) => html`<li key=${`${hit.session_id} ${hit.n}`}><button type="button" class="session-row"
      onClick=${() => app.go({ session: hit.session_id, conversation: hit.conversation_id ?? null, n: String(hit.n), page: "transcript" })}>
      <span class="row-text"><span class="excerpt">${hit.excerpt}</span><span class="row-act">${sessionName(hit.session_id, app.cards.get(hit.session_id))}</span></span>
      <span class="dim when">${hit.at && age(hit.at, Date.now())}</span></button></li>`)}
  </ul></section>`;
}
